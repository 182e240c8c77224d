// One phase of a Program, decided for a layout, and ready to be interpreted once it is bound to
// memory.
//
// A phase runs block by block: rows [row0, row0 + rows) times columns [column0, column0 + columns)
// of its domain. Within a block the interpreter goes strip by strip. A value that varies over less
// than the strip is computed less often: it lives on a level,
//   uniform   once a batch
//   row       one value a row, computed once a block, as a vector along m
//   column    one value a column, computed once for each run of strip columns, as a vector along n
//   tile      a strip of rows x columns
// and the steps of the levels run in this order. Values stand in slots of a frame (one per thread),
// reused as soon as their last reader has run. A value that can be read where it lies (the
// accumulator, an f32 operand with unit stride) has no slot, and one that is only stored may be
// computed where it is stored.
#pragma once

#include "core/divide.h"
#include "cpu/layout.h"
#include "cpu/product/microkernel.h"
#include "cpu/strips/ops.h"
#include "cpu/strips/reduce.h"
#include "plan/backend.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace postlude::inline v0::cpu {

struct Pass;  // decide/passes.h

inline constexpr int level_count = 4;
enum class Level : std::uint8_t { uniform, row, column, tile };
[[nodiscard]] inline Level level_of(Axes axes) {
  if (axes.has(Axis::m)) return axes.has(Axis::n) ? Level::tile : Level::row;
  return axes.has(Axis::n) ? Level::column : Level::uniform;
}

// Columns j, j + 1, ... j + length - 1 of a phase are columns n, n + stride, ... of a buffer.
struct ColumnRun {
  std::int64_t j = 0, n = 0, length = 0, stride = 1;
};
// The runs of a map at J = `width` columns, in ascending j. Empty for the identity.
[[nodiscard]] std::vector<ColumnRun> column_runs(const lower::ColumnMap& map, std::int64_t width);
// Whether they are all of a buffer's columns from one on, as they follow each other.
[[nodiscard]] inline bool one_run(const std::vector<ColumnRun>& runs) {
  return runs.empty() || (runs.size() == 1 && runs[0].stride == 1);
}

// Instead of a buffer: the tensor that a stream's accumulator is.
inline constexpr lower::BufferId source_buffer = -1;

// Memory that a phase loads from or stores to.
struct Storage {
  enum class Kind : std::uint8_t {
    bound,        // at `data`, by (b, m, n)
    accumulator,  // a finished block of the product
    local,        // a crossing value of this block's rows, in the frame
  };
  Kind kind = Kind::bound;
  lower::BufferId buffer = source_buffer;  // of the Program's, where it is bound
  char* data = nullptr;                    // once it is
  DType dtype = DType::f32;
  std::int64_t strides[3] = {0, 0, 0};  // elements, for b, m, n
  std::int64_t divide_rows = 1;
  std::vector<ColumnRun> runs;
  int piece = 0;  // accumulator: which piece
  int local = 0;  // local: which
};

struct Block {
  bool operator==(const Block&) const = default;

  std::int64_t batch = 0;
  std::int64_t row0 = 0, rows = 1;
  std::int64_t column0 = 0, columns = 1;
  char* acc = nullptr;
  std::int64_t acc_row = 0, piece_stride = 0;  // elements of 4 bytes
  char* const* locals = nullptr;               // each thread's crossing values, row row0 first
  std::int64_t partial = 0;                    // where this block's partial reductions go (see reduce.h)
};

// Where an argument comes from.
struct Source {
  enum class Where : std::uint8_t { nowhere, slot, storage };
  Where where = Where::nowhere;
  Level level = Level::uniform;
  DType type = DType::f32;
  std::int64_t index = 0;  // bytes into the frame, or which storage
};

// Memory that a later phase, or the next block, will touch: while steps compute a row they ask for
// the part [first, end) of another, of which 1 is all.
struct Wanted {
  lower::BufferId buffer = source_buffer;
  std::int64_t strides[2] = {0, 0};  // bytes, for b and m
  std::int64_t row_bytes = 0;        // unit stride along n
  std::int64_t rows_on = 0;          // from the row that is being computed
  double first = 0, end = 1;
  char* data = nullptr;  // once it is bound

  [[nodiscard]] double bytes() const { return (end - first) * static_cast<double>(row_bytes); }
};
// Cuts the wanted memory into consecutive shares in proportion to `costs`.
[[nodiscard]] std::vector<std::vector<Wanted>> share_out(std::span<const Wanted> wanted, std::span<const double> costs);

