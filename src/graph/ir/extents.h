// Extents: how many rows or columns a value has, as times * ceil(base / over) of M or N.
//
// A graph leaves the extents of operands, coordinates and random numbers open. They follow from
// use: where two values meet their extents are equal, a chunk divides by k, a concat multiplies,
// and grouping links two extents by small = ceil(big / group). What is still open after that is M x
// N, operands first, then the others in node order.
#pragma once

#include "graph/ir/ir.h"

#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace postlude::inline v0 {

// A graph with a larger factor is refused, so that products of two factors stay within 64 bits.
inline constexpr std::int64_t extent_limit = std::int64_t{1} << 40;

// extent * num / den, where a chunk promises that den divides it. This and the next two are empty
// if the result is no Extent.
[[nodiscard]] std::optional<Extent> scaled_by(const Extent& e, std::int64_t num, std::int64_t den);
// ceil(extent / group).
[[nodiscard]] std::optional<Extent> grouped(const Extent& e, std::int64_t group);
// The extent whose groups `e` counts.
[[nodiscard]] std::optional<Extent> ungrouped(const Extent& e, std::int64_t group);

// ceil(N/2) and N/2 are the same number where a chunk promises that 2 divides N.
[[nodiscard]] inline bool same_extent(const Extent& a, const Extent& b) {
  return a.times == b.times && a.over == b.over;
}

[[nodiscard]] std::string print_extent(const Extent& e, char base);  // "M", "N/2", "2N", "ceil(N/128)"

struct Extents {
  Extent rows, columns;
};

// Whether a graph leaves the extents of such a node open, and whether some node changes an extent.
[[nodiscard]] bool is_open(Op op);
// z_index, p_index and q_index, which not every main loop has.
[[nodiscard]] bool is_pixel_index(Op op);
[[nodiscard]] Error no_pixels(const GraphData& graph, NodeId node);  // it asks for one where rows are none
[[nodiscard]] bool changes_extents(std::span<const Node> nodes);

// The extents of every node that the graph leaves open, solved as far as the graph is sound;
// verify() makes the complaints. Empty if no node changes an extent.
[[nodiscard]] std::unordered_map<NodeId, Extents> open_extents(const GraphData& graph);

}  // namespace postlude::inline v0
