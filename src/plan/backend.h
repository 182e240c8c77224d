// The seam between a Plan and a backend. Backends know Programs and memory; they know neither graphs nor each other.
#pragma once

#include "loop/main_loop.h"
#include "lower/program.h"

#include <postlude/plan.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0 {

struct Bindings {
  Shape shape;
  std::vector<Given> inputs;  // the main loop's, for the reference
  Bound a, b;                 // the main loop's Operands
  Addressing addressing;
  std::vector<Bound> buffers;      // one per Program buffer; workspace ones have data == nullptr: the backend owns them
  const void* packed_b = nullptr;  // what the backend's own pack() returned, or null
  std::optional<void*> stream;     // where the call runs first, if that is known
};

// A program bound to memory, with its workspace. run() allocates nothing. Not for two threads at once.
class BoundCall {
 public:
  virtual ~BoundCall() = default;
  virtual void run(void* stream) = 0;
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  [[nodiscard]] virtual std::string describe() const = 0;  // schedule chosen for these shapes, one line
};

// Bytes that kernels move.
struct Traffic {
  double read = 0, written = 0;
  Traffic& operator+=(const Traffic& other) {
    read += other.read, written += other.written;
    return *this;
  }
};

// How exactly a product is accumulated, for the reference's bounds.
struct ErrorModel {
  double unit = 0x1p-24;  // unit roundoff of the accumulator
  double drift = 0;       // what truncation may lose of (|A| |B|) for each K: it adds up where operands have one sign
  std::int64_t promoted = 0;  // so many K at a time are added to an accumulator of f32; 0: all are in one
};

// What a backend decided for a shape, as far as explain() asks.
struct Outline {
  std::vector<bool> stays;      // of the Program's buffers: those that need no memory, in registers or in a cache
  std::vector<Traffic> phases;  // what each phase moves; empty: as the Program says it (plan/cost.h)
  struct Beside {
    std::string what;
    Traffic traffic;
  };
  std::vector<Beside> beside;  // what else moves: repacks, the accumulator on its way to memory, partial results
  // Bytes that the main loop reads beyond its inputs, each once: a copy may be larger, and launches may share an input.
  double read_beyond = 0;
};

// What explain(), prepare() and verify() ask for: a size, and, where it is known how tensors lie, those. Without them
// they are contiguous, and rows of windows are as in a convolution of one tap.
struct Asked {
  Shape shape;
  const Bindings* tensors = nullptr;
};

// A program compiled for a target. Immutable, shared by threads.
class Executable {
 public:
  virtual ~Executable() = default;
  // Throws Error 03xx / 04xx / 05xx. Shapes are never zero-sized here: Plan handles an empty output itself; k may be 0.
  [[nodiscard]] virtual std::unique_ptr<BoundCall> bind(const Bindings& bindings) const = 0;
  // Compiles what bind() takes of such tensors, without memory and without a launch; for several threads at once.
  virtual void prepare(const Asked& asked) const = 0;
  // What explain shows: schedule, the rejected ones with reasons, loop nest, source.
  [[nodiscard]] virtual std::string explain(ExplainPart part, const Asked& asked) const = 0;
  [[nodiscard]] virtual Outline outline(const Asked& asked) const = 0;
  [[nodiscard]] virtual ErrorModel error_model(const Asked& asked) const = 0;
  // B in the backend's own layout, or null where it has none. `bindings.b` and shape.n, shape.k are set.
  [[nodiscard]] virtual std::shared_ptr<const void> pack(const Bindings& bindings) const = 0;
};

// Each backend offers these two under its own namespace (cpu::, cuda::):
//   std::vector<std::string> refusals(const Problem&, const lower::Program&, const Target&);   // empty: it can
//   std::unique_ptr<Executable> compile(const Problem&, std::shared_ptr<const lower::Program>, const Target&);

}  // namespace postlude::inline v0
