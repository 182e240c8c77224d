// The state types of reductions, as CUDA C++.
#pragma once

#include "cuda/emit/ops.h"

#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// What stands before them: reduce.cu.
[[nodiscard]] const char* reduction_source();

// Whether it is an argmax of f32 by columns: of a row a thread gathers two words (Extreme in reduce.cu).
[[nodiscard]] bool index_is_column(const lower::Phase& phase, const lower::Reduction& reduction);

// sizeof of a reduction's state.
[[nodiscard]] int state_bytes(const lower::Phase& phase, const lower::Reduction& reduction);

// Several elements that go into a state at once, as code: "8" of them, their index "e", whether one is `in`, the array.
struct Block {
  std::string size, index, in;
  std::string name = "x";
  std::string first = "false";  // whether it is the thread's first
  std::string share = "Share::nothing",
              lane = "0",  // which lanes hold elements of one state (Moments), and the own one
      all = "0.f";         // how many elements of a row a thread will have
};

// The arrays to declare for a block, what fills them for each of its elements, and what adds them to the state.
struct BlockAddition {
  std::string declared, filled, added;
};

struct ReducerText {
  lower::Reducer reducer{};
  std::string type;  // "S0"
  std::string
      gathered;      // of what a thread gathers, which settled<S0>() makes a state: "S0", "Moments", "Extreme<true>"
  std::string text;  // of the struct
  std::vector<DType> components;  // of the state; welford carries its count as a third
  bool short_step = false;        // it takes an element by one instruction
  int bytes = 0;                  // sizeof
  // From values: "S0::lift(v3, v4)".
  [[nodiscard]] std::string lift(const std::vector<std::string>& args) const;
  // A block whose elements' values are `args` into a state called `state`.
  [[nodiscard]] BlockAddition addition(const Block& block, const std::vector<std::string>& args,
                                       const std::string& state) const;
  // The same into a sum, where an element is the product of two values.
  [[nodiscard]] BlockAddition products(const Block& block, const std::string& a, const std::string& b,
                                       const std::string& state) const;
  // The state of lanes that hold elements of one row, from what each gathered: by a function of reduce.cu, or sums
  // about their one shift.
  [[nodiscard]] std::string lanes(const std::string& function, const std::string& own, const std::string& of) const;
  // Result component k of a state called `state`.
  [[nodiscard]] std::string component(const std::string& state, std::size_t k) const;
};

// `ordered`: a thread gathers elements whose columns grow.
[[nodiscard]] ReducerText emit_reducer(const lower::Phase& phase, const lower::Reduction& reduction, int index,
                                       bool ordered, Functions& functions);

}  // namespace postlude::inline v0::cuda
