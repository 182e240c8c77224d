// Writes a nest as kernels (emit.h). The class is one, its code lies in four files.
#pragma once

#include "core/fill.h"
#include "cuda/emit/gemm_source.h"
#include "cuda/emit/ops.h"
#include "te/emit.h"
#include "te/linear.h"

#include <optional>
#include <set>

namespace postlude::inline v0::te {

using cuda::device_type;
using cuda::str;

inline constexpr const char* tags[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                       "threadIdx.x", "threadIdx.y", "threadIdx.z"};
[[nodiscard]] inline std::size_t tag_of(const Statement& loop) {
  std::size_t tag = 0;
  while (loop.mark.thread->tag != tags[tag]) ++tag;
  return tag;
}

[[nodiscard]] std::string spelled(const std::string& name);
[[nodiscard]] bool meets(const std::vector<Statement>& body);       // whether threads wait for each other in it
[[nodiscard]] std::int64_t constant_extent(const Statement& loop);  // -1: it varies
[[nodiscard]] std::set<std::string> reserved_names(const std::string& source);
void visit_statements(const std::vector<Statement>& body, const std::function<void(const Statement&)>& visitor);

class Emitter {
 public:
  explicit Emitter(const Nest& nest) : nest_(nest) {}
  CudaSource run();

 private:
  // A loop with nothing but unrolled loops and guards around one statement.
  struct Chain {
    std::vector<const Statement*> inner;  // unrolled loops within, the loop itself where it is unrolled
    std::vector<Expr> conditions;         // of the guards
    const Statement* statement = nullptr;
    std::vector<const ExprNode*> reads;  // of elements side by side along the innermost loop
    bool stores = false;                 // so too
    std::set<const Buffer*> units;       // whose last axis is consecutive there
    std::string wide;                    // where that can be done: addresses are multiples; empty: never
  };
  // A result that stays in registers while loops reduce into it.
  struct Register {
    std::string name;
    bool in_order = false;  // it is argmax's, which meets its elements in the order of their indices
  };
  struct Names {
    std::unordered_map<const void*, std::string> names;
    std::set<std::string> used;
    const std::string& of(const void* key, const std::string& wanted) {
      if (const auto found = names.find(key); found != names.end()) return found->second;
      std::string name = spelled(wanted);
      for (int i = 1; !used.insert(name).second; ++i) name = spelled(wanted) + "_" + str(i);
      return names.emplace(key, name).first->second;
    }
  };

  // emit.cpp: kernels, values and places
  void kernel(std::size_t first, std::size_t last);
  void count_reads(const Statement& s);
  void shared_among_all(const Statement& s);
  void allocate(const Statement& s);
  void store(const Statement& s);
  void update(const Statement& s);
  [[nodiscard]] bool counts_up(const Statement& loops, const BufferPtr& to) const;
  [[nodiscard]] bool in_order(const Statement& update) const;
  std::vector<std::string> combined(const ReducerNode& reducer, const std::vector<std::string>& a,
                                    const std::vector<std::string>& b, const std::vector<DType>& types,
                                    bool in_order = false);
  // `stem` with the next number, as long as nothing else has that name.
  std::string numbered(const std::string& stem) {
    for (;;)
      if (const std::string name = stem + str(temporaries_++); names_.used.insert(name).second) return name;
  }
  std::string temporary(DType type, const std::string& value);  // its name
  std::string value(const Expr& x);
  std::string text(const Expr& x);
  std::string count(const Expr& x) { return "i64(" + value(x) + ")"; }
  std::string offset(const BufferPtr& buffer, const std::vector<Expr>& at);
  std::string load(const BufferPtr& buffer, const std::vector<Expr>& at);
  [[nodiscard]] std::string alone(const BufferPtr& buffer) const;
  void put(const BufferPtr& buffer, const std::vector<Expr>& at, const std::string& value, DType type);

  // emit_loop.cpp: how statements run
  void write(const std::vector<Statement>& body);
  void statement(const Statement& s);
  void loop(const Statement& s);
  void bound(const Statement& s);
  void serial(const Statement& s, const std::string& begin, const std::string& end, int unroll);
  [[nodiscard]] bool is_unrolled(const Statement& s) const;
  std::optional<Chain> chain_of(const Statement& s) const;
  bool divide(const Statement& s);
  void divide_unrolled(const Statement& s, const Chain& chain);
  // Registers that loops reduce into: the statement that stores their first values, the constant loops around it, and
  // how many there are.
  struct Accumulators {
    const Statement* first;
    std::vector<const Statement*> around;
    std::int64_t count;
  };
  [[nodiscard]] std::optional<Accumulators> accumulators(const Statement& init, const Statement& loops) const;
  bool reduce_in_registers(const Statement& init, const Statement& loops);
  void find_wide(Chain& chain);

