// Ways of doing the same thing, timed in turns: the machine's speed drifts, so only what ran beside
// each other is compared.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace postlude::bench {

struct Contender {
  std::string name;
  std::function<void()> run;
  std::function<bool()>
      agrees;  // after a run: whether it computed what the first contender did; none: nothing to compare
};

struct Timing {
  std::string name;
  double median_ms = 0;
  double fast_ms =
      0;  // a tenth of the runs were faster: the 90th percentile of speed, what the machine does when left alone
  int runs = 0;
  bool agrees = true;
};

// Runs each contender once to warm up, then all in turns until `seconds` have passed, at least
// `least` turns, each in an order drawn for it, so that nobody always comes behind the same. With one thread the clock
// is that thread's processor time, which other programs on the machine do not lengthen; with more it is the wall's.
[[nodiscard]] std::vector<Timing> in_turns(const std::vector<Contender>& contenders, int threads, double seconds,
                                           int least = 5);

// Zeroed memory that begins with a page.
struct FreePages {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
};
using Bytes = std::unique_ptr<std::byte[], FreePages>;
[[nodiscard]] Bytes allocate(std::size_t bytes);

}  // namespace postlude::bench