struct Step {
  enum class Kind : std::uint8_t {
    apply,   // function over arguments
    cast,    // cast_rounded
    native,  // call_native
    load,    // from `storage` into the slot
    store,   // argument 0 to `storage`
    index,   // coordinates: see Coordinate
    reduce,  // arguments of one piece of a reduction
  };
  Kind kind = Kind::apply;
  StripFn function = nullptr;
  lower::ValueId value = -1;  // what it computes; -1 for stores and reductions
  Source out;
  int first_argument = 0, argument_count = 0;
  int storage = -1;
  int detail = -1;  // index into the list that its kind has
  int piece = 0;
  int sums = -1;               // the reduction that the step's results are added to while they are computed
  bool keeps = true;           // whether anything else reads them
  bool past = false;           // whether they go to memory past the caches
  double cost = 0;             // what it takes, in passes over L1, of a step that can ask for what is wanted meanwhile
  std::vector<Wanted> wanted;  // its share
};

// m_index, n_index, batch_index, and counts of groups.
struct Coordinate {
  Op op = Op::m_index;
  std::int64_t group = 0, extent = 0, scale = 1;  // count: scale * min(group, extent - index * group)
  std::int64_t divide_rows = 1;
  std::vector<ColumnRun> runs;
};

struct PhaseSetting {
  const lower::Program* program = nullptr;
  const lower::Phase* phase = nullptr;
  const StripTable* table = nullptr;
  Shape shape;
  std::span<const Placed> buffers;                 // workspace ones have strides, or are local
  std::span<const int> locals;                     // per buffer: index of a local, or -1
  std::span<const std::int64_t> local_rows;        // per local: row stride in elements
  const Placed* source = nullptr;                  // what the accumulator is; null behind a product
  bool pieces_apart = false;                       // the product comes in pieces
  std::vector<lower::BufferId> past;               // outputs that leave past the caches, ascending
  std::int64_t block_rows = 1, block_columns = 1;  // largest
};

// The calls of strip functions that a phase makes for a block. For every full block of a stream
// they are the same, at addresses that move evenly, so they are recorded once and repeated:
// beginning a step or a block then takes a few additions (decision 0033).
class Script {
 public:
  Script() = default;
  Script(Script&&) = default;  // and no copies: what moves lies in its own calls
  Script& operator=(Script&&) = default;
  void add(StripFn function, const Strip& strip, int arguments);
  void add(ReduceFn function, const ReduceStrip& strip, int arguments);
  // Writes `bytes` that stand at `at` now there again.
  void restore(char* at, std::size_t bytes);
  // This is of the block that begins at row `rows` of batch 0; `below` begins as many later,
  // `beside` in the next batch.
  void settle(const Script& below, const Script& beside, std::int64_t rows);
  void run(std::int64_t batch, std::int64_t row);
  void run() const;

 private:
  struct Call {
    StripFn function = nullptr;
    Strip strip;
    ReduceFn reduce = nullptr;  // where there is no function
    ReduceStrip reduction;
    std::vector<StripArg> arguments;
    std::vector<StripAhead> ahead;
    std::vector<RandomStrip> random;  // what strip.extra is, or none
    std::vector<char> values;         // what restore() writes

    void keep(const StripArg* args, int count, const StripAhead* asked, int spans);
  };
  struct Moving {  // an address in a call
    void* at;
    std::uintptr_t base, batch, row;  // of the first row, and from one to the next
  };
  std::vector<Call> calls_;
  std::vector<Moving> moving_;
};

// A thread's own memory for one phase.
struct PhaseFrame {
  char* memory = nullptr;
  std::int64_t batch = -1;      // whose uniform values it holds
  std::vector<char*> storages;  // address of (batch, row 0, column 0)
  std::vector<StripArg> arguments;
  std::vector<StripAhead> ahead;
  std::vector<std::uint8_t> active;  // per value: not needed, computed, or zero because its guard holds
  Script script;                     // of blocks of script_rows rows
  std::int64_t script_rows = 0;      // 0: they do not repeat
  Script* recording = nullptr;       // instead of being made, calls are added to it
  Block whole{.rows = 0};            // that all of the phase is, if `script` is of its calls; else of no rows
};

class PhaseExecutor {
 public:
  explicit PhaseExecutor(const PhaseSetting& setting);

  // Fills addresses in, before anything runs. The strides are the setting's.
  void bind(const Bound& source, std::span<const Bound> buffers);

  [[nodiscard]] std::int64_t frame_bytes() const { return frame_bytes_; }
  [[nodiscard]] PhaseFrame make_frame(char* memory) const;
  // Forgets uniform values: operands may have changed since the last run.
  void begin(PhaseFrame& frame) const { frame.batch = -1; }
  void run(PhaseFrame& frame, const Block& block) const;
  // Records what full blocks repeat, where there is no product and blocks have whole rows. `block`:
  // the first, which is full.
  void prepare(PhaseFrame& frame, Block block) const;
  // Records what all of the phase is, where that is `block`, so short that it takes as long to tell what to call: the
  // same calls at the same places each time (decision 0297).
  void prepare_whole(PhaseFrame& frame, const Block& block) const;

  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t strip_rows() const { return strip_rows_; }
  [[nodiscard]] std::int64_t strip_columns() const { return strip_columns_; }
  [[nodiscard]] std::vector<ReductionExecutor>& reductions() { return reductions_; }
  [[nodiscard]] const std::vector<ReductionExecutor>& reductions() const { return reductions_; }
  [[nodiscard]] std::string describe() const;
  // The cost of the steps that can ask for memory, and what they are to ask for.
  [[nodiscard]] double asking_cost() const;
  void ask_for(std::span<const Wanted> wanted);
  // Whether a step stores to `buffer` past the caches.
  [[nodiscard]] bool goes_past(lower::BufferId buffer) const;
  // Behind a product the costliest step asks for the tiles beside the accumulator, and for those of
  // the next strip of rows where it, or a step before it, touches them.
  void ask_for_tiles(std::int64_t batch);
  // The first two tiles that the phase stores or reads beside the accumulator, for gemm to
  // prefetch.
  void touched(std::int64_t batch, Prefetch (&prefetch)[2]) const;

