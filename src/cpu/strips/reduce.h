// The reductions of a phase. Shapes decide their order, threads do not.
//
// A block of the phase makes, for each reduction, an *entry*: the states of the keys (places of the
// result) that the block touches. Where no other block touches them (a statistic over N while the
// block has whole rows), the entry is a thread's own and finishes with the block. Otherwise every
// block has its own entry in the workspace, and after the pass `combine` takes them in the order of
// the blocks: by batch, by rows, by columns.
//
// Within an entry keys are a rectangle: along the strip's rows (r) and along its columns (c). Axes
// that are kept have a key per row or column; reduced ones have one key, or one per group. A kept
// column axis with several pieces has a rectangle a piece.
#pragma once

#include "cpu/layout.h"
#include "cpu/strips/combiner.h"
#include "cpu/strips/strips.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace postlude::inline v0::cpu {

struct ColumnRun;

inline constexpr int max_components = 16;  // of a general reduction

struct ReductionSetting {
  const lower::Program* program = nullptr;
  const lower::Phase* phase = nullptr;
  const lower::Reduction* reduction = nullptr;
  const StripTable* table = nullptr;
  Shape shape;
  std::span<const Placed> buffers;
  std::int64_t rows = 1, columns = 1;              // of the phase's domain
  std::int64_t block_rows = 1, block_columns = 1;  // of its blocks
  std::int64_t strip_columns = 1;                  // at most, in one call
};

class ReductionExecutor {
 public:
  explicit ReductionExecutor(const ReductionSetting& setting);

  // Fills the results' addresses in.
  void bind(std::span<const Bound> buffers);

  // Whether every key belongs to one block. Then a frame has `entry_bytes`, else the workspace has
  // `workspace_bytes`.
  [[nodiscard]] bool owned() const { return owned_; }
  [[nodiscard]] std::int64_t entry_bytes() const { return entry_bytes_; }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return combiner_ ? static_cast<std::int64_t>(components_.size()) * strip_columns_ * 8 +
                           combiner_->scratch_bytes(strip_columns_)
                     : 0;
  }
  [[nodiscard]] std::int64_t workspace_bytes() const { return owned_ ? 0 : entry_bytes_ * entries_ + total_bytes_; }
  void set_workspace(char* memory) { workspace_ = memory; }
  // The entry of a block, where entries are not owned.
  [[nodiscard]] char* entry(std::int64_t block) const { return workspace_ + block * entry_bytes_; }

  // A block resets its entry, takes strip after strip, and (owned) finishes.
  struct Region {
    std::int64_t row0 = 0, rows = 1, column0 = 0, columns = 1;
  };
  void reset(char* entry) const;
  // `arguments`: one a component of the elements, column_stride 1 (argmax's index may have 0 where
  // columns are kept). `ahead`: see strips.h.
  void take(char* entry, char* scratch, int piece, const StripArg* arguments, const Region& strip, const Region& block,
            std::span<const StripAhead> ahead) const;
  // The f32 sums of a row's elements, or (columns are kept) of the block's columns, and their distance from row to row,
  // for functions that add to them (Strip::sums).
  [[nodiscard]] float* sums(char* entry, std::int64_t row, const Region& block) const {
    return reinterpret_cast<float*>(entry + components_[0].offset) + (keep_rows_ ? row - block.row0 : 0);
  }
  [[nodiscard]] std::int64_t sum_row_stride() const { return keep_rows_ ? 1 : 0; }
  void finish(const char* entry, std::int64_t batch, const Region& block) const;
  // A component of a reduction by row (one call of a function along rows, with states and results
  // of one f32 a row): its state in the entry and its result (null where it is not wanted) at batch
  // 0, row 0.
  struct State {
    const std::int64_t* identity = nullptr;
    std::int64_t offset = 0;
    float* result = nullptr;
    const std::int64_t* strides = nullptr;  // its, for b and m
  };
  [[nodiscard]] bool is_by_row() const;
  [[nodiscard]] ReduceFn along() const { return along_; }
  [[nodiscard]] std::vector<State> states() const;

  // Runs after all blocks, where entries are not owned, and takes them in the order of their
  // numbers: (batch * row blocks + row block) * column blocks + column block. Without any block the
  // results are identities.
  void combine(char* scratch) const;

 private:
  struct Component {
    DType type = DType::f32;
    std::int64_t identity = 0;      // its bits
    std::int64_t offset = 0;        // bytes, in an entry
    std::int64_t total_offset = 0;  // in the totals
    lower::BufferId buffer = -1;    // of the result; -1 where it is not wanted
    Bound result;                   // that, with its address once it is bound
  };
  struct Segment {  // columns [c, c + length) of the domain have key `key`
    std::int64_t c = 0, length = 0, key = 0;
  };
  // Keys that a region of the strip's rows and columns touches.
  struct Keys {
    std::int64_t row0 = 0, rows = 1;  // absolute keys
    std::int64_t column0 = 0, columns = 1;
  };
  // The region as the strip's rows and columns: a phase of domain {m} has its rows along the
  // strip's columns.
  [[nodiscard]] Region turned(const Region& region) const;
  [[nodiscard]] Keys keys_of(const Region& block) const;
  // Calls body(c, key, length, stride) for the kept columns of a piece in [c0, c0 + count): columns
  // c.. have keys key, key + stride ...
  template <class Body>
  void for_kept(int piece, std::int64_t c0, std::int64_t count, Body&& body) const;
  void fill(char* at, const Component& component, std::int64_t count) const;
  void write(const Component& component, const char* from, std::int64_t pitch, std::int64_t batch, const Keys& keys,
             std::int64_t column_key_stride) const;
  void take_rows(void* const* state, std::int64_t state_row_stride, const StripArg* arguments, std::int64_t rows,
                 std::int64_t columns, char* scratch, std::span<const StripAhead> ahead) const;
  void take_across(void* const* state, std::int64_t state_row_stride, const StripArg* arguments, std::int64_t rows,
                   std::int64_t columns, char* scratch) const;

  const StripTable* table_ = nullptr;
  std::vector<Component> components_;
  std::optional<Combiner> combiner_;
  std::int64_t strip_columns_ = 1;
  ReduceFn along_ = nullptr, across_ = nullptr, merge_ = nullptr;
  bool vector_along_m_ = false;  // the strip's columns are m: a phase of domain {m}
  bool keep_rows_ = true, keep_columns_ = true, keep_batch_ = true, owned_ = false;
  std::int64_t row_group_ = 0, column_group_ = 0;
  std::int64_t rows_ = 1, columns_ = 1, batch_ = 1, block_rows_ = 1, block_columns_ = 1;  // of the strip's axes
  int arguments_ = 1;
  bool mapped_groups_ = false;  // groups of columns that a ColumnMap scatters: entries have all keys
  std::int64_t row_capacity_ = 1, column_capacity_ = 1;  // of an entry's rectangle
  std::int64_t total_rows_ = 1, total_columns_ = 1;
  std::vector<std::vector<ColumnRun>> runs_;    // per piece, of kept columns
  std::vector<std::vector<Segment>> segments_;  // per piece, of grouped columns
  std::int64_t entry_bytes_ = 0, entries_ = 0, total_bytes_ = 0;
  char* workspace_ = nullptr;
};

}  // namespace postlude::inline v0::cpu
