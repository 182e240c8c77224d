// A sum of products that is a product of matrices runs on the main loop for it, however its operands lie; what nearly
// is one runs as its nest. Both give the sum.
#include <postlude/te.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace postlude {
namespace {

using te::Axes;
using te::Expr;

constexpr std::int64_t batches = 2, rows = 5, columns = 7, depth = 6;

struct Array {
  explicit Array(std::vector<std::int64_t> extents) : shape(std::move(extents)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i * 7 % 11 - 5));
  }
  [[nodiscard]] Tensor view() { return {values.data(), f32, std::vector<std::int64_t>(shape)}; }
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

float at(const std::vector<float>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

struct Form {
  const char* name;
  bool product;
  std::vector<std::int64_t> a, b;  // extents
  bool batched;
  Expr (*element)(const te::Tensor& a, const te::Tensor& b, const Axes& where, const te::Axis& k);
  float (*term)(const std::vector<float>& a, const std::vector<float>& b, std::int64_t z, std::int64_t i,
                std::int64_t j, std::int64_t k);
  std::int64_t first = 0;  // of k
};

const Form forms[] = {
    {"Plain",
     true,
     {rows, depth},
     {depth, columns},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[0], k) * b(k, where[1]); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) { return at(a, i * depth + k) * at(b, k * columns + j); }},
    {"OperandsSwapped",
     true,
     {depth, columns},
     {rows, depth},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(k, where[1]) * b(where[0], k); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) { return at(a, k * columns + j) * at(b, i * depth + k); }},
    {"BothTransposed",
     true,
     {depth, rows},
     {columns, depth},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(k, where[0]) * b(where[1], k); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) { return at(a, k * rows + i) * at(b, j * depth + k); }},
    {"Batched",
     true,
     {batches, rows, depth},
     {depth, batches, columns},
     true,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[0], where[1], k) * b(k, where[0], where[2]); },
     [](auto& a, auto& b, auto z, auto i, auto j, auto k) {
       return at(a, (z * rows + i) * depth + k) * at(b, (k * batches + z) * columns + j);
     }},
    {"OneOfThemBatched",
     true,
     {rows, depth},
     {batches, depth, columns},
     true,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[1], k) * b(where[0], k, where[2]); },
     [](auto& a, auto& b, auto z, auto i, auto j, auto k) {
       return at(a, i * depth + k) * at(b, (z * depth + k) * columns + j);
     }},
    {"NoneOfThemBatched",
     false,
     {rows, depth},
     {depth, columns},
     true,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[1], k) * b(k, where[2]); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) { return at(a, i * depth + k) * at(b, k * columns + j); }},
    {"AlongTheDiagonal",
     false,
     {rows, rows, depth},
     {depth, columns},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[0], where[0], k) * b(k, where[1]); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) {
       return at(a, (i * rows + i) * depth + k) * at(b, k * columns + j);
     }},
    {"WithoutRows",
     false,
     {depth, columns},
     {depth, columns},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(k, where[1]) * b(k, where[1]); },
     [](auto& a, auto& b, auto, auto, auto j, auto k) { return at(a, k * columns + j) * at(b, k * columns + j); }},
    {"WithoutDepth",
     false,
     {rows, columns},
     {depth, columns},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[0], where[1]) * b(k, where[1]); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) { return at(a, i * columns + j) * at(b, k * columns + j); }},
    {"PartOfARow",
     false,
     {rows, depth + 2},
     {depth, columns},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[0], k) * b(k, where[1]); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) {
       return at(a, i * (depth + 2) + k) * at(b, k * columns + j);
     }},
    {"PartOfAColumn",
     false,
     {rows, depth},
     {depth, columns + 1},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[0], k) * b(k, where[1]); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) {
       return at(a, i * depth + k) * at(b, k * (columns + 1) + j);
     }},
    {"FromTheSecond",
     false,
     {rows, depth},
     {depth, columns},
     false,
     [](auto& a, auto& b, auto& where, auto& k) { return a(where[0], k) * b(k, where[1]); },
     [](auto& a, auto& b, auto, auto i, auto j, auto k) { return at(a, i * depth + k) * at(b, k * columns + j); },
     1},
};

class Products : public testing::TestWithParam<Form> {};

TEST_P(Products, AreTheSum) {
  const Form& form = GetParam();
  const auto sizes = [](const std::vector<std::int64_t>& extents) {
    return std::vector<Expr>(extents.begin(), extents.end());
  };
  const te::Tensor a = te::placeholder(sizes(form.a), "A"), b = te::placeholder(sizes(form.b), "B");
  const te::Axis k = te::reduce_axis(form.first, depth, "k");
  std::vector<std::int64_t> extents{rows, columns};
  if (form.batched) extents.insert(extents.begin(), batches);
  const te::Tensor c = te::compute(
      sizes(extents), [&](const Axes& axes) { return te::sum(form.element(a, b, axes, k), {k}); }, "C");
  const te::Module module = te::build(te::create_schedule(c), {c, a, b});
  EXPECT_EQ(module.explain().starts_with("a product of matrices"), form.product) << module.explain();
  Array left(form.a), right(form.b), result(extents);
  module({result.view(), left.view(), right.view()});
  std::size_t place = 0;
  for (std::int64_t z = 0; z < (form.batched ? batches : 1); ++z)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j, ++place) {
        float sum = 0;
        for (std::int64_t n = form.first; n < depth; ++n) sum += form.term(left.values, right.values, z, i, j, n);
        ASSERT_EQ(result.values[place], sum) << z << ' ' << i << ' ' << j;
      }
}

INSTANTIATE_TEST_SUITE_P(All, Products, testing::ValuesIn(forms), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace postlude
