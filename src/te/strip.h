// The innermost loops of a nest around one statement, run as strips: some thousand elements at a
// time, whose values lie side by side, operation after operation (cpu/strips/strips.h).
#pragma once

#include "cpu/strips/combiner.h"
#include "cpu/strips/strips.h"
#include "te/linear.h"

#include <array>
#include <memory>
#include <optional>

namespace postlude::inline v0::te {

// Whether memory holds values as strips do.
[[nodiscard]] inline bool is_direct(DType type) {
  return type == DType::f32 || type == DType::i32 || type == DType::i64;
}

// What a thread runs with.
struct Frame {
  std::vector<std::int64_t> loops;             // by slot
  std::vector<char*> buffers;                  // by number
  std::vector<std::unique_ptr<char[]>> owned;  // memory of buffers that this thread allocated
  std::vector<std::int64_t> owned_bytes;
  std::vector<char> scratch;
};

// A buffer whose sizes and strides are known.
struct BoundBuffer {
  int number = 0;
  DType type = DType::f32;
  std::vector<Linear> shape;
  std::vector<std::int64_t> strides;  // elements; of allocated buffers row-major
  std::string name;
};

struct Bounding {  // what a strip is compiled with
  const Nest* nest;
  const Sizes* sizes;
  Slots* slots;
  const std::map<const Buffer*, BoundBuffer>* buffers;
  const cpu::StripTable* table;
};

class StripNest {
 public:
  struct Loop {
    int slot = -1;
    Linear extent;
    bool reduces = false;
  };
  StripNest(const Bounding& with, std::vector<Loop> loops, const std::vector<Expr>& conditions,
            const Statement& statement);
  void run(Frame& frame) const;
  // What stores an update's identity before it, over the same loops but the reduced ones; `for_all`:
  // in all its results and no others.
  void set_initial(std::unique_ptr<StripNest> initial, bool for_all);
  // Whether its first `count` loops, each iteration of which has results of its own, had better be
  // loops of this strip than around it.
  [[nodiscard]] bool takes(std::size_t count) const {
    return along_ || windows_ || (!order_.empty() && order_.back() < count);
  }
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  static constexpr std::int64_t most_elements = 4096, most_products = 64;
  // A box of iterations: per loop its first and its count.
  struct Box {
    std::int64_t first[most_loops], count[most_loops];
  };
  // Where an element is: along each loop of the box, and by what else varies.
  struct Access {
    BoundBuffer buffer;
    std::vector<Linear> index;
    Linear offset;                  // of all, in elements
    bool guarded = false;           // may leave the buffer where its value is not chosen
    std::vector<int> index_values;  // not affine: values that hold the indices
  };
  struct Value {
    enum class Kind : std::uint8_t { constant, index, load, gather, operation, rounded };
    Kind kind = Kind::constant;
    DType type = DType::f32;
    alignas(8) char literal[8] = {};
    Linear linear;  // index
    Access access;
    cpu::StripFn function = nullptr;
    cpu::RoundedCast cast;
    cpu::RandomStrip random;
    std::vector<int> args;
    int slot = -1;         // of scratch
    bool uniform = false;  // the same for all elements
    bool by_row = false;   // one element for a whole row of a strip is left one: only operations read it
  };