  // emit_wide.cpp: elements side by side
  void innermost(const Statement& s);
  std::string fetched_words(const ExprNode& read, const Statement& along);
  std::string place(const BufferPtr& buffer, const std::vector<Expr>& index, const Statement& along);
  [[nodiscard]] std::int64_t words(const BufferPtr& buffer, const Statement& along) const;
  void batches(const Statement& s, int batch);
  void extreme_of_batch(const Statement& s, int batch);

  // emit_join.cpp: results of threads and of blocks become one
  void join_threads(const Statement& s);
  void join_warps(const Statement& s, const std::vector<DType>& types, const std::vector<std::string>& values,
                  std::int64_t extent);
  void shuffle(const Statement& s, const std::vector<DType>& types, const std::vector<std::string>& values,
               std::int64_t extent);
  void join_blocks(const Statement& s);
  [[nodiscard]] static bool joins_at_once(const ReducerNode& reducer, const std::vector<DType>& types);
  void take_across_warp(const Statement& s, const std::vector<std::string>& values);

  std::string variable(const AxisPtr& axis) { return names_.of(axis.get(), nest_.name(axis)); }
  std::string buffer_name(const BufferPtr& buffer) { return names_.of(buffer.get(), nest_.name(buffer)); }
  // A parameter: how far elements of an argument are apart along an axis.
  std::string stride(const BufferPtr& buffer, std::size_t axis) {
    return fill("p.${buffer}_stride$axis", {{"buffer", buffer_name(buffer)}, {"axis", str(axis)}});
  }
  void line(const std::string& text) { code_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + text + "\n"; }
  void line(std::string_view text, std::initializer_list<Hole> holes) { line(fill(text, holes)); }
  // A block of code that only threads that are not idle run.
  void open(const std::string& head) {
    line(head.empty() ? "{" : head + " {");
    ++depth_;
  }
  void open(std::string_view head, std::initializer_list<Hole> holes) { open(fill(head, holes)); }
  void close() {
    --depth_;
    line("}");
  }
  [[nodiscard]] bool stores_within(const std::vector<Statement>& body, std::size_t tag) const;
  [[nodiscard]] bool in_memory(const BufferPtr& buffer) const {
    return buffer->argument >= 0 || globals_.count(buffer.get()) != 0;
  }

  const Nest& nest_;
  CudaSource out_;
  Names names_;
  cuda::Functions functions_;
  std::set<const Buffer*> globals_;
  std::set<const Buffer*> written_;        // by this kernel
  std::map<const Buffer*, int> readers_;   // so many statements of this kernel read it
  std::vector<BufferPtr> written_before_;  // by the kernels before it
  std::map<const Buffer*, Register> registers_;
  std::unordered_map<const OperationNode*, std::string> parameters_;  // of a combiner
  std::unordered_map<const OperationNode*, std::string> locals_;      // results in registers
  std::set<const AxisNode*> unrolled_;                                // along which registers are numbered
  std::vector<Expr> known_;                                           // conditions that hold here
  Chain* chain_ = nullptr;                                            // whose loops are being written
  bool wide_ = false;                                                 // where chain_->wide holds
  std::unordered_map<const ExprNode*, std::string> fetched_;          // of them
  std::map<const Buffer*, std::string> collected_;                    // to be stored side by side
  struct Made {
    std::string text;
    int uses = 0;  // that are left
  };
  std::unordered_map<const ExprNode*, Made> made_;  // of what value() writes
  KernelSource now_;
  std::string code_, shared_;
  int depth_ = 1, temporaries_ = 0;
  bool all_run_ = false;  // idle threads stand here too
  bool bound_only_ = true;
  std::size_t numbered_ = 0;    // 1 + the axis along which blocks have joined
  std::set<std::size_t> over_;  // the axes of blocks and threads that a loop around runs over
};

}  // namespace postlude::inline v0::te
