// What kernels move between memory and themselves: bytes, no times.
#pragma once

#include "lower/program.h"
#include "plan/backend.h"

#include <utility>
#include <vector>

namespace postlude::inline v0::plan {

// Counts one kernel. Each distinct access is read once, and nothing that the kernel wrote before is read again.
class KernelTraffic {
 public:
  // `stays`: buffers that this kernel or another keeps. `accumulator`: bytes of an element of what is read as `acc`; 0:
  // it is there.
  KernelTraffic(const lower::Program& program, const Shape& shape, const std::vector<bool>& stays,
                double accumulator = 0)
      : program_(program), shape_(shape), stays_(stays), accumulator_(accumulator), wrote_(program.buffers.size()) {}

  // The loads of a phase, of the instructions wanted or (empty) of all.
  void loads(const lower::Phase& phase, const std::vector<bool>& wanted = {});
  void stores(const lower::Phase& phase);
  void results(const lower::Reduction& reduction);
  [[nodiscard]] bool read_accumulator() const { return read_accumulator_; }
  // What was counted since the last time.
  [[nodiscard]] Traffic take() { return std::exchange(counted_, {}); }

 private:
  const lower::Program& program_;
  const Shape& shape_;
  const std::vector<bool>& stays_;
  double accumulator_;
  std::vector<lower::Access> seen_;
  std::vector<bool> wrote_;
  bool read_accumulator_ = false;
  Traffic counted_;
};

// Elements of a phase's value that varies over `axes`, and of a buffer.
[[nodiscard]] double elements(const lower::Phase& phase, Axes axes, const Shape& shape);
[[nodiscard]] double elements(const lower::Buffer& buffer, const Shape& shape);

}  // namespace postlude::inline v0::plan
