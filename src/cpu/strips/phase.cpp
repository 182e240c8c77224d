// The builder of a PhaseExecutor decides where every value stands, and the steps of each level. The
// file is longer than most because one builder decides all of that.
#include "cpu/strips/phase.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace postlude::inline v0::cpu {

using lower::Instruction;
using lower::ValueId;

std::vector<ColumnRun> column_runs(const lower::ColumnMap& map, std::int64_t width) {
  std::vector<ColumnRun> runs;
  if (map.identity()) return runs;
  for (std::int64_t j = 0; j < width; ++j) {
    const std::int64_t n = map(j, width);
    if (!runs.empty()) {
      ColumnRun& last = runs.back();
      if (last.length == 1) last.stride = n - last.n;
      if (n == last.n + last.length * last.stride) {
        ++last.length;
        continue;
      }
      if (last.length == 1) last.stride = 1;
    }
    runs.push_back({j, n, 1, 1});
  }
  return runs;
}

namespace {

// A strip has this many elements: slots of 8 KB, of which L1 holds a few. Shorter strips begin more
// often, each behind stores that still wait for memory (decision 0037).
constexpr std::int64_t usual_strip = 2048;
// Where only one step touches the elements nothing is kept in L1, and a longer strip hides more of
// the memory's latency: the processor stops prefetching at the end of a page.
constexpr std::int64_t longest_strip = 8192;
// A stream takes rows together up to so many elements: behind longer blocks the interpreter's own
// data comes from L2 (decision 0033).
constexpr std::int64_t whole_block = 16 * 1024;
// Two steps of a stream leave L1 as it is too, so their strips may be long.
constexpr std::int64_t long_strip = 4096;

// Rows m and m + 8 have their random numbers of one block of Philox, so they should lie in one strip. A block of rows
// that is no multiple of 16 is one strip high: the first of its rows may be the second of such a pair.
constexpr std::int64_t random_rows = 16, most_random_rows = 24;

// Whether elements of `stored` lie in memory as values of `type` stand in slots.
bool as_in_slots(DType stored, DType type) { return stored == type && type != DType::boolean; }

}  // namespace

// Hands out slots of one level, of 4 or 8 bytes an element, each for `capacity` elements. Slots of
// single elements, among them all uniform values (whose stores come after all their steps), are not
// reused.
class SlotPool {
 public:
  SlotPool(std::int64_t capacity, std::int64_t& frame) : capacity_(capacity), frame_(frame) {}
  std::int64_t take(DType type) {
    if (capacity_ == 1) return (frame_ += 8) - 8;
    std::vector<std::int64_t>& free = free_[type == DType::i64];
    if (!free.empty()) {
      const std::int64_t slot = free.back();
      free.pop_back();
      return slot;
    }
    const std::int64_t slot = frame_;
    // The extra line keeps slots from lying 4 KB apart, where a load seems to wait for another
    // slot's store.
    frame_ += round_up(capacity_ * strip_bytes(type), line) + line;
    ++count_;
    return slot;
  }
  void give(std::int64_t slot, DType type) {
    if (capacity_ > 1) free_[type == DType::i64].push_back(slot);
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  std::int64_t capacity_;
  std::int64_t& frame_;
  std::vector<std::int64_t> free_[2];
  int count_ = 0;
};

class PhaseBuilder {
 public:
  PhaseBuilder(PhaseExecutor& to, const PhaseSetting& setting) : to_(to), set_(setting), phase_(*setting.phase) {}

  void build() {
    extents();
    uses();
    for (ValueId v = 0; v < static_cast<ValueId>(phase_.code.size()); ++v) place_value(v);
    for (int r = 0; r < static_cast<int>(phase_.reductions.size()); ++r) add_reduction(r);
    order_steps();
    strips();
    assign_slots();
    finish();
  }

 private:
  // A step before slots are known: arguments are values.
  struct Draft {
    Step step;
    Level level = Level::uniform;
    std::vector<ValueId> arguments;
    std::int64_t order = 0;  // steps of a level run in ascending order
  };

