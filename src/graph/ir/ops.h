// The op table: ops.def and reductions.def as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace postlude::inline v0 {

enum class Op : std::uint8_t {
#define POSTLUDE_OP(id, spelling, arity, rule, ulps, instructions, doc) id,
#include "graph/ir/ops.def"
#undef POSTLUDE_OP
};

enum class ReduceOp : std::uint8_t {
#define POSTLUDE_REDUCTION(id, spelling, doc) id,
#include "graph/ir/reductions.def"
#undef POSTLUDE_REDUCTION
};

// How the type of a result follows from the arguments' types. "Promoted" is the least of i32 < i64
// < f32 that holds all of them, where a literal yields to the other side; a boolean among numbers
// counts as i32.
enum class TypeRule : std::uint8_t {
  arithmetic,  // promoted
  real,        // f32; integers are converted
  compare,     // boolean; the arguments are promoted
  bitwise,     // boolean, or promoted integers
  select,      // (boolean, promoted, promoted)
  cast,        // compute_type of the attribute
  leaf,        // known from the leaf
  same,        // that of its arguments
  reduce,      // see verify.h
  call,        // f32, or what the body of the function gives
};

struct OpInfo {
  Op op;
  std::string_view id;        // "add"
  std::string_view spelling;  // "+"
  int arity;                  // -1: any
  TypeRule rule;
  double ulps;
  int instructions;  // about, for an element on a GPU
  std::string_view doc;
};

struct ReductionInfo {
  ReduceOp op;
  std::string_view spelling;
  std::string_view doc;
};

inline constexpr OpInfo op_table[] = {
#define POSTLUDE_OP(id, spelling, arity, rule, ulps, instructions, doc) \
  {Op::id, #id, spelling, arity, TypeRule::rule, ulps, instructions, doc},
#include "graph/ir/ops.def"
#undef POSTLUDE_OP
};

inline constexpr ReductionInfo reduction_table[] = {
#define POSTLUDE_REDUCTION(id, spelling, doc) {ReduceOp::id, spelling, doc},
#include "graph/ir/reductions.def"
#undef POSTLUDE_REDUCTION
};

[[nodiscard]] constexpr const OpInfo& info(Op op) { return op_table[static_cast<int>(op)]; }
[[nodiscard]] constexpr const ReductionInfo& info(ReduceOp op) { return reduction_table[static_cast<int>(op)]; }

// Elementwise operations: one result element from the argument elements at the same place.
[[nodiscard]] constexpr bool is_elementwise(Op op) { return op <= Op::scaled; }
[[nodiscard]] constexpr bool is_commutative(Op op) {
  return op == Op::add || op == Op::mul || op == Op::min || op == Op::max || op == Op::eq || op == Op::ne ||
         op == Op::bit_and || op == Op::bit_or;
}

}  // namespace postlude::inline v0
