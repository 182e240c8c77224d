// From a graph to results: compile -> Plan -> bind -> Call -> run.
#pragma once

#include <postlude/graph.h>
#include <postlude/problem.h>
#include <postlude/tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace postlude::inline v0 {

struct Target {
  Device device = Device::cpu;
  int threads = 0;  // CPU: 0 takes OpenMP's number
  std::string isa;  // CPU: "", "portable", "avx2", "avx512", "amx"; CUDA: "", "sm_90a", "sm_80", ... to compile without
                    // a device
  int device_index = 0;  // CUDA
  std::string schedule;  // "" lets the heuristic choose; else the backend's text form, as explain prints it

  [[nodiscard]] static Target cpu(int threads = 0);
  [[nodiscard]] static Target cuda(int device_index = 0);
  // A GPU if one is there and usable, else the CPU.
  [[nodiscard]] static Target best();
  // "cpu", "cuda", "cuda:1", "best", an instruction set of the CPU ("portable", "avx2", "avx512",
  // "amx"), or a GPU's architecture ("sm_90a"), for which a plan is compiled and explained without
  // a device. Throws Error usage.
  [[nodiscard]] static Target parse(std::string_view text);
};

struct CompileOptions {
  // Dtypes of operands and outputs that the graph leaves open, by name.
  std::vector<std::pair<std::string, DType>> dtypes;
};

enum class ExplainPart : std::uint8_t { summary, passes, program, schedule, loops, source };

struct Binding {
  std::string_view name;
  Tensor tensor;
};

namespace lower {
struct Program;
}
class Plan;
struct Comparison;
struct PlanData;
struct CallData;

// B, or a convolution's W, in the layout that a plan's kernels read, made once and bound in its
// place (Plan::bind's `packed`).
class PackedOperand {
 public:
  PackedOperand() = default;
  [[nodiscard]] std::int64_t k() const { return k_; }
  [[nodiscard]] std::int64_t n() const { return n_; }
  // Of the tensor that it was made of.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }

 private:
  friend class Plan;
  friend PackedOperand pack(const Plan& plan, const Tensor& b);
  std::shared_ptr<const void> data_;  // PackedData
  std::int64_t k_ = 0, n_ = 0;
  std::vector<std::int64_t> shape_;
};

// A plan bound to operands, with its workspace. It runs as often as wanted, on what the tensors
// hold then, without allocating. One Call must not run twice at once; two Calls of one Plan may. It
// keeps its plan alive, not its tensors. A CUDA graph that captured a run needs the plan and the
// tensors, not the Call.
class Call {
 public:
  Call() = default;
  // `stream`: the cudaStream_t / CUstream for a CUDA plan (null: the default stream); ignored on a
  // CPU, where run returns when the results are there.
  void run(void* stream = nullptr);
  void operator()(void* stream = nullptr) { run(stream); }
  [[nodiscard]] std::int64_t workspace_bytes() const;
  [[nodiscard]] std::string describe() const;  // the schedule chosen for these shapes, in one line

 private:
  friend class Plan;
  explicit Call(std::shared_ptr<CallData> data);
  std::shared_ptr<CallData> data_;
};

// A problem's size. K is not read where nothing is multiplied, the batch is 1 unless the problem is
// batched.
struct Sizes {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
};

// An epilogue behind a main loop, made for a target, for any M, N, K. Immutable, shared between
// threads.
//
// What is done when:
//   compile   lowers the graph, and says whether the target can run it. It needs no shape, and
//             compiles no kernel.
//   prepare   chooses a schedule for a shape and, on a GPU, has NVRTC compile its kernels, or finds
//             them in the cache on disk. Nobody need call it.
//   bind      checks the tensors and takes a workspace. At a shape and strides that are new to the
//             plan it does what prepare does, but for kernels that are there already.
//   run       launches.
class Plan {
 public:
  Plan() = default;

  // Binds every operand and output by its name, A and B (or X) among them. Shapes: A (M, K), B (K,
  // N), tile (M, N), row (N,), col (M,), scalar () or (1,); an operand's extents follow its use
  // where the epilogue chunks. A batched problem has one axis more in front, which operands, A and
  // B may lack. Outputs may be in place of an operand of the same layout. Throws Error 03xx and
  // writes nothing.
  [[nodiscard]] Call bind(const std::vector<Binding>& bindings) const;
  [[nodiscard]] Call bind(std::initializer_list<Binding> bindings) const;
  // `stream`: where the call will run first. On a GPU its workspace is then one that an earlier
  // call left on that stream, and nothing but new kernels is waited for; the stream may be captured.
  [[nodiscard]] Call bind(const std::vector<Binding>& bindings, void* stream) const;
  [[nodiscard]] Call bind(const std::vector<Binding>& bindings, const PackedOperand& packed) const;

