// loops_bench [--threads T] [--seconds S] [--json]
//
// Reductions described as loops (postlude/te.h) over 4096 x 4096 f32, in turns with a copy of the matrix: the bytes a
// second that a program must move over the copy's. Programs by the chosen schedule, and row sums by the schedule of the
// tutorial that docs/loops.md answers.
#include "te/filter.h"
#include "timing.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace postlude::bench {
namespace {

constexpr std::int64_t size = 4096;

// A reduction of A[n, m] over its rows or its columns.
struct Reduction {
  te::Expr n = te::var("n"), m = te::var("m");
  te::Tensor a = te::placeholder({n, m}, "A");
  te::Axis k;
  std::vector<te::Tensor> made;

  explicit Reduction(bool columns, const std::string& by) : k(te::reduce_axis(0, columns ? n : m, "k")) {
    static const te::Reducer times =
        te::comm_reducer([](const auto& x, const auto& y) { return std::vector<te::Expr>{x[0] * y[0]}; },
                         [](const auto&) { return std::vector<te::Expr>{te::Expr(1)}; }, "product");
    const auto of = [&](const te::Axes& i) { return columns ? a(k, i[0]) : a(i[0], k); };
    const std::vector<te::Expr> shape{columns ? m : n};
    if (by == "argmax")
      made = te::compute_several(
          shape, [&](const te::Axes& i) { return te::argmax(of(i), {k}); }, "B");
    else if (by == "product")
      made = {te::compute(
          shape, [&](const te::Axes& i) { return times({of(i)}, {k})[0]; }, "B")};
    else
      made = {te::compute(
          shape, [&](const te::Axes& i) { return te::sum(of(i), {k}); }, "B")};
  }
  [[nodiscard]] std::vector<te::Tensor> arguments() const {
    std::vector<te::Tensor> all{a};
    all.insert(all.end(), made.begin(), made.end());
    return all;
  }
};

// k split by `factor`, its inner loop factored out; rows by 32 in parallel, with their parts computed where they are
// joined, the parts of a row side by side.
te::Module rows_by_hand(const Reduction& rows, std::int64_t factor, const Target& target) {
  te::Schedule s = te::create_schedule(rows.made);
  const te::Tensor& b = rows.made[0];
  const te::Axis inner = s[b].split(s[b].op().reduce_axis()[0], factor).second;
  const te::Tensor parts = s.rfactor(b, {inner}, 1)[0];
  const te::Axis outer = s[b].split(s[b].op().axis()[0], 32).first;
  s[b].parallel(outer);
  s[parts].compute_at(s[b], outer);
  return te::build(s, rows.arguments(), target);
}

struct Program {
  std::string name;
  std::function<void()> run;
  double bytes;
};

int main(int count, char** words) {
  int threads = 1;
  double seconds = 5;
  bool json = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--json") json = true;
    else if (word == "--threads" && i + 1 < count) threads = std::atoi(words[++i]);
    else if (word == "--seconds" && i + 1 < count) seconds = std::atof(words[++i]);
    else return std::fprintf(stderr, "loops_bench: unknown argument %s\n", words[i]), 2;
  }
  constexpr std::int64_t bytes = size * size * 4;
  const Target target = Target::cpu(threads);
  const Bytes from = allocate(bytes), to = allocate(bytes), values = allocate(size * 4), places = allocate(size * 8);
  const float weights[9] = {-1, 0, 2, 1, 3, -2, 0, 1, 1};
  auto* const x = reinterpret_cast<float*>(from.get());
  std::mt19937 draw(1);
  for (std::int64_t i = 0; i < size * size; ++i) x[i] = static_cast<float>(draw() % 64) - 31.5f;
  const Tensor a(from.get(), f32, {size, size}), b(values.get(), f32, {size}), place(places.get(), i64, {size});

  std::vector<Program> programs;
  const auto add = [&](const std::string& name, const te::Module& module, const std::vector<Tensor>& arrays,
                       double moved) {
    programs.push_back({name, [=] { module(arrays); }, moved});
  };
  const auto chosen = [&](const Reduction& r) { return te::build(r.made, r.arguments(), target); };
  const Reduction rows(false, "sum");
  add("row sums, chosen", chosen(rows), {a, b}, bytes);
  for (const std::int64_t factor : {16, 64, 256})
    add("row sums by rfactor of " + std::to_string(factor), rows_by_hand(rows, factor, target), {a, b}, bytes);
  add("column sums, chosen", chosen(Reduction(true, "sum")), {a, b}, bytes);
  add("argmax of rows, chosen", chosen(Reduction(false, "argmax")), {a, place, b}, bytes);
  add("custom product of rows, chosen", chosen(Reduction(false, "product")), {a, b}, bytes);
  const Filter filter(te::var("n"));
  add("3 x 3 filter, chosen", te::build({filter.output}, filter.arguments(), target),
      {a, Tensor(const_cast<float*>(weights), f32, {3, 3}), Tensor(to.get(), f32, {size - 2, size - 2})},
      bytes + (size - 2.0) * (size - 2.0) * 4);

  std::vector<Contender> contenders{{"copy", [&] { std::memcpy(to.get(), from.get(), bytes); }, {}}};
  for (const Program& program : programs) contenders.push_back({program.name, program.run, {}});
  const std::vector<Timing> timings = in_turns(contenders, threads, seconds, 9);
  const double copied = 2.0 * bytes / timings[0].median_ms;
  nlohmann::json rows_of_report = nlohmann::json::array();
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const double ms = timings[i + 1].median_ms, ratio = programs[i].bytes / ms / copied;
    if (!json) std::printf("%-34s %7.2f ms  %.2f of a copy\n", programs[i].name.c_str(), ms, ratio);
    rows_of_report.push_back({{"program", programs[i].name}, {"ms", ms}, {"of_copy", ratio}});
  }
  if (json)
    std::printf("%s\n",
                nlohmann::json({{"threads", threads}, {"copy_ms", timings[0].median_ms}, {"programs", rows_of_report}})
                    .dump(1)
                    .c_str());
  return 0;
}

}  // namespace
}  // namespace postlude::bench

int main(int count, char** words) { return postlude::bench::main(count, words); }
