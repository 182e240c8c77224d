// What a Program becomes on a CPU for given shapes and strides: one value, decided without memory. bind() fills it in;
// explain() and whoever asks what stays print it, decided for contiguous tensors.
#pragma once

#include "cpu/decide/passes.h"
#include "cpu/layout.h"
#include "cpu/product/assembly.h"
#include "cpu/product/direct.h"
#include "cpu/product/gemm.h"
#include "cpu/strips/phase.h"
#include "loop/main_loop.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cpu {

// A Program for an instruction set: all that a decision depends on beside the layout.
struct Subject {
  std::optional<Contraction> contraction;  // none: the accumulator is a tensor
  DType source = DType::f32;               // of this type
  lower::Program program;                  // as prepared for the interpreter
  std::vector<int> phase_of;  // the phase of the Program as lowered that each of its phases is, or is part of
  Isa isa = Isa::portable;
  int threads = 1;  // share the passes, and decide how much workspace they need

  [[nodiscard]] bool multiplies() const { return contraction.has_value(); }
};

// Contiguous tensors, as explain() assumes.
[[nodiscard]] Layout usual_layout(const Subject& subject, const Shape& shape);

// Where a buffer of the Program lies.
struct BufferPlace {
  enum class Where : std::uint8_t {
    caller,     // it is bound
    workspace,  // `at` bytes into the part that all passes share
    rows,       // with a block's rows, in a thread's own memory
    nowhere,    // no phase stores it
  };
  Where where = Where::caller;
  int local = -1;        // rows: which of its pass
  std::int64_t at = -1;  // workspace
};

// A phase, and where it lies in a thread's memory.
struct PhaseDecision {
  PhaseExecutor executor;
  std::int64_t frame = 0;             // bytes into a thread's memory
  std::vector<std::int64_t> partial;  // per reduction: bytes into the memory that threads share
};

struct PassDecision {
  Pass pass;
  ProductShape product;              // behind a product
  std::optional<Blocking> blocking;  // and how it is multiplied
  std::optional<Assembly> assembly;  // or several products, put together
  std::optional<PackedB> packed;     // B, which every call packs for all batches
  bool over_batches = false;         // on one thread, batches beside each other
  std::optional<DirectForm> direct;  // in registers, instead of phases
  const char* not_direct = nullptr;  // why not
  // An output is stored in registers, and phases make the rest of it (direct.h: DirectHead).
  std::shared_ptr<const lower::Phase> rest;
  bool sums = false;                     // the rest is but the sums of that output's columns
  lower::BufferId kept = -1;             // the output in which collected accumulators wait
  const char* not_kept = nullptr;        // why in none
  std::vector<PhaseDecision> phases;     // none where all is in registers
  std::vector<std::int64_t> local_rows;  // per local: row stride, in elements
  std::vector<std::int64_t> locals;      // per local: bytes into a thread's memory
  // Bytes of the product's scratch, which a thread's memory, and (but over_batches) the shared one, begins with.
  std::int64_t thread_scratch = 0, shared_scratch = 0;
};

// A Decision refers to the Program of its Subject.
struct Decision {
  const Subject* subject = nullptr;
  Shape shape;  // images may have become rows
  Placed a;
  std::vector<Placed> buffers;  // the Program's, also those that no caller binds
  std::vector<BufferPlace> places;
  std::vector<PassDecision> passes;  // one after another, in the same memory
  // The workspace: buffers, then a page to begin a thread's memory at another place of, then each thread's memory, then
  // what all share, then scratch of combining partial results.
  std::int64_t buffer_bytes = 0, thread_pitch = 0, shared_bytes = 0, combine_bytes = 0;
  std::int64_t packed_bytes = 0;  // and beside it what every call packs

  [[nodiscard]] std::int64_t frame_bytes() const;
  [[nodiscard]] std::int64_t workspace_bytes() const { return buffer_bytes + frame_bytes() + packed_bytes; }
  [[nodiscard]] std::int64_t bytes_of(lower::BufferId buffer) const;
  // Whether a buffer stays with a block's rows, or is stored by no phase.
  [[nodiscard]] bool stays(lower::BufferId buffer) const;

  // One line, as Call::describe() gives it.
  [[nodiscard]] std::string describe() const;
  // The schedule, and why it is no other; and the loop nest.
  [[nodiscard]] std::string schedule_text() const;
  [[nodiscard]] std::string loops_text() const;
  [[nodiscard]] Outline outline() const;
};

inline constexpr std::int64_t page = 4096;

// Throws Error unsupported where the product has no kernel.
[[nodiscard]] Decision decide(const Subject& subject, const Layout& layout);

}  // namespace postlude::inline v0::cpu
