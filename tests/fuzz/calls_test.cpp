// A fixed number of sequences of calls. ./dev fuzz takes new ones, under sanitizers.
#include "fuzz/calls.h"

#include <gtest/gtest.h>

namespace postlude {
namespace {

TEST(Calls, RandomSequences) {
  const auto shared = fuzz::make_shared_pool();
  for (std::uint64_t seed = 0; seed < 300; ++seed) ASSERT_EQ(fuzz::check_calls(seed, *shared), "") << "seed " << seed;
}

}  // namespace
}  // namespace postlude