  void extents() {
    to_.phase_ = &phase_;
    to_.table_ = set_.table;
    to_.domain_ = phase_.domain;
    to_.rows_ = phase_.domain.has(Axis::m) ? phase_.rows.at(set_.shape.m) : 1;
    to_.columns_ = phase_.domain.has(Axis::n) ? phase_.columns.at(set_.shape.n) : 1;
  }

  void strips() {
    const auto tiles =
        std::count_if(drafts_.begin(), drafts_.end(), [](const Draft& d) { return d.level == Level::tile; });
    const std::int64_t strip_elements = tiles == 1                  ? longest_strip
                                        : tiles == 2 && set_.source ? long_strip
                                                                    : usual_strip;
    const std::int64_t columns = std::max<std::int64_t>(1, std::min(set_.block_columns, to_.columns_));
    // A strip's columns are the block's, in equal parts of whole cache lines.
    const bool draws = std::any_of(phase_.code.begin(), phase_.code.end(),
                                   [](const lower::Instruction& i) { return i.op == Op::random; });
    const bool pairs = draws && set_.block_rows >= random_rows;
    const std::int64_t together = !pairs                               ? 1
                                  : set_.block_rows % random_rows == 0 ? random_rows
                                                                       : std::min(set_.block_rows, most_random_rows);
    const std::int64_t parts = ceil_div(columns, strip_elements / together / 16 * 16);
    to_.strip_columns_ = std::min(columns, round_up(ceil_div(columns, parts), 16));
    const std::int64_t elements = tiles == 1 && set_.source ? whole_block : strip_elements;
    to_.strip_rows_ = std::max<std::int64_t>(1, std::min(set_.block_rows, elements / to_.strip_columns_));
    capacity_[static_cast<int>(Level::uniform)] = 1;
    capacity_[static_cast<int>(Level::row)] = std::max<std::int64_t>(1, std::min(set_.block_rows, to_.rows_));
    capacity_[static_cast<int>(Level::column)] = to_.strip_columns_;
    capacity_[static_cast<int>(Level::tile)] = to_.strip_columns_ * to_.strip_rows_;
  }

  // Finds for each value its only store, if it has one, and whether other steps read it.
  void uses() {
    store_of_.assign(phase_.code.size(), -1);
    // A strip's loads come before its stores where an output stands in place of an operand.
    std::vector<int> loaded;
    if (set_.source) loaded.push_back(set_.source->base);
    for (const Instruction& instruction : phase_.code) {
      if (instruction.op == Op::operand && local_of(instruction.access.buffer) < 0)
        loaded.push_back(set_.buffers[instruction.access.buffer].base);
    }
    std::sort(loaded.begin(), loaded.end());
    for (const lower::Store& store : phase_.stores) {
      const int to = set_.buffers[store.access.buffer].base;
      if (local_of(store.access.buffer) < 0 && std::binary_search(loaded.begin(), loaded.end(), to)) in_place_ = true;
    }
    for (int s = 0; s < static_cast<int>(phase_.stores.size()); ++s) {
      int& store = store_of_[phase_.stores[s].value];
      store = store == -1 ? s : -2;
    }
    stored_directly_.assign(phase_.stores.size(), false);
    for (const Instruction& instruction : phase_.code) to_.guarded_ = to_.guarded_ || instruction.guard >= 0;
    to_.sources_.resize(phase_.code.size());
    readers_.assign(phase_.code.size(), 0);
    for (const Instruction& instruction : phase_.code) {
      for (const ValueId arg : instruction.args) ++readers_[arg];
      if (instruction.guard >= 0) ++readers_[instruction.guard];
    }
    lower::for_each_use(phase_, [&](ValueId v) { ++readers_[v]; });
    absorbs_.assign(phase_.code.size(), -1);
    absorbed_.assign(phase_.code.size(), false);
    const auto size = static_cast<ValueId>(phase_.code.size());
    for (ValueId v = 0; v < size; ++v) {
      if (phase_.code[v].op == Op::exp) absorb(v, 0, Op::sub);
      if (phase_.code[v].op == Op::max) absorb(v, 0, Op::add);
    }
    for (ValueId v = 0; v < size; ++v) {
      const Op op = phase_.code[v].op;
      if (op != Op::add && op != Op::sub && op != Op::mul) continue;
      absorb(v, 0, Op::cast);
      if (op != Op::sub) absorb(v, 1, Op::cast);
      if (op == Op::mul) absorb(v, 0, Op::mul);
    }
  }

