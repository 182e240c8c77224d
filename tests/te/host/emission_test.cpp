// Kernels that are emitted from random nests, compiled for the host and run there against the
// nests' definition; tests/cuda/fake stands in for driver and compiler, tests/cuda/host/shim.h for
// PTX. Warps take turns in drawn orders. POSTLUDE_TE_RUNS and POSTLUDE_TE_FIRST: how many, from where.
#include "cuda/host/harness.h"
#include "te/fuzz_parts.h"
#include "te/guards.h"
#include "te/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>

namespace postlude {
namespace {

struct Running {
  fuzz_te::Program program;
  std::vector<std::vector<double>> wanted;
  te::Module module;
  std::vector<Tensor> arrays;
};

// Runs the scheduled programs of some seeds.
void agree(host::Harness& harness, std::uint64_t first, std::uint64_t runs,
           const std::function<fuzz_te::Program(std::uint64_t)>& make) {
  std::vector<Running> all;
  int refused = 0, failures = 0, joined = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    Running r{make(seed), {}, {}, {}};
    r.wanted = fuzz_te::expected(r.program);
    for (fuzz_te::Array& array : r.program.arrays) r.arrays.push_back(array.view().on(Device::cuda));
    try {
      r.module = te::build(r.program.schedule, r.program.arguments, Target::cuda());
      r.module(r.arrays);
    } catch (const Error& error) {
      const bool may = error.code() == ErrorCode::unsupported || error.code() == ErrorCode::bad_schedule;
      if (!may) ADD_FAILURE() << "seed " << seed << ": " << error.what();
      ++refused;
      continue;
    }
    joined += r.module.print().find("combined") != std::string::npos;
    all.push_back(std::move(r));
  }
  ASSERT_TRUE(harness.compile("-O0"));
  for (Running& r : all) {
    for (const std::uint64_t order : {0, 1}) {
      harness.order(order ? r.program.seed * 77 + 5 : 0);
      std::string message;
      try {
        r.module(r.arrays);
        message = fuzz_te::difference(r.program, r.wanted);
      } catch (const std::exception& error) { message = error.what(); }
      if (message.empty()) continue;
      if (++failures < 6)
        ADD_FAILURE() << "seed " << r.program.seed << ", order " << order << ": " << message << "\n"
                      << r.module.print();
      break;
    }
  }
  std::printf("%zu programs, %d refused, %d in which threads join; %zu sources\n", all.size(), refused, joined,
              host::Harness::sources());
  EXPECT_EQ(failures, 0);
  EXPECT_GE(all.size(), runs / 2);
  EXPECT_GE(joined, static_cast<int>(runs / 30));
}

TEST(TeEmission, AgreesWithTheDefinition) {
  host::Harness harness("te_emission", 1);
  agree(harness, host::from_environment("POSTLUDE_TE_FIRST", 1), host::from_environment("POSTLUDE_TE_RUNS", 60),
        [](std::uint64_t seed) {
          fuzz_te::Program p = fuzz_te::generate(seed);
          if (seed % 5 == 0) fuzz_te::choose(p, Target::cuda());
          else fuzz_te::schedule(p, fuzz_te::Bindings::threads);
          return p;
        });
}

TEST(TeEmission, ChoosesABlockForARowOfSeveralStages) {
  host::Harness harness("te_rows", 1);
  int together = 0;
  agree(harness, host::from_environment("POSTLUDE_TE_FIRST", 1), host::from_environment("POSTLUDE_TE_ROWS", 16),
        [&](std::uint64_t seed) {
          fuzz_te::Draw draw(seed);
          fuzz_te::Program p = fuzz_te::stages_of_rows(seed, draw);
          fuzz_te::choose(p, Target::cuda());
          together += te::lower(p.schedule, p.arguments).find("synchronise") != std::string::npos;
          return p;
        });
  EXPECT_GE(together, 3);
}

TEST(TeEmission, HoldsIndicesBehindConditions) {
  host::Harness harness("te_guards", 1);
  const GuardedPrograms programs;
  std::vector<std::pair<const Guarded*, te::Module>> all;
  for (const Guarded& program : programs.all)
    for (const auto by : {GuardedPrograms::By::description, GuardedPrograms::By::threads})
      all.emplace_back(&program,
                       te::build(programs.scheduled(program, by), programs.arguments(program), Target::cuda()));
  for (const bool compiled : {false, true}) {
    for (const auto& each : all) {
      const Guarded& program = *each.first;
      const te::Module& module = each.second;
      for (const std::int64_t n : {1, 7, 16}) {
        const auto [is, wanted] =
            programs.run(program, n, Device::cuda, [&](const std::vector<Tensor>& arrays) { module(arrays); });
        if (compiled) { EXPECT_EQ(is, wanted) << program.name << " of " << n << "\n" << module.print(); }
      }
    }
    if (!compiled) { ASSERT_TRUE(harness.compile("-O0")); }
  }
}

// The schedules that are chosen for many short rows, of as many elements; called with a few rows.
TEST(TeEmission, ChoosesAPartOfAWarpForAShortRow) {
  host::Harness harness("te_short", 1);
  constexpr std::int64_t count = 131;
  struct Run {
    te::Module module;
    std::vector<float> x, top;
    std::vector<std::int64_t> place;
    std::int64_t columns;
    std::vector<Tensor> arrays;
  };
  std::vector<std::unique_ptr<Run>> all;
  for (const std::int64_t given : {5, 32, 52, -52, 148, -148, 177, 1000}) {  // of zeros of either sign if negative
    const std::int64_t columns = std::abs(given);
    const te::Expr n = te::var("n"), m = te::var("m");
    const te::Tensor a = te::placeholder({n, m}, "A");
    const te::Axis k = te::reduce_axis(0, m, "k");
    const std::vector<te::Tensor> made = te::compute_several(
        {n}, [&](const te::Axes& i) { return te::argmax(a(i[0], k), {k}); }, "I");
    const te::Sizes sizes{{n->axis.get(), 100000}, {m->axis.get(), columns}};
    const te::Schedule s = te::choose_schedule(made, Target::cuda(), sizes);
    EXPECT_NE(s.calls().find("threadIdx.y"), std::string::npos) << s.calls();
    auto run = std::make_unique<Run>();
    run->columns = columns;
    run->x.resize(static_cast<std::size_t>(count * columns));
    for (std::size_t e = 0; e < run->x.size(); ++e) {
      const std::size_t drawn = e * 7919 % 911;
      run->x[e] = given > 0 ? static_cast<float>(drawn) : drawn % 3 ? -0.0f : 0.0f;
    }
    run->top.assign(count, -1);
    run->place.assign(count, -1);
    run->module = te::build(s, {a, made[0], made[1]}, Target::cuda());
    run->arrays = {Tensor(run->x.data(), f32, {count, columns}).on(Device::cuda),
                   Tensor(run->place.data(), i64, {count}).on(Device::cuda),
                   Tensor(run->top.data(), f32, {count}).on(Device::cuda)};
    run->module(run->arrays);
    all.push_back(std::move(run));
  }
  ASSERT_TRUE(harness.compile("-O0"));
  for (const auto& run : all) {
    run->module(run->arrays);
    for (std::int64_t r = 0; r < count; ++r) {
      const auto row = run->x.begin() + r * run->columns, end = row + run->columns, top = std::max_element(row, end);
      ASSERT_EQ(run->top[static_cast<std::size_t>(r)], *top) << r << " of " << run->columns;
      ASSERT_EQ(std::signbit(run->top[static_cast<std::size_t>(r)]), std::signbit(*top)) << r << " of " << run->columns;
      ASSERT_EQ(run->place[static_cast<std::size_t>(r)], top - row) << r << " of " << run->columns;
    }
  }
}

// Blocks and threads of three dimensions, none of whose loops divides its axis.
TEST(TeEmission, RunsOverThreeDimensions) {
  host::Harness harness("te_dimensions", 1);
  const std::vector<std::int64_t> shape{4, 5, 7};
  const std::vector<te::Expr> sizes{te::var("n"), te::var("m"), te::var("p")};
  const te::Tensor a = te::placeholder(sizes, "A");
  const te::Tensor c = te::compute(
      sizes, [&](const te::Axes& i) { return a(i[0], i[1], i[2]) * 2 + i[1]; }, "C");
  te::Schedule s = te::create_schedule(c);
  const te::Axes axes = c.op().axis();
  te::Axes blocks, threads;
  for (const te::Axis& axis : axes) {
    const auto [outer, inner] = s[c].split(axis, 3);
    blocks.push_back(outer), threads.push_back(inner);
  }
  te::Axes order = blocks;
  order.insert(order.end(), threads.begin(), threads.end());
  s[c].reorder(order);
  static const char* const dimensions[] = {"z", "y", "x"};
  for (std::size_t d = 0; d < 3; ++d) {
    s[c].bind(blocks[d], te::thread_axis(std::string("blockIdx.") + dimensions[d]));
    s[c].bind(threads[d], te::thread_axis(std::string("threadIdx.") + dimensions[d]));
  }
  const te::Module module = te::build(s, {a, c}, Target::cuda());
  std::vector<float> in(140), out(140, -1);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const std::vector<Tensor> arrays{Tensor(in.data(), f32, shape).on(Device::cuda),
                                   Tensor(out.data(), f32, shape).on(Device::cuda)};
  module(arrays);
  ASSERT_TRUE(harness.compile("-O0"));
  module(arrays);
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], in[i] * 2 + static_cast<float>(i / 7 % 5)) << i;
}

