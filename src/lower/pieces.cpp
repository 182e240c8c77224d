#include "lower/pieces.h"

#include <algorithm>
#include <numeric>

namespace postlude::inline v0::lower {
namespace {

// The most pieces in which one value is written out, because each is code of its own.
constexpr std::int64_t most_pieces = 64;

// The split that is as fine as both, where each piece of it lies within one piece of either.
std::optional<Split> common(const Split& a, const Split& b) {
  if (a.group != b.group) return std::nullopt;
  const Split finer{std::lcm(a.pieces, b.pieces), a.group};
  if (finer.pieces > most_pieces || (finer.group > 0 && finer.group % finer.pieces != 0)) return std::nullopt;
  return finer;
}

// The split of a piece of `coarse` that leaves pieces of `fine`.
Split rest(const Split& fine, const Split& coarse) { return {fine.pieces / coarse.pieces, fine.group / coarse.pieces}; }

}  // namespace

ColumnMap appended(ColumnMap map, const ColumnMap::Step& step) {
  if (step.pieces == 1) return map;
  if (!map.steps.empty() && map.steps.back().group == 0 && step.group == 0) {
    ColumnMap::Step& last = map.steps.back();
    last = {last.pieces * step.pieces, step.piece * last.pieces + last.piece, 0};
  } else {
    map.steps.push_back(step);
  }
  return map;
}

std::optional<Part> part_of(const ColumnMap& map, std::size_t parts, std::int64_t group) {
  const auto k = static_cast<std::int64_t>(parts);
  if (map.divide != 1 || map.steps.empty()) return std::nullopt;
  const ColumnMap::Step last = map.steps.back();
  if (last.group != group || last.pieces % k != 0) return std::nullopt;
  const std::int64_t inner = last.pieces / k;
  Part result{static_cast<std::size_t>(last.piece / inner), map};
  result.map.steps.pop_back();
  result.map = appended(result.map, {inner, last.piece % inner, group / k});
  return result;
}

AccumulatorShape below(const Split& split, AccumulatorShape shape) {
  if (shape.kind != AccumulatorShape::Kind::one || split.pieces == 1) return shape;
  if (!shape.steps.empty() && shape.steps.front().group == 0 && split.group == 0) {
    shape.steps.front().pieces *= split.pieces;
  } else {
    shape.steps.insert(shape.steps.begin(), split);
  }
  return shape;
}

AccumulatorShape both(const AccumulatorShape& a, const AccumulatorShape& b) {
  using Kind = AccumulatorShape::Kind;
  if (a.kind == Kind::none) return b;
  if (b.kind == Kind::none || a == b) return a;
  return {Kind::mixed, {}};
}

Columns columns_of_several(const std::vector<NodeId>& args, const std::vector<Item>& items,
                           const std::vector<Columns>& all, std::vector<NodeId>& materialize) {
  Columns result;
  for (NodeId a : args) {
    if (!items[a].vary.has(Axis::n) || !all[a].split) continue;
    if (!result.split) {
      result.split = all[a].split;
    } else if (auto finer = common(*result.split, *all[a].split)) {
      result.split = finer;
    } else {
      materialize.push_back(a);
    }
  }
  for (NodeId a : args) {
    if (std::find(materialize.begin(), materialize.end(), a) != materialize.end()) continue;
    const Columns& x = all[a];
    result.liftable &= x.liftable;
    AccumulatorShape shape = x.shape;
    if (result.split && items[a].vary.has(Axis::n))
      shape = below(x.split ? rest(*result.split, *x.split) : *result.split, shape);
    result.shape = both(result.shape, shape);
  }
  return result;
}

Columns columns_of(const Item& item, const std::vector<Columns>& all, std::vector<NodeId>& materialize) {
  Columns result;
  switch (item.op) {
    case Op::acc:
      result.shape.kind = AccumulatorShape::Kind::one;
      result.liftable = false;  // it is not in memory
      return result;
    case Op::chunk: {
      const Columns& x = all[item.args[0]];
      const Split split{item.pieces, item.group};
      result.liftable = false;
      if (!x.split) {
        result.shape = below(split, x.shape);
      } else if (split.group == x.split->group && split.pieces % x.split->pieces == 0) {
        result.shape = below(rest(split, *x.split), x.shape);
      } else {
        materialize.push_back(item.args[0]);
      }
      return result;
    }
    case Op::concat: {
      const auto k = static_cast<std::int64_t>(item.args.size());
      result.liftable = false;
      if (k > most_pieces) {
        throw Error(ErrorCode::unsupported, "concat of " + std::to_string(k) + " parts",
                    "Join at most " + std::to_string(most_pieces) + ".");
      }
      // Parts that are concats themselves would make pieces of pieces of different widths; they are
      // read from a buffer.
      for (NodeId a : item.args) {
        if (all[a].split) {
          materialize.push_back(a);
        } else {
          result.shape = both(result.shape, all[a].shape);
        }
      }
      result.split = Split{k, item.group};
      return result;
    }
    case Op::repeat:
      if (!all[item.args[0]].liftable) materialize.push_back(item.args[0]);
      return result;
    default: return result;  // leaves and results of reductions
  }
}

std::int64_t ratio(const Extent& larger, const Extent& smaller) {
  if (larger.times == smaller.times && larger.over == smaller.over) return 1;
  const std::int64_t num = larger.times * smaller.over, den = larger.over * smaller.times;
  return larger.exact && smaller.exact && num % den == 0 ? num / den : 0;
}

Extent divided(const Extent& extent, std::int64_t pieces) {
  const std::int64_t d = std::gcd(extent.times, extent.over * pieces);
  return {extent.times / d, extent.over * pieces / d, extent.exact};
}

Walk walk_of(const Columns& item, const Extent& width) {
  return {item.split ? divided(width, item.split->pieces) : width, item.shape};
}

std::optional<std::vector<ColumnMap>> fit(const Columns& item, const Extent& width, const Walk& walk, bool any_shape) {
  using Kind = AccumulatorShape::Kind;
  const Walk own = walk_of(item, width);
  const std::int64_t q = ratio(own.columns, walk.columns);
  if (q == 0 || q > most_pieces) return std::nullopt;
  const AccumulatorShape& s = own.shape;
  const AccumulatorShape& target = walk.shape;
  const bool free = any_shape || s.kind == Kind::none || target.kind != Kind::one;
  if (s.kind == Kind::mixed && !any_shape) return std::nullopt;
  // The further splits of a narrower walk: the walk's own where nothing else lies between, so that
  // neighbours in memory stay neighbours.
  std::vector<Split> further;
  if (q > 1) {
    std::int64_t own_pieces = 1;
    for (const Split& step : target.steps) own_pieces *= step.pieces;
    const bool adopt =
        target.kind == Kind::one && own_pieces == q && (s.kind != Kind::one || s.steps.empty()) && !item.split;
    further = adopt ? target.steps : std::vector<Split>{{q, 0}};
  }
  AccumulatorShape seen = s;
  for (std::size_t i = further.size(); i-- > 0;) seen = below(further[i], seen);
  if (!free && !(seen == target)) return std::nullopt;

  std::vector<ColumnMap> maps = {ColumnMap{}};
  const auto extend = [&](const Split& split) {
    std::vector<ColumnMap> longer;
    for (std::int64_t i = 0; i < split.pieces; ++i)
      for (const ColumnMap& map : maps) longer.push_back(appended(map, {split.pieces, i, split.group}));
    maps = std::move(longer);
  };
  for (const Split& split : further) extend(split);
  if (item.split) extend(*item.split);
  if (static_cast<std::int64_t>(maps.size()) > most_pieces) return std::nullopt;
  return maps;
}

}  // namespace postlude::inline v0::lower