  // The step of v computes its argument i too, where that is an `op` of the same level that nothing
  // else reads: a pass over L1 less (decision 0037).
  void absorb(ValueId v, std::size_t i, Op op) {
    const Instruction& x = phase_.code[v];
    const ValueId u = x.args[i];
    const Instruction& inner = phase_.code[u];
    if (inner.op != op || x.type != DType::f32 || inner.type != DType::f32 || x.guard >= 0 || inner.guard >= 0 ||
        inner.axes != x.axes || readers_[u] != 1 || absorbed_[v] || absorbs_[v] >= 0 || absorbs_[u] >= 0) {
      return;
    }
    if (op == Op::cast && (inner.dtype != DType::bf16 || inner.round != Round::nearest_even ||
                           phase_.code[inner.args[0]].type != DType::f32)) {
      return;
    }
    absorbs_[v] = u;
    absorbed_[u] = true;
  }

  void place_with_absorbed(ValueId v) {
    const Instruction& x = phase_.code[v];
    const Instruction& inner = phase_.code[absorbs_[v]];
    const StripTable& table = *set_.table;
    Draft made = draft(Step::Kind::apply, level_of(x.axes), v);
    made.arguments = inner.args;
    if (inner.op == Op::sub) {
      made.step.function = table.exp_difference;
    } else if (inner.op == Op::mul || x.op == Op::max) {
      made.step.function = x.op == Op::max ? table.added_max : table.product;
      made.arguments.push_back(x.args[1]);
    } else {
      made.step.function = x.op == Op::add   ? table.rounded_add
                           : x.op == Op::sub ? table.rounded_sub
                                             : table.rounded_mul;
      made.arguments.push_back(x.args[x.args[0] == absorbs_[v] ? 1 : 0]);
    }
    drafts_.push_back(std::move(made));
  }

  [[nodiscard]] int local_of(lower::BufferId buffer) const {
    return set_.locals.empty() ? -1 : set_.locals[static_cast<std::size_t>(buffer)];
  }

  int add_storage(const lower::Access& access) {
    Storage storage;
    const Placed& bound = set_.buffers[access.buffer];
    storage.buffer = access.buffer;
    storage.dtype = bound.dtype;
    storage.divide_rows = access.divide_rows;
    storage.runs = column_runs(access.columns, to_.columns_);
    const int local = local_of(access.buffer);
    if (local >= 0) {
      storage.kind = Storage::Kind::local;
      storage.local = local;
      storage.strides[1] = set_.local_rows[static_cast<std::size_t>(local)];
      storage.strides[2] = set_.program->buffers[access.buffer].axes.has(Axis::n) ? 1 : 0;
    } else {
      std::copy(bound.strides.begin(), bound.strides.end(), storage.strides);
    }
    to_.storages_.push_back(std::move(storage));
    return static_cast<int>(to_.storages_.size()) - 1;
  }

  int add_accumulator(const Instruction& instruction) {
    Storage storage;
    if (set_.source) {
      storage.dtype = set_.source->dtype;
      std::copy(set_.source->strides.begin(), set_.source->strides.end(), storage.strides);
      storage.divide_rows = instruction.access.divide_rows;
      storage.runs = column_runs(instruction.access.columns, to_.columns_);
    } else {
      storage.kind = Storage::Kind::accumulator;
      storage.dtype = instruction.type;
      storage.strides[2] = 1;  // strides[1] is the block's
      if (set_.pieces_apart) {
        storage.piece =
            instruction.access.columns.steps.empty() ? 0 : static_cast<int>(instruction.access.columns.steps[0].piece);
      } else {
        storage.runs = column_runs(instruction.access.columns, to_.columns_);
      }
    }
    to_.storages_.push_back(std::move(storage));
    return static_cast<int>(to_.storages_.size()) - 1;
  }

