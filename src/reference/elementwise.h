// The elementwise operations of the language, on one element: their definition.
#pragma once

#include "graph/ir/ir.h"
#include "reference/cell.h"

#include <cstdint>
#include <span>

namespace postlude::inline v0::reference {

// The place of an element in its own value; 0 along an axis that the value lacks.
struct Place {
  std::int64_t b = 0, m = 0, n = 0;
};

// An operation with the types that it meets.
struct Operation {
  const Node* node = nullptr;
  DType argument = DType::f32;  // of the arguments (of where: the last two; of cast: before), converted beforehand
  DType result = DType::f32;
};

// Any op up to `scaled` in the op table.
[[nodiscard]] Cell apply(const Operation& operation, std::span<const Cell> args, const Place& place);

// A native function of f32 arguments, by its reference.
[[nodiscard]] Cell apply_native(const NativeFunction& function, std::span<const Cell> args);

// Between the types of values: integers to f32 round to nearest, booleans are 0 and 1; others to
// boolean by != 0.
[[nodiscard]] Cell convert(const Cell& x, DType from, DType to);

// To a dtype, as `cast` and outputs do; the result is of type compute_type(dtype).
[[nodiscard]] Cell cast(const Cell& x, DType from, DType dtype, Round round = Round::nearest_even, double u = 0);

[[nodiscard]] Cell constant(const Literal& literal, DType type);

[[nodiscard]] Real add(const Real& a, const Real& b);  // the ones that reductions use too
[[nodiscard]] Real multiply(const Real& a, const Real& b);
[[nodiscard]] Real divide(const Real& a, const Real& b);
[[nodiscard]] Real square_root(const Real& x);

}  // namespace postlude::inline v0::reference
