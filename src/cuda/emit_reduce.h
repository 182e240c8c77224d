// The state types of reductions, as CUDA C++.
#pragma once

#include "cuda/emit_ops.h"

#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

struct ReducerText {
  std::string type;               // "S0"
  std::string text;               // of the struct
  std::vector<DType> components;  // of the state; welford carries its count as a third
  int bytes = 0;                  // sizeof
  // From values: "S0::lift(v3, v4)".
  [[nodiscard]] std::string lift(const std::vector<std::string>& args) const;
  // Result component k of a state called `state`.
  [[nodiscard]] std::string component(const std::string& state, std::size_t k) const;
};

[[nodiscard]] ReducerText emit_reducer(const lower::Phase& phase, const lower::Reduction& reduction, int index,
                                       Functions& functions);

}  // namespace postlude::inline v0::cuda