  int compile(const Expr& x, bool guarded);
  Value valued(const Expr& x, bool guarded, std::vector<std::pair<Expr, bool>>& missing);
  Access access(const BoundBuffer& buffer, const std::vector<Expr>& index, bool guarded);
  int append(Value value);
  void choose_order();
  void assign_slots();
  void find_by_row();
  void split(Frame& frame, Box& box, std::size_t condition) const;
  void tiles(Frame& frame, const Box& box) const;
  void tile(Frame& frame, const Box& box) const;
  [[nodiscard]] bool is_window(const Box& box) const;
  void window(Frame& frame, const Box& box) const;
  bool lines(Frame& frame, const Box& box) const;
  bool rows(Frame& frame, const Box& box) const;
  bool places(Frame& frame, const Box& box) const;
  void first(Frame& frame, const Box& box) const;
  bool next(Frame& frame, const Box& box, std::size_t but, bool reduced) const;
  [[nodiscard]] bool is_counted(const Box& box) const;
  void compute(Frame& frame, const Box& box, std::int64_t elements, std::size_t count,
               std::vector<cpu::StripArg>& values) const;
  cpu::StripArg loaded(Frame& frame, const Box& box, const Value& value, std::int64_t elements, char* out) const;
  void gather(Frame& frame, const Box& box, const Value& value, const std::vector<cpu::StripArg>& values,
              std::int64_t elements, char* out) const;
  void store(Frame& frame, const Box& box, const std::vector<cpu::StripArg>& values) const;
  void update(Frame& frame, const Box& box, std::int64_t elements, std::vector<cpu::StripArg>& values) const;
  void update_counted(Frame& frame, const Box& box, std::int64_t kept, std::int64_t reduced, void** state,
                      const cpu::StripArg& values) const;
  struct Indices {
    std::int64_t first, row, step;  // of the first element, and from row to row and element to element
  };
  void join_places(Frame& frame, cpu::ReduceStrip& strip, const Indices& of, char* const (&states)[2],
                   const std::array<std::int64_t, 2>& strides) const;
  void fold(void** state, void** elements, std::int64_t rows, std::int64_t columns, bool along, char* scratch) const;
  void fold_in_order(void** state, void** elements, std::int64_t rows, std::int64_t columns, char* scratch) const;
  void multiply_add(void* state, std::int64_t elements, const std::vector<cpu::StripArg>& values) const;
  // Moves elements between memory of `access` and dense ones; over all loops or those not reduced.
  void move(const Frame& frame, const Box& box, const Access& access, char* dense, bool store, bool all,
            bool uniform = false) const;
  [[nodiscard]] char* scratch(Frame& frame, int slot) const {
    return frame.scratch.data() + static_cast<std::int64_t>(slot) * most_elements * 8;
  }

  Bounding with_;
  std::vector<Loop> loops_;
  std::vector<std::size_t> order_;       // of loops, in a strip; the last one's elements lie side by side
  std::vector<Linear> conditions_;       // each at least 0
  std::vector<Expr> scalar_conditions_;  // checked element by element
  std::vector<std::pair<const AxisNode*, int>> scalar_variables_;
  std::vector<bool> single_;  // loops that strips take one by one: what depends on them is no sum
  bool updates_ = false, along_ = false;
  bool in_order_ = false;  // a reducer that may not be taken apart: results meet their elements as the nest says
  std::vector<Access> to_;
  std::vector<Value> values_;
  std::unordered_map<const ExprNode*, int> made_[2];
  std::vector<Expr> kept_;
  std::vector<int> results_;
  ReducerPtr reducer_;
  std::vector<DType> types_;
  alignas(8) char identity_[8] = {};  // argmax: of its values
  cpu::ReduceFn along_function_ = nullptr, across_function_ = nullptr;
  std::unique_ptr<StripNest> initial_;
  bool starts_ = false;      // the window's sums start from 0, without what is initial
  bool lines_ = false;       // elements are read as they are, and reduced along
  bool rows_ = false;        // elements are read as they are, and reduced across
  bool windows_ = false;     // a sum of products of f32 that are read as they are
  bool places_ = false;      // counted_, of elements that are read as they are
  bool counted_ = false;     // argmax along a strip: the index counts a loop, and is made where it is wanted
  bool multiplies_ = false;  // a sum of products: an element joins its state by one multiply-add
  bool swaps_ = false;       // argmax: strips take the value before its index
  std::shared_ptr<const cpu::Combiner> combiner_;
  std::int64_t combiner_offset_ = 0;
  int slots_used_ = 0;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace postlude::inline v0::te
