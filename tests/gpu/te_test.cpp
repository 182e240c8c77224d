// Random loop programs by random and by chosen schedules on a device, against their definition. POSTLUDE_TE_RUNS and
// POSTLUDE_TE_FIRST: how many, from where.
#include "gpu/device_run.h"
#include "te/fuzz.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace postlude::gpu_tests {
namespace {

constexpr int parts = 5;  // tests of their own, which shards share

class Loops : public testing::TestWithParam<int> {};

TEST_P(Loops, AgreeWithTheirDefinition) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const auto from_environment = [](const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  };
  const std::uint64_t runs = (from_environment("POSTLUDE_TE_RUNS", 250) + parts - 1) / parts,
                      first = from_environment("POSTLUDE_TE_FIRST", 1) + runs * static_cast<std::uint64_t>(GetParam());
  int failures = 0, refused = 0;
  for (std::uint64_t seed = first; seed < first + runs && failures < 5; ++seed) {
    fuzz_te::Program p = fuzz_te::generate(seed);
    if (seed % 3 == 0) fuzz_te::choose(p, Target::cuda());
    else fuzz_te::schedule(p, fuzz_te::Bindings::threads);
    const auto wanted = fuzz_te::expected(p);
    std::vector<Tensor> arrays;
    for (fuzz_te::Array& array : p.arrays) arrays.push_back(array.view());
    std::string message;
    try {
      te::build(p.schedule, p.arguments, Target::cuda())(arrays);  // copied there and back
      message = fuzz_te::difference(p, wanted);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported || error.code() == ErrorCode::bad_schedule) ++refused;
      else message = error.what();
    }
    if (message.empty()) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ": " << message << "\n" << te::lower(p.schedule, p.arguments);
  }
  // Few draws say nothing of how many are refused.
  if (runs >= 50) EXPECT_LT(refused, static_cast<int>(runs / 4));
}

INSTANTIATE_TEST_SUITE_P(Parts, Loops, testing::Range(0, parts));

}  // namespace
}  // namespace postlude::gpu_tests
