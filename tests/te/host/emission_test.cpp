// Kernels that are emitted from random nests, compiled for the host and run there against the
// nests' definition; tests/cuda/fake stands in for driver and compiler, tests/cuda/host/shim.h for
// PTX. Warps take turns in drawn orders. POSTLUDE_TE_RUNS and POSTLUDE_TE_FIRST: how many, from where.
#include "cuda/host/harness.h"
#include "te/fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace postlude {
namespace {

struct Running {
  fuzz_te::Program program;
  std::vector<std::vector<double>> wanted;
  te::Module module;
  std::vector<Tensor> arrays;
};

TEST(TeEmission, AgreesWithTheDefinition) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers do not follow fibers";
#endif
  host::Harness harness("te_emission", 1);
  const std::uint64_t first = host::from_environment("POSTLUDE_TE_FIRST", 1),
                      runs = host::from_environment("POSTLUDE_TE_RUNS", 60);
  std::vector<Running> all;
  int refused = 0, failures = 0, joined = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    Running r{fuzz_te::generate(seed), {}, {}, {}};
    if (seed % 5 == 0) fuzz_te::choose(r.program, Target::cuda());
    else fuzz_te::schedule(r.program, fuzz_te::Bindings::threads);
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

// What is chosen where sizes are large: several rows at once by a block's threads.
TEST(TeEmission, RowsAtOnce) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers do not follow fibers";
#endif
  host::Harness harness("te_rows_at_once", 1);
  struct Case {
    std::vector<std::int64_t> shape;
    std::vector<std::size_t> reduced;
    bool argmax;
    const char* call;  // of its schedule
  };
  const Case cases[] = {{{700, 37}, {0}, false, "threadIdx.y"},
                        {{530, 130}, {0}, true, "threadIdx.y"},
                        {{520, 70, 120}, {1, 2}, false, "fused"},
                        {{280, 520, 30}, {0, 2}, false, "fused"}};
  struct Ran {
    const Case* of;
    te::Module module;
    std::vector<float> in, values;
    std::vector<std::int64_t> places;
    std::vector<Tensor> arrays;
  };
  std::vector<std::unique_ptr<Ran>> all;
  for (const Case& c : cases) {
    te::Axes k;
    std::vector<te::Expr> sizes, kept, index;
    std::int64_t elements = 1, results = 1;
    for (std::size_t d = 0; d < c.shape.size(); ++d) {
      sizes.push_back(te::var("s" + std::to_string(d)));
      elements *= c.shape[d];
      if (std::count(c.reduced.begin(), c.reduced.end(), d)) continue;
      kept.push_back(sizes.back());
      results *= c.shape[d];
    }
    const te::Tensor a = te::placeholder(sizes, "A");
    for (const std::size_t d : c.reduced) k.push_back(te::reduce_axis(0, sizes[d], "k" + std::to_string(d)));
    const auto element = [&](const te::Axes& i) {
      std::vector<te::Expr> at;
      for (std::size_t d = 0, next = 0, own = 0; d < c.shape.size(); ++d) {
        if (std::count(c.reduced.begin(), c.reduced.end(), d)) at.emplace_back(k[own++]);
        else at.emplace_back(i[next++]);
      }
      return a.at(at);
    };
    const std::vector<te::Tensor> made =
        c.argmax ? te::compute_several(
                       kept, [&](const te::Axes& i) { return te::argmax(element(i), k); }, "B")
                 : std::vector<te::Tensor>{te::compute(
                       kept, [&](const te::Axes& i) { return te::sum(element(i), k); }, "B")};
    auto ran = std::make_unique<Ran>();
    ran->of = &c;
    for (std::int64_t i = 0; i < elements; ++i) ran->in.push_back(static_cast<float>(i * 7919 % 1009 % 17 - 8));
    ran->values.assign(static_cast<std::size_t>(results), 99.0f);
    ran->places.assign(static_cast<std::size_t>(results), -9);
    std::vector<std::int64_t> shape;
    for (std::size_t d = 0; d < c.shape.size(); ++d)
      if (!std::count(c.reduced.begin(), c.reduced.end(), d)) shape.push_back(c.shape[d]);
    ran->arrays.push_back(Tensor(ran->in.data(), f32, c.shape).on(Device::cuda));
    if (c.argmax) ran->arrays.push_back(Tensor(ran->places.data(), i64, shape).on(Device::cuda));
    ran->arrays.push_back(Tensor(ran->values.data(), f32, shape).on(Device::cuda));
    std::vector<te::Tensor> arguments{a};
    arguments.insert(arguments.end(), made.begin(), made.end());
    ran->module = te::build(made, arguments, Target::cuda());
    ran->module(ran->arrays);
    EXPECT_NE(ran->module.explain().find(c.call), std::string::npos) << ran->module.explain();
    all.push_back(std::move(ran));
  }
  ASSERT_TRUE(harness.compile("-O0"));
  for (const auto& ran : all) {
    harness.order(77);
    ran->module(ran->arrays);
    const Case& c = *ran->of;
    std::vector<float> wanted(ran->values.size(), c.argmax ? -100.0f : 0.0f);
    std::vector<std::int64_t> places(ran->values.size(), 0);
    std::vector<std::int64_t> at(c.shape.size(), 0);
    for (const float x : ran->in) {
      std::int64_t result = 0, number = 0;
      for (std::size_t d = 0; d < at.size(); ++d) {
        const bool reduces = std::count(c.reduced.begin(), c.reduced.end(), d) != 0;
        (reduces ? number : result) = (reduces ? number : result) * c.shape[d] + at[d];
      }
      float& value = wanted[static_cast<std::size_t>(result)];
      if (!c.argmax) value += x;
      else if (x > value) value = x, places[static_cast<std::size_t>(result)] = number;
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < c.shape[d]) break;
        at[d] = 0;
      }
    }
    EXPECT_EQ(ran->values, wanted) << ran->module.print();
    if (c.argmax) { EXPECT_EQ(ran->places, places); }
  }
}

}  // namespace
}  // namespace postlude