// What lies outside of a loop of threads is stored where the loop is empty too: row sums of no columns, behind a stage
// in shared memory whose columns are bound.
TEST(TeEmission, StoresBesideEmptyLoops) {
  host::Harness harness("te_empty", 1);
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n, 0}, "A");
  const te::Tensor twice = te::compute(
      {n, 0}, [&](const te::Axes& i) { return a(i[0], i[1]) * 2; }, "T");
  const te::Axis k = te::reduce_axis(0, 0, "k");
  const te::Tensor sum = te::compute(
      {n}, [&](const te::Axes& i) { return te::sum(twice(i[0], k), {k}); }, "S");
  te::Schedule s = te::create_schedule(sum);
  s[sum].bind(sum.op().axis()[0], te::thread_axis("blockIdx.x"));
  s[twice].set_scope("shared");
  s[twice].compute_at(s[sum], sum.op().axis()[0]);
  s[twice].bind(twice.op().axis()[1], te::thread_axis("threadIdx.x"));
  const te::Module module = te::build(s, {a, sum}, Target::cuda());
  std::vector<float> in(1), out(3, -1);
  const std::vector<Tensor> arrays{Tensor(in.data(), f32, {3, 0}).on(Device::cuda),
                                   Tensor(out.data(), f32, {3}).on(Device::cuda)};
  module(arrays);
  ASSERT_TRUE(harness.compile("-O0"));
  module(arrays);
  EXPECT_EQ(out, std::vector<float>(3, 0));
}

}  // namespace
}  // namespace postlude
