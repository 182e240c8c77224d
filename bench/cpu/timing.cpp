#include "timing.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>

namespace postlude::bench {

namespace {
double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
}  // namespace

std::vector<Timing> in_turns(const std::vector<Contender>& contenders, int threads, double seconds, int least) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<std::vector<double>> times(contenders.size());
  for (const Contender& c : contenders) c.run();
  const double end = now(CLOCK_MONOTONIC) + seconds;
  // In an order drawn for each turn: who always runs behind somebody finds what that one left in the caches, and behind
  // itself what it packed (decision 0245).
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 drawn(1);
  std::size_t last = order.size();
  for (int turn = 0; turn < least || now(CLOCK_MONOTONIC) < end; ++turn) {
    do std::shuffle(order.begin(), order.end(), drawn);
    while (order.size() > 1 && order.front() == last);
    last = order.back();
    for (const std::size_t i : order) {
      const double before = now(clock);
      contenders[i].run();
      times[i].push_back(now(clock) - before);
    }
  }
  std::vector<Timing> results;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    const std::size_t runs = times[i].size();
    results.push_back({contenders[i].name, 1e3 * times[i][runs / 2], 1e3 * times[i][runs / 10], static_cast<int>(runs),
                       !contenders[i].agrees || contenders[i].agrees()});
  }
  return results;
}

Bytes allocate(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 64);
  Bytes p(static_cast<std::byte*>(::operator new (size, std::align_val_t{4096})));
  std::memset(p.get(), 0, size);
  return p;
}

}  // namespace postlude::bench
