// The types of elementwise operations, shared by the verifier, lowering and the evaluation of
// bodies.
#pragma once

#include "graph/ir/ir.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace postlude::inline v0 {

// The type of a value. A literal yields: beside another value an integer literal takes that value's
// type (i64 if the other is i32 and the literal does not fit), a real one makes the result f32;
// beside literals it is i64 or f32.
struct TypeState {
  std::optional<DType> type;  // unset: depends on the accumulator's type, which is f32 or i32
  bool literal = false;
  bool wide = false;  // an integer literal that does not fit i32
  auto operator<=>(const TypeState&) const = default;
};

[[nodiscard]] TypeState literal_type(const Literal& literal);

// The common type of values that meet (f32, i64, i32; a boolean counts as i32).
[[nodiscard]] TypeState promote(std::span<const TypeState> values);

// The type to which an elementwise operation converts an argument (all types are known): a program
// with explicit casts must contain that cast.
[[nodiscard]] DType argument_type(const Node& node, std::size_t argument, std::span<const TypeState> args);

// Types bodies of functions and combiners, each once per combination of argument types, without
// recursion.
class Typing {
 public:
  // The result of an elementwise operation, a cast or a call, from its arguments' types. Throws
  // Error type_mismatch, without a place (the caller knows it), where the operation does not take
  // them.
  TypeState infer(const Node& node, std::span<const TypeState> args);
  // The types of every node of a body; `parameters` are those of its parameters.
  std::vector<TypeState> infer_body(const Lambda& body, std::span<const TypeState> parameters);

 private:
  std::map<std::pair<const Function*, std::vector<TypeState>>, TypeState> calls_;
  void infer_calls(const Node& call, std::span<const TypeState> args);
};

}  // namespace postlude::inline v0
