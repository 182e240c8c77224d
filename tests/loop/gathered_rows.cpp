#include "loop/gathered_rows.h"

#include "core/convert.h"
#include "loop/main_loop.h"

#include <postlude/error.h>

namespace postlude_test {
namespace {

using namespace postlude;

constexpr std::int64_t table_rows = 5;  // of A, where a test draws it

class GatheredLoop final : public MainLoop {
 public:
  explicit GatheredLoop(const GatheredRows& gathered) : gathered_(gathered) {}

  [[nodiscard]] std::string_view name() const override { return "gather"; }
  [[nodiscard]] std::string describe() const override {
    return "gather " + std::string(postlude::name(gathered_.a)) + " x " + std::string(postlude::name(gathered_.b));
  }
  [[nodiscard]] Problem over(std::span<const DType> dtypes, bool batched) const override {
    return GatheredRows{dtypes[0], dtypes[2], batched};
  }

  [[nodiscard]] bool batched() const override { return gathered_.batched; }
  [[nodiscard]] Facts facts() const override {
    const std::vector<Input> all = inputs();
    return {.accumulator = product_accumulator(all[0], all[2]),
            .operand = default_operand(gathered_.a),
            .output = default_output(gathered_.a),
            .batched = gathered_.batched,
            .source = {}};
  }
  [[nodiscard]] std::vector<Input> inputs() const override {
    return {{.name = "A", .dtype = gathered_.a, .axes = {"T", "K"}},
            {.name = "rows", .dtype = DType::i32, .axes = {"M"}, .use = Input::Use::index},
            {.name = "B", .dtype = gathered_.b, .axes = {"K", "N"}, .packable = true}};
  }
  [[nodiscard]] std::optional<Contraction> contraction() const override {
    return Contraction{.a = gathered_.a, .b = gathered_.b, .a_form = Form::gathered};
  }

  [[nodiscard]] Domain settle(std::span<const Given> inputs) const override {
    const Given &a = inputs[0], &index = inputs[1], &b = inputs[2];
    if (a.shape[1] != b.shape[0]) {
      throw Error(ErrorCode::wrong_shape, b.text() + " has K = " + std::to_string(b.shape[0]) + " rows, but " +
                                              a.text() + " fixes K to " + std::to_string(a.shape[1]));
    }
    return {.m = {index.shape[0], 1}, .n = {b.shape[1], 2}, .k = {a.shape[1], 0}, .batch = {}};
  }
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::size_t input, const Shape& s) const override {
    if (input == 0) return {table_rows, s.k};
    return input == 1 ? std::vector{s.m} : std::vector{s.k, s.n};
  }
  [[nodiscard]] Operands operands(std::span<const Given> inputs) const override {
    const Given& index = inputs[1];
    Operands operands{inputs[0].bound(), inputs[2].bound(), {}};
    operands.addressing.a = Gathered{index.data, index.dtype, index.batch_stride, index.strides[0], inputs[0].shape[0]};
    return operands;
  }
  [[nodiscard]] std::optional<Element> element(Factor factor, std::span<const Given> inputs, std::int64_t b,
                                               std::int64_t, std::int64_t row, std::int64_t column) const override {
    if (factor == Factor::b) return element_of(inputs, 2, b, row, column);
    const Given& index = inputs[1];
    const std::int64_t from =
        core::load_integer(index.dtype, index.data, b * index.batch_stride + row * index.strides[0]);
    if (from < 0 || from >= inputs[0].shape[0]) return {};
    return element_of(inputs, 0, b, from, column);
  }

 private:
  GatheredRows gathered_;
};

}  // namespace

std::shared_ptr<const MainLoop> main_loop(const GatheredRows& gathered) {
  return std::make_shared<GatheredLoop>(gathered);
}

}  // namespace postlude_test