  Draft draft(Step::Kind kind, Level level, ValueId value, StripFn function = nullptr) {
    Draft made;
    made.step.kind = kind;
    made.step.value = value;
    made.step.function = function;
    made.level = level;
    made.order = 2 * static_cast<std::int64_t>(value);
    return made;
  }

  void place_value(ValueId v) {
    const Instruction& instruction = phase_.code[v];
    const Level level = level_of(instruction.axes);
    Source& source = to_.sources_[v];
    source.level = level;
    source.type = instruction.type;
    if (absorbed_[v]) return;
    switch (instruction.op) {
      case Op::constant:
        source.where = Source::Where::slot;
        constants_.push_back(v);
        return;
      case Op::operand:
      case Op::acc: return place_load(v);
      case Op::m_index:
      case Op::n_index:
      case Op::batch_index:
      case Op::get: {
        Draft made = draft(Step::Kind::index, level, v);
        made.step.detail = static_cast<int>(to_.coordinates_.size());
        to_.coordinates_.push_back(coordinate(instruction));
        drafts_.push_back(std::move(made));
        break;
      }
      case Op::random: {
        Draft made = draft(Step::Kind::apply, level, v, set_.table->random);
        made.step.detail = static_cast<int>(to_.randoms_.size());
        to_.randoms_.push_back({instruction.seed, instruction.random_stream, 0});
        made.arguments = instruction.args;
        drafts_.push_back(std::move(made));
        break;
      }
      case Op::cast: {
        const DType from = phase_.code[instruction.args[0]].type;
        const bool exact = is_float(instruction.dtype) ? false : from != DType::f32;
        Draft made = draft(Step::Kind::apply, level, v,
                           set_.table->cast[compute_index(from)][static_cast<int>(instruction.dtype)]);
        made.arguments = instruction.args;
        if (instruction.round != Round::nearest_even && !exact) {
          made.step.kind = Step::Kind::cast;
          made.step.detail = static_cast<int>(to_.casts_.size());
          to_.casts_.push_back({from, instruction.dtype, instruction.round});
        } else {
          made.arguments.resize(1);
        }
        drafts_.push_back(std::move(made));
        break;
      }
      case Op::call: {
        const NativeStrip* own = find_native(*set_.table, instruction.function->name);
        const bool prelude = instruction.function->prelude && own != nullptr;
        Draft made =
            draft(prelude ? Step::Kind::apply : Step::Kind::native, level, v, prelude ? own->function : nullptr);
        if (!prelude) {
          made.step.detail = static_cast<int>(to_.natives_.size());
          to_.natives_.push_back(instruction.function->native);
        }
        made.arguments = instruction.args;
        drafts_.push_back(std::move(made));
        break;
      }
      default:
        if (absorbs_[v] >= 0) place_with_absorbed(v);
        else place_operation(v);
        break;
    }
    source.where = Source::Where::slot;
    store_in_place_of_slot(v);
  }

  void place_operation(ValueId v) {
    const Instruction& instruction = phase_.code[v];
    const DType by = instruction.args.empty() ? instruction.type : phase_.code[instruction.args.back()].type;
    const StripFn function = set_.table->ops[static_cast<int>(instruction.op)][compute_index(by)];
    if (function == nullptr) {
      throw Error(ErrorCode::internal,
                  "the CPU has no strip function for '" + std::string(info(instruction.op).id) + "'");
    }
    Draft made = draft(Step::Kind::apply, level_of(instruction.axes), v, function);
    made.arguments = instruction.args;
    drafts_.push_back(std::move(made));
  }

  // A value that is stored as it is may be computed in the output itself.
  void store_in_place_of_slot(ValueId v) {
    const int s = store_of_[v];
    if (s < 0 || in_place_ || drafts_.back().step.kind == Step::Kind::index) return;
    const lower::Store& store = phase_.stores[s];
    const lower::Buffer& buffer = set_.program->buffers[store.access.buffer];
    const Instruction& instruction = phase_.code[v];
    if (level_of(buffer.axes & phase_.domain) != level_of(instruction.axes) ||
        level_of(instruction.axes) != Level::tile || !as_in_slots(buffer.dtype, instruction.type)) {
      return;
    }
    const int storage = add_storage(store.access);
    const Storage& at = to_.storages_[storage];
    // Nobody reads a value that is on its way to memory.
    const bool leaves = std::binary_search(set_.past.begin(), set_.past.end(), at.buffer);
    if (at.strides[2] != 1 || !one_run(at.runs) || at.divide_rows != 1 || (leaves && readers_[v] > 1)) {
      to_.storages_.pop_back();
      return;
    }
    to_.sources_[v].where = Source::Where::storage;
    to_.sources_[v].index = storage;
    stored_directly_[s] = true;
  }

