// The algebra of columns: where a chunk, a concat or a repeat sends the columns that a phase walks
// over.
//
// A phase walks over J columns. A value that is wider (beside a chunk, or under a concat) is seen
// in several pieces, each a ColumnMap from J to the value's own columns; elementwise operations
// pass a map on to their arguments, a chunk appends a step, a concat takes one away, a repeat
// divides. What cannot be expressed so (the concat of a concat with another group, a chunk below a
// repeat) is stored in a buffer by an earlier phase and read through any map.
#pragma once

#include "lower/work.h"

#include <optional>
#include <vector>

namespace postlude::inline v0::lower {

// A split of columns into `pieces`, in every `group` of them (0: the whole width).
struct Split {
  std::int64_t pieces = 1;
  std::int64_t group = 0;
  bool operator==(const Split&) const = default;
};

[[nodiscard]] ColumnMap appended(ColumnMap map, const ColumnMap::Step& step);  // one more step, closer to the memory
// The part that a map into a concat of `parts` sees, and through which map. Unset: more than one
// part, or not known.
struct Part {
  std::size_t part;
  ColumnMap map;
};
[[nodiscard]] std::optional<Part> part_of(const ColumnMap& map, std::size_t parts, std::int64_t group);

// How the accumulator is split among the columns that a value is computed on: the steps of its maps
// without their pieces. `none`: the value does not use the accumulator; `mixed`: more than one way.
struct AccumulatorShape {
  enum class Kind : std::uint8_t { none, one, mixed } kind = Kind::none;
  std::vector<Split> steps;
  bool operator==(const AccumulatorShape&) const = default;
};
[[nodiscard]] AccumulatorShape below(const Split& split, AccumulatorShape shape);  // seen through one more split
[[nodiscard]] AccumulatorShape both(const AccumulatorShape& a, const AccumulatorShape& b);

// The columns of an item, as a phase must walk them to compute it whole.
struct Columns {
  std::optional<Split> split;  // it is computed in these pieces (a concat below); `shape` is then that of a piece
  AccumulatorShape shape;
  bool liftable = true;  // its leaves may be read through a divided map: nothing below but elementwise and leaves
};

// Columns of an item from those of its arguments. `materialize` receives arguments (by position)
// that must be read from a buffer for this item to be computed; `of` is then to be taken as plain.
[[nodiscard]] Columns columns_of(const Item& item, const std::vector<Columns>& all, std::vector<NodeId>& materialize);
[[nodiscard]] Columns columns_of_several(const std::vector<NodeId>& args, const std::vector<Item>& items,
                                         const std::vector<Columns>& all, std::vector<NodeId>& materialize);

// larger / smaller where that is a whole number, else 0. More than 1 only for exact extents.
[[nodiscard]] std::int64_t ratio(const Extent& larger, const Extent& smaller);
[[nodiscard]] Extent divided(const Extent& extent, std::int64_t pieces);  // exact extents

// The columns of a phase: how wide it is, and how it splits the accumulator.
struct Walk {
  Extent columns;
  AccumulatorShape shape;
};
[[nodiscard]] Walk walk_of(const Columns& item, const Extent& width);
// The maps by which an item of `width` is seen in pieces on a walk; unset: it does not fit.
// `any_shape`: the accumulator is read from a buffer, so that its split does not matter.
[[nodiscard]] std::optional<std::vector<ColumnMap>> fit(const Columns& item, const Extent& width, const Walk& walk,
                                                        bool any_shape);

}  // namespace postlude::inline v0::lower