  // Makes bind() fast at these sizes: several at once, on `threads` cores (0: all that the machine
  // offers), without memory and without a launch. It expects contiguous tensors at multiples of 16
  // bytes (B along K or N, unless the problem says which), and outputs in memory of their own; for
  // others bind() decides again, and compiles what differs. A plan for a named architecture
  // ("sm_90a") needs no GPU: its kernels are kept in the cache on disk. On a CPU the sizes are
  // checked, and nothing is left to do. Throws what bind() throws about a size or a schedule.
  void prepare(const std::vector<Sizes>& sizes, int threads = 0) const;
  // For the main loop's inputs, in their order and with batch axes, once for each element: what a
  // convolution's kernels depend on is said by shapes and strides, and by no M, N and K. Their
  // memory is not read; how far from a multiple of 16 bytes it begins counts.
  void prepare_for(const std::vector<std::vector<Tensor>>& inputs, int threads = 0) const;

  // Throws what bind() would throw about these tensors, and does nothing else.
  void check(const std::vector<Binding>& bindings) const;

  // Says what lowering and the backend decided. `m`, `n`, `k`: a shape to choose the schedule for;
  // 0: a typical one.
  [[nodiscard]] std::string explain(ExplainPart part = ExplainPart::summary, std::int64_t m = 0, std::int64_t n = 0,
                                    std::int64_t k = 0) const;
  // For the shapes of the main loop's inputs, in their order and with batch axes. These say what
  // M, N and K do not: how large a convolution's images and filters are (channels_last in memory).
  [[nodiscard]] std::string explain(ExplainPart part, const std::vector<std::vector<std::int64_t>>& inputs) const;
  // The same for inputs that lie like these, whose memory is not read.
  [[nodiscard]] std::string explain_for(ExplainPart part, const std::vector<Tensor>& inputs) const;
  // Inputs of these shapes without memory, contiguous and, of images, channels_last: what
  // explain_for and prepare_for take.
  [[nodiscard]] std::vector<Tensor> inputs_of(const std::vector<std::vector<std::int64_t>>& shapes) const;

  // A tensor that bind wants, with its name, axes and dtype as resolved. A and B are first.
  struct Slot {
    std::string name;
    Axes axes;  // of {m, n}; A and B: both
    DType dtype;
    bool output = false;
    bool batched = false;  // an output that has a batch axis in front, an operand that may have one
  };
  [[nodiscard]] std::vector<Slot> slots() const;
  // The shape that slot must have at a given problem size (without batch).
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::string_view name, std::int64_t m, std::int64_t n,
                                                   std::int64_t k) const;

  [[nodiscard]] const Graph& graph() const;
  [[nodiscard]] const Problem& problem() const;
  [[nodiscard]] const Target& target() const;
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }

 private:
  friend Plan compile(const Problem&, const Graph&, const Target&, const CompileOptions&);
  friend PackedOperand pack(const Plan& plan, const Tensor& b);
  friend const lower::Program& program_of(const Plan& plan);
  friend std::vector<Comparison> verify(const Plan& plan, const std::vector<Binding>& bindings);
  [[nodiscard]] const PlanData& data() const;  // throws usage where there is none
  std::shared_ptr<const PlanData> data_;
};

[[nodiscard]] Plan compile(const Problem& problem, const Graph& graph, const Target& target = {},
                           const CompileOptions& options = {});
// `b`: a product's B; the filters of a convolution or of its data gradient, but in groups, and but
// of a strided gradient, which are several products. Throws Error unsupported where the target has
// no such form.
[[nodiscard]] PackedOperand pack(const Plan& plan, const Tensor& b);

// Whether compile() would succeed. If not, there is at least one reason, a sentence with what to
// change.
struct Support {
  bool ok = false;
  std::vector<std::string> reasons;
  explicit operator bool() const { return ok; }
};
[[nodiscard]] Support supports(const Problem& problem, const Graph& graph, const Target& target = {},
                               const CompileOptions& options = {});

// verify() compares outputs with the definition: a float64 interpreter of the graph, plain and
// slow, which also bounds the error that a correct backend may make (docs/numerics.md). Tensors are
// bound as for Plan::bind, on the CPU, and not written. A Comparison is one output's, in the
// graph's order: the largest |output - reference| / bound over all elements. At most 1 is right; an
// exact match is 0.
struct Comparison {
  std::string output;
  double error_over_bound = 0;
  std::int64_t elements = 0;
  std::int64_t worst[3] = {0, 0, 0};          // (b, m, n) of the largest
  double value = 0, expected = 0, bound = 0;  // there
};
[[nodiscard]] std::vector<Comparison> verify(const Plan& plan, const std::vector<Binding>& bindings);

}  // namespace postlude::inline v0