  void place_load(ValueId v) {
    const Instruction& instruction = phase_.code[v];
    const Level level = level_of(instruction.axes);
    const int index = instruction.op == Op::acc ? add_accumulator(instruction) : add_storage(instruction.access);
    const Storage& storage = to_.storages_[index];
    Source& source = to_.sources_[v];
    const std::int64_t step = level == Level::row ? storage.strides[1] : storage.strides[2];
    // Neither another store nor the steps of a later level must read what one store has written in
    // place.
    const bool overwritten = in_place_ && (store_of_[v] != -1 || level != Level::tile);
    if (!overwritten && level != Level::uniform && step == 1 && as_in_slots(storage.dtype, instruction.type) &&
        instruction.guard < 0 && storage.divide_rows == 1 && (level == Level::row || one_run(storage.runs))) {
      source.where = Source::Where::storage;
      source.index = index;
      return;
    }
    source.where = Source::Where::slot;
    Draft made = draft(Step::Kind::load, level, v, set_.table->load[static_cast<int>(storage.dtype)]);
    made.step.storage = index;
    // Lowering puts a cast behind a load whose type is not the one in which the dtype is computed.
    if (compute_type(storage.dtype) != instruction.type) {
      throw Error(ErrorCode::internal,
                  "a load of " + std::string(name(storage.dtype)) + " is not of its computed type");
    }
    drafts_.push_back(std::move(made));
  }

  [[nodiscard]] Coordinate coordinate(const Instruction& instruction) const {
    Coordinate made;
    made.op = instruction.op;
    made.divide_rows = instruction.access.divide_rows;
    if (instruction.axes.has(Axis::n)) made.runs = column_runs(instruction.access.columns, to_.columns_);
    if (instruction.op != Op::get) return made;
    const std::int64_t rows = instruction.rows.at(set_.shape.m), columns = instruction.columns.at(set_.shape.n);
    const Axes over = instruction.count_axes;
    made.scale = over.has(Axis::b) ? set_.shape.batch : 1;
    if (instruction.group == 0) {
      made.scale *= (over.has(Axis::m) ? rows : 1) * (over.has(Axis::n) ? columns : 1);
    } else {
      made.group = instruction.group;
      made.extent = over.has(Axis::n) ? columns : rows;
    }
    return made;
  }

  void add_reduction(int r) {
    const lower::Reduction& reduction = phase_.reductions[r];
    const Level level = level_of(phase_.domain);
    for (int p = 0; p < static_cast<int>(reduction.pieces.size()); ++p) {
      const lower::Reduction::Piece& piece = reduction.pieces[p];
      if (summed_on_the_way(r, piece)) continue;
      Draft made = draft(Step::Kind::reduce, level, -1);
      made.step.detail = r;
      made.step.piece = p;
      for (const ValueId v : piece.args) {
        ValueId arg = v;
        // Reductions read consecutive elements along the strip's columns.
        const Level own = level_of(phase_.code[v].axes);
        const bool varies = own == level || (level == Level::tile && own == Level::column);
        if (!varies && level != Level::uniform) arg = spread(v, level);
        made.arguments.push_back(arg);
        made.order = std::max(made.order, 2 * static_cast<std::int64_t>(v) + 1);
      }
      drafts_.push_back(std::move(made));
    }
  }

