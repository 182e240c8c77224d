// fuzz_inputs [--seed S] [--count N] [--seconds T]: texts, .npy files and cache entries that nobody
// would write.
#include "fuzz/driver.h"
#include "fuzz/inputs.h"

int main(int argc, char** argv) {
  using namespace postlude::fuzz;
  const auto corpus = texts();
  return drive(argc, argv, {}, [&](std::uint64_t seed) -> std::string {
    Choices choices(mix(seed));
    const std::int64_t kind = choices.below(1000);
    if (kind < 900) return check_text(mutated_text(choices, corpus));
    if (kind < 990) return check_npy(random_npy(choices), choices);
    return check_cache(choices);
  });
}
