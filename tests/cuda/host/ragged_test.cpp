// Batches of unequal rows, as a grouped product will have them: the emitted epilogue asks its tile how many there are,
// so the answer alone is changed here, and every batch must be what a product of so many rows is.
#include "cuda/host/harness.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace postlude {
namespace {
namespace ragged {

using namespace host;

constexpr std::int64_t batches = 3, m = 150, n = 96, k = 40, pitch = n + 1;  // the copy engine stores no such rows
constexpr std::int64_t fewer = 47;                                           // rows a batch than the one before
constexpr float unwritten = -12345;

std::int64_t rows(std::int64_t batch) { return m - fewer * batch; }

const char* const epilogues[] = {
    // Places, random numbers, and reductions over rows, columns and both.
    "def all(acc, c: col[f32], r: row[f32]):\n"
    "    x = acc * c + r + m_index() + random(5)\n"
    "    D: f32 = where(m_index() > 3, x, batch_index())\n"
    "    per_row: f32 = max(x, axis=1)\n"
    "    per_column: f32 = sum(x, axis=0)\n"
    "    of_all: f32 = mean(x)\n"
    "    return D, per_row, per_column, of_all\n",
    // Rows that wait for their statistics.
    "def all(acc, c: col[f32], r: row[f32]):\n"
    "    x = acc * c + r\n"
    "    total = sum(abs(x), axis=1)\n"
    "    D: f32 = x / (total + 1)\n"
    "    per_row: f32 = total\n"
    "    return D, per_row\n"};

struct Arrays {
  std::vector<std::uint16_t> a, b;  // small integers in bf16
  std::vector<float> c, r, d, per_row, per_column, of_all;
  Arrays()
      : a(batches * m * k),
        b(batches * n * k),
        c(batches * m, 2),
        r(batches * n),
        d(batches * m * pitch),
        per_row(batches * m),
        per_column(batches * n),
        of_all(batches) {
    const auto fill = [](std::vector<std::uint16_t>& all, std::uint32_t seed) {
      constexpr std::array<std::uint16_t, 5> numbers{0xc000, 0xbf80, 0, 0x3f80, 0x4000};  // -2 ... 2
      for (std::uint16_t& x : all) x = numbers[(seed = seed * 1664525 + 1013904223) >> 16 & 3];
    };
    fill(a, 1), fill(b, 2);
    for (std::size_t i = 0; i < r.size(); ++i) r[i] = static_cast<float>(i % 7);
    poison();
  }
  void poison() {
    for (std::vector<float>* all : {&d, &per_row, &per_column, &of_all}) std::fill(all->begin(), all->end(), unwritten);
  }
  // What the text names, of the first `of` rows of every batch.
  std::vector<Binding> named(const std::string& text, std::int64_t of, Device device) {
    std::vector<Binding> all{{"A", Tensor(a.data(), bf16, {batches, of, k}, {m * k, k, 1})},
                             {"B", Tensor(b.data(), bf16, {batches, k, n}, {n * k, 1, k})},
                             {"c", Tensor(c.data(), f32, {batches, of}, {m, 1})},
                             {"r", Tensor(r.data(), f32, {batches, n})},
                             {"D", Tensor(d.data(), f32, {batches, of, n}, {m * pitch, pitch, 1})},
                             {"per_row", Tensor(per_row.data(), f32, {batches, of}, {m, 1})},
                             {"per_column", Tensor(per_column.data(), f32, {batches, n})},
                             {"of_all", Tensor(of_all.data(), f32, {batches})}};
    std::erase_if(all, [&](const Binding& one) { return one.name.size() > 1 && text.find(one.name) == text.npos; });
    for (Binding& one : all) one.tensor.device = device;
    return all;
  }
};

Plan plan_of(const char* text, Target target, const char* schedule) {
  target.schedule = schedule;
  return compile(Gemm{.a = bf16, .b = bf16, .batched = true}, parse(text), target);
}

void expect_near(float got, float wanted, const char* what, std::int64_t batch, std::int64_t i) {
  EXPECT_NEAR(got, wanted, 1e-4 * (1 + std::abs(wanted))) << what << " of batch " << batch << " at " << i;
}

TEST(Emission, BatchesHaveRowsOfTheirOwn) {
  Harness harness("emission_ragged");
  struct Running {
    const char* text;
    std::unique_ptr<Arrays> arrays;
    Call call;
  };
  std::vector<Running> all;
  for (const char* text : epilogues) {
    for (const char* schedule : {"", "mma"}) {
      if (text != epilogues[0] && *schedule) continue;  // the portable kernel holds no rows, and passes know no tiles
      auto arrays = std::make_unique<Arrays>();
      Call call = plan_of(text, Target::cuda(), schedule).bind(arrays->named(text, m, Device::cuda));
      all.push_back({text, std::move(arrays), std::move(call)});
    }
  }
  for (Running& one : all) one.call.run();
  ASSERT_TRUE(harness.compile("-Og", {"DEVICE int tile_rows(const Params& p, int) { return p.m; }",
                                      "DEVICE int tile_rows(const Params& p, int batch) { return p.m - " +
                                          std::to_string(fewer) + " * batch; }"}));
  int held = 0;
  for (Running& one : all) {
    const std::string schedule = one.call.describe();
    SCOPED_TRACE(schedule + "\n" + one.text);
    held += schedule.find("held") != schedule.npos;
    EXPECT_EQ(schedule.find("from memory"), schedule.npos);
    harness.order(7);
    one.arrays->poison();
    one.call.run();
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      Arrays wanted;
      plan_of(one.text, Target::cpu(1), "").bind(wanted.named(one.text, rows(batch), Device::cpu)).run();
      const Arrays& got = *one.arrays;
      for (std::int64_t i = 0; i < m; ++i) {
        const bool exists = i < rows(batch);
        const std::int64_t row = batch * m + i;
        expect_near(got.per_row[row], exists ? wanted.per_row[row] : unwritten, "per_row", batch, i);
        for (std::int64_t j = 0; j < n; ++j)
          expect_near(got.d[row * pitch + j], exists ? wanted.d[row * pitch + j] : unwritten, "D", batch, i * n + j);
        if (HasFailure()) return;  // one is enough
      }
      for (std::int64_t j = batch * n; j < (batch + 1) * n; ++j)
        expect_near(got.per_column[j], wanted.per_column[j], "per_column", batch, j);
      expect_near(got.of_all[batch], wanted.of_all[batch], "of_all", batch, 0);
    }
  }
  EXPECT_GT(held, 0);
}

}  // namespace ragged
}  // namespace
}  // namespace postlude