  // Whether the step that computes the summands of a sum along rows sums them too, in the same pass
  // over the elements (decision 0031).
  bool summed_on_the_way(int r, const lower::Reduction::Piece& piece) {
    const lower::Reduction& reduction = phase_.reductions[r];
    if (to_.guarded_ || level_of(phase_.domain) != Level::tile || reduction.reducer != lower::Reducer::sum ||
        reduction.type != DType::f32 || !reduction.axes.has(Axis::n) || reduction.group != 0) {
      return false;
    }
    const ValueId v = piece.args[0];
    const auto made = std::find_if(drafts_.begin(), drafts_.end(), [&](const Draft& d) { return d.step.value == v; });
    if (made == drafts_.end() || made->level != Level::tile || made->step.kind != Step::Kind::apply ||
        made->step.sums >= 0 || (made->arguments.size() > 2 && phase_.code[v].op != Op::mul)) {
      return false;
    }
    switch (phase_.code[v].op) {
      case Op::sin:
      case Op::cos:
      case Op::random: return false;
      default: break;
    }
    made->step.sums = r;
    made->step.keeps = readers_[v] > 1;
    if (!made->step.keeps && is_summed_by_factors(phase_, v)) made->step.function = set_.table->logarithms;
    return true;
  }

  // A copy of a value on the level of the domain.
  ValueId spread(ValueId v, Level level) {
    const DType type = phase_.code[v].type;
    Draft made = draft(Step::Kind::apply, level, static_cast<ValueId>(to_.sources_.size()),
                       set_.table->copy[compute_index(type)]);
    made.order = 2 * static_cast<std::int64_t>(v) + 1;
    made.arguments = {v};
    to_.sources_.push_back({Source::Where::slot, level, type, 0});
    drafts_.push_back(std::move(made));
    return static_cast<ValueId>(to_.sources_.size()) - 1;
  }

  void order_steps() {
    for (int s = 0; s < static_cast<int>(phase_.stores.size()); ++s) {
      if (stored_directly_[s]) continue;
      const lower::Store& store = phase_.stores[s];
      const Placed& bound = set_.buffers[store.access.buffer];
      const DType type = phase_.code[store.value].type;
      const Level level = level_of(set_.program->buffers[store.access.buffer].axes & phase_.domain);
      Draft made =
          draft(Step::Kind::store, level, -1, set_.table->store[compute_index(type)][static_cast<int>(bound.dtype)]);
      made.step.storage = add_storage(store.access);
      made.arguments = {store.value};
      made.order = in_place_ ? INT64_MAX : 2 * static_cast<std::int64_t>(store.value) + 1;
      drafts_.push_back(std::move(made));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(), [](const Draft& a, const Draft& b) { return a.order < b.order; });
  }

  void assign_slots() {
    const std::size_t values = to_.sources_.size();
    // The last draft of a value's own level that reads it; drafts.size() where another level, or a
    // guard, does.
    const int never = static_cast<int>(drafts_.size());
    std::vector<int> last(values, -1);
    for (int d = 0; d < never; ++d) {
      for (const ValueId v : drafts_[d].arguments) {
        last[v] = to_.sources_[v].level == drafts_[d].level ? std::max(last[v], d) : never;
      }
    }
    for (const Instruction& instruction : phase_.code) {
      if (instruction.guard >= 0) last[instruction.guard] = never;
    }
    std::int64_t frame = 0;
    for (const ValueId v : constants_) {
      to_.sources_[v].index = frame;
      frame += 8;
      to_.constants_.push_back({to_.sources_[v], phase_.code[v].literal});
    }
    for (int l = 0; l < level_count; ++l) {
      frame = round_up(frame, line);
      SlotPool pool(capacity_[l], frame);
      for (int d = 0; d < never; ++d) {
        Draft& made = drafts_[d];
        if (static_cast<int>(made.level) != l) continue;
        auto release = [&] {
          for (std::size_t a = 0; a < made.arguments.size(); ++a) {
            const ValueId v = made.arguments[a];
            Source& source = to_.sources_[v];
            const bool repeated =
                std::find(made.arguments.begin(), made.arguments.begin() + a, v) != made.arguments.begin() + a;
            if (last[v] == d && !repeated && source.where == Source::Where::slot && source.level == made.level &&
                (v >= static_cast<ValueId>(phase_.code.size()) || phase_.code[v].op != Op::constant)) {
              pool.give(source.index, source.type);
            }
          }
        };
        const ValueId v = made.step.value;
        // A result may stand where an argument of the same size stood; a cast or comparison of
        // another size has its own pool, so that it never does.
        release();
        if (v >= 0 && to_.sources_[v].where == Source::Where::slot) {
          to_.sources_[v].index = pool.take(to_.sources_[v].type);
          if (last[v] < 0) pool.give(to_.sources_[v].index, to_.sources_[v].type);
        }
      }
      if (l == static_cast<int>(Level::tile)) to_.slots_ = pool.count();
    }
    to_.frame_bytes_ = round_up(frame, line);
    for (Draft& made : drafts_) {
      Step& step = made.step;
      step.first_argument = static_cast<int>(to_.arguments_.size());
      step.argument_count = static_cast<int>(made.arguments.size());
      to_.largest_arity_ = std::max(to_.largest_arity_, step.argument_count);
      for (const ValueId v : made.arguments) to_.arguments_.push_back(to_.sources_[v]);
      if (step.value >= 0) step.out = to_.sources_[step.value];
      to_.steps_[static_cast<int>(made.level)].push_back(step);
    }
  }