 private:
  friend class PhaseBuilder;
  struct Tile {
    std::int64_t row0, rows, column0, columns;
  };
  void find_storages(PhaseFrame& frame, std::int64_t batch) const;
  void begin_batch(PhaseFrame& frame, const Block& block) const;
  void find_locals(PhaseFrame& frame, const Block& block) const;
  void run_levels(PhaseFrame& frame, const Block& block) const;
  [[nodiscard]] bool repeats() const;
  [[nodiscard]] bool calls_alike() const;
  void record(PhaseFrame& frame, const Block& block) const;
  void run_level(Level level, PhaseFrame& frame, const Block& block, const Tile& tile) const;
  void run_step(const Step& step, Level level, PhaseFrame& frame, const Block& block, const Tile& tile) const;
  // Gives the steps over tiles their costs (Step::cost).
  void weigh(const lower::Phase& phase);
  // Sets Step::past of the steps that can store past the caches.
  void store_past(std::span<const lower::BufferId> leaving);
  [[nodiscard]] const Storage* target(const Step& step) const;  // where in bound memory it stores; or null
  // The memory that a step asks for while it computes a tile, in the frame's `ahead`.
  [[nodiscard]] std::span<const StripAhead> ahead(const Step& step, PhaseFrame& frame, const Block& block,
                                                  const Tile& tile) const;
  [[nodiscard]] Strip result_strip(const Step& step, Level level, const PhaseFrame& frame, const Tile& tile) const;
  [[nodiscard]] char* entry_of(int reduction, const PhaseFrame& frame, const Block& block) const;
  void write_zero(const Step& step, Level level, const PhaseFrame& frame, const Tile& tile) const;
  [[nodiscard]] bool holds(const Source& guard, const PhaseFrame& frame) const;
  [[nodiscard]] char* address(const Storage& storage, const PhaseFrame& frame, int index, std::int64_t i,
                              std::int64_t n) const;
  void argument(StripArg& to, const Source& source, Level level, const PhaseFrame& frame, const Block& block,
                const Tile& tile) const;
  void load(const Step& step, Level level, PhaseFrame& frame, const Block& block, const Tile& tile) const;
  void store(const Step& step, Level level, PhaseFrame& frame, const Block& block, const Tile& tile) const;
  void coordinates(const Step& step, Level level, PhaseFrame& frame, const Block& block, const Tile& tile) const;

  const lower::Phase* phase_ = nullptr;
  const StripTable* table_ = nullptr;
  Axes domain_;
  std::int64_t rows_ = 1, columns_ = 1;
  std::int64_t strip_rows_ = 1, strip_columns_ = 1;
  std::vector<Step> steps_[level_count];
  std::vector<Source> arguments_;
  std::vector<Storage> storages_;
  std::vector<Coordinate> coordinates_;
  std::vector<RoundedCast> casts_;
  std::vector<RandomStrip> randoms_;
  std::vector<std::shared_ptr<const NativeFunction>> natives_;
  std::vector<Source> sources_;  // per value
  std::vector<std::pair<Source, Literal>> constants_;
  std::vector<ReductionExecutor> reductions_;
  std::vector<std::int64_t> entry_offsets_;  // of owned reductions, in the frame
  std::int64_t combiner_offset_ = 0;         // scratch of general combiners, in the frame
  bool guarded_ = false;
  bool records_ = false;  // its calls, where it is one short block
  int largest_arity_ = 0;
  std::size_t largest_ahead_ = 0;
  std::int64_t rows_on_ = 0;  // how far ahead a step asks, at most
  int slots_ = 0;             // of tiles, for describe()
  std::int64_t frame_bytes_ = 0;
};

// The outputs of a pass's last phase that are better not written through the caches, ascending.
[[nodiscard]] std::vector<lower::BufferId> leave_caches(const PhaseSetting& setting);

// Makes the rows of a stream pass through cache in step (behind a product see ask_for_tiles). All
// lines that the last phase of the pass stores are asked for before it runs, and the first one's
// next rows whenever there is time (decision 0031). `setting`: that of the pass's executors.
void ask_ahead(const Pass& pass, const PhaseSetting& setting, std::span<PhaseExecutor> executors);

}  // namespace postlude::inline v0::cpu
