// How long something takes, for tests of how time grows.
#pragma once

#include <ctime>

namespace postlude_test {

// Of processor time of all threads: what else the machine does meanwhile does not count.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const { return static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t begin_ = std::clock();
};

}  // namespace postlude_test