  void finish() {
    to_.weigh(phase_);
    to_.store_past(set_.past);
    to_.records_ = to_.calls_alike() && phase_.reductions.empty();
    for (const lower::Reduction& reduction : phase_.reductions) {
      to_.reductions_.emplace_back(ReductionSetting{
          set_.program, &phase_, &reduction, set_.table, set_.shape, set_.buffers, to_.rows_, to_.columns_,
          std::min(set_.block_rows, to_.rows_), std::min(set_.block_columns, to_.columns_),
          level_of(phase_.domain) == Level::row ? capacity_[1] : to_.strip_columns_});
    }
    std::int64_t scratch = 0;
    for (const ReductionExecutor& reduction : to_.reductions_) {
      to_.entry_offsets_.push_back(to_.frame_bytes_);
      if (reduction.owned()) to_.frame_bytes_ += round_up(reduction.entry_bytes(), line);
      scratch = std::max(scratch, reduction.scratch_bytes());
    }
    to_.combiner_offset_ = to_.frame_bytes_;
    to_.frame_bytes_ += round_up(scratch, line);
  }

  PhaseExecutor& to_;
  const PhaseSetting& set_;
  const lower::Phase& phase_;
  std::int64_t capacity_[level_count] = {1, 1, 1, 1};
  std::vector<Draft> drafts_;
  std::vector<ValueId> constants_;
  std::vector<int> store_of_;
  std::vector<int> readers_;
  std::vector<ValueId> absorbs_;  // per value: the argument that its step computes too, or -1
  std::vector<bool> absorbed_;    // whether it is one
  std::vector<bool> stored_directly_;
  bool in_place_ = false;
};

PhaseExecutor::PhaseExecutor(const PhaseSetting& setting) { PhaseBuilder(*this, setting).build(); }

void PhaseExecutor::bind(const Bound& source, std::span<const Bound> buffers) {
  const auto address = [&](lower::BufferId buffer) {
    return static_cast<char*>((buffer == source_buffer ? source : buffers[static_cast<std::size_t>(buffer)]).data);
  };
  for (Storage& storage : storages_) {
    if (storage.kind == Storage::Kind::bound) storage.data = address(storage.buffer);
  }
  for (Step& step : steps_[static_cast<int>(Level::tile)]) {
    for (Wanted& wanted : step.wanted) wanted.data = address(wanted.buffer);
  }
  for (ReductionExecutor& reduction : reductions_) reduction.bind(buffers);
}

std::string PhaseExecutor::describe() const {
  return std::to_string(strip_rows_) + " x " + std::to_string(strip_columns_) + " strips, " +
         std::to_string(steps_[static_cast<int>(Level::tile)].size()) + " steps a strip over " +
         std::to_string(slots_) + " slots, " + std::to_string(steps_[static_cast<int>(Level::row)].size()) +
         " a row block, " + std::to_string(steps_[static_cast<int>(Level::column)].size()) + " a column run, " +
         std::to_string(steps_[static_cast<int>(Level::uniform)].size()) + " a batch";
}

}  // namespace postlude::inline v0::cpu
