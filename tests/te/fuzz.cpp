// Loop programs drawn from a seed, and their schedules. It is longer than most because what one step has drawn tells
// what the next may draw.
#include "te/fuzz_parts.h"

#include "core/convert.h"
#include "te/schedule.h"

#include <postlude/parse.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace postlude::fuzz_te {

using te::Expr;
using te::ExprNode;

Tensor Array::view() {
  return {data.data() + first * size_of(tensor.dtype()), tensor.dtype(), std::span<const std::int64_t>(shape),
          std::span<const std::int64_t>(strides)};
}
std::int64_t Array::place(std::int64_t number) const {
  std::int64_t at = first;
  for (std::size_t d = shape.size(); d-- > 0; number /= std::max<std::int64_t>(shape[d], 1))
    at += number % std::max<std::int64_t>(shape[d], 1) * strides[d];
  return at;
}

namespace {

// Strides of an array in rows, or of a part of a larger one: axes in any order, some of them backwards, with elements
// between, begun anywhere; `repeats`: some of an input's axes have one element again and again. How many elements
// that is.
std::int64_t lay_out(Array& array, Draw& draw, bool repeats) {
  const std::size_t rank = array.shape.size();
  array.strides.assign(rank, 1);
  std::vector<std::size_t> order(rank);  // innermost first
  for (std::size_t d = 0; d < rank; ++d) order[d] = rank - 1 - d;
  const bool apart = draw.one_in(3);
  for (std::size_t d = rank; apart && d > 1; --d)
    if (draw.one_in(3)) std::swap(order[d - 1], order[static_cast<std::size_t>(draw.below(static_cast<int>(d)))]);
  std::int64_t elements = 1;
  for (const std::size_t d : order) {
    const std::int64_t extent = std::max<std::int64_t>(array.shape[d], 1);
    if (apart && repeats && draw.one_in(8)) {
      array.strides[d] = 0;
      continue;
    }
    array.strides[d] = elements;
    elements *= extent;
    if (!apart) continue;
    if (draw.one_in(4)) elements += draw.between(1, 5);
    if (draw.one_in(5)) {
      array.first += array.strides[d] * (extent - 1);
      array.strides[d] *= -1;
    }
  }
  if (!apart || draw.one_in(2)) return elements;
  const int before = draw.between(1, 3);
  array.first += before;
  return elements + before;
}

}  // namespace

void add_array(Program& p, Draw& draw, const te::Sizes& sizes, const te::Tensor& tensor, bool any_float) {
  Array array{tensor, {}, {}, 0, {}};
  std::int64_t elements = 1;
  for (const Expr& x : tensor.shape()) {
    array.shape.push_back(te::evaluate(x, sizes));
    elements *= array.shape.back();
  }
  const DType type = tensor.dtype();
  const std::int64_t all = lay_out(array, draw, tensor.op().node()->is_placeholder());
  array.data.resize(static_cast<std::size_t>(all * size_of(type)));
  for (std::int64_t i = 0; i < elements; ++i) {
    double x = draw.between(-2, 2);
    if (any_float && is_float(type) && draw.one_in(9))
      x = draw.one_in(3) ? std::nan("") : draw.one_in(2) ? HUGE_VAL : -HUGE_VAL;
    core::store_real(type, array.data.data(), array.place(i), x);
  }
  p.arguments.push_back(tensor);
  p.arrays.push_back(std::move(array));
}

void set_outputs(Program& p, Draw& draw, const te::Sizes& sizes, const std::vector<te::Tensor>& outputs) {
  p.outputs_from = static_cast<int>(p.arguments.size());
  for (const te::Tensor& tensor : outputs) add_array(p, draw, sizes, tensor);
  p.schedule = te::create_schedule(outputs);
  for (const te::StagePtr& stage : p.schedule.node()->stages) p.stages.emplace_back(stage->origin, 0);
}

namespace {

// What a matrix of so many columns may be followed by, of sums that are exact; `operands` by name.
std::vector<te::Tensor> followed(Program& p, Draw& draw, const te::Sizes& sizes, const te::Tensor& matrix) {
  const std::int64_t columns = te::evaluate(matrix.shape()[1], sizes);
  std::vector<const char*> texts{
      "def f(acc, bias: row):\n  return max(acc + bias, 0)\n",
      "def f(acc):\n  D = concat((acc, -acc))\n  E = sum(acc, axis=1, group=3)\n  return D, E\n",
      "def f(acc):\n  top = max(acc, axis=1)\n  D = acc - top\n  least = argmin(acc, axis=0, group=2)\n  return D, "
      "least\n",
      "def f(acc, side: col):\n  r = random(7) < 0.5\n  D = where(r, acc * 2, side)\n  count = sum(r, axis=0)\n"
      "  return D, count\n",
      "def f(acc):\n  total, most = reduce((acc, acc), axis=1, combine=lambda a, b, c, d: (a + c, max(b, d)), "
      "identity=(0, -1000))\n  return total, most\n",
      "def f(acc):\n  D = acc + repeat(acc * 2, 1)\n  best = argmax(acc, axis=1, group=4)\n  return D, best\n"};
  if (columns % 2 == 0 && columns > 0)
    texts.push_back("def f(acc):\n  a, b = chunk(acc, 2)\n  D = a * b\n  E = concat((b, a))\n  return D, E\n");
  const Graph graph = parse(draw.of(texts));
  std::vector<std::pair<std::string, te::Tensor>> operands;
  for (const auto& operand : graph.operands()) {
    operands.emplace_back(operand.name,
                          te::placeholder({matrix.shape()[operand.name == "bias" ? 1 : 0]}, operand.name));
    add_array(p, draw, sizes, operands.back().second);
  }
  return te::followed_by(matrix, graph, operands);
}

// A convolution of two axes in some order of axes, perhaps in groups that are an axis of their own or a quotient of the
// filter's; it runs on its main loop where no step schedules it.
Program convolution(std::uint64_t seed, Draw& draw) {
  Program p;
  p.seed = seed;
  const te::Sizes sizes;
  const std::int64_t groups = draw.one_in(3) ? draw.between(2, 3) : 1, batch = draw.between(1, 3),
                     channels = draw.between(1, groups > 1 ? 3 : 5), filters = draw.between(groups > 1 ? 1 : 2, 6);
  std::int64_t size[2], taps[2], stride[2], dilation[2], padding[2], out[2];
  for (int d = 0; d < 2; ++d) {
    taps[d] = draw.between(1, 3), stride[d] = draw.between(1, 2), dilation[d] = draw.between(1, 2);
    padding[d] = draw.between(0, 2), size[d] = draw.between(5, 9);
    out[d] = (size[d] + 2 * padding[d] - dilation[d] * (taps[d] - 1) - 1) / stride[d] + 1;
  }
  const bool last = draw.one_in(2), as_axis = groups > 1 && draw.one_in(2);  // channels; groups
  const DType type = draw.of(std::vector<DType>{f32, f32, bf16, f16});
  // An image's axes, and an index of one: `c` is a channel, or a group and its channel.
  const auto placed = [&](const Expr& n, const std::vector<Expr>& c, const Expr& h, const Expr& w) {
    std::vector<Expr> axes{n, h, w};
    axes.insert(last ? axes.end() : axes.begin() + 1, c.begin(), c.end());
    return axes;
  };
  const auto of_groups = [&](std::int64_t count) {
    return as_axis ? std::vector<Expr>{groups, count} : std::vector<Expr>{groups * count};
  };
  std::vector<Expr> weights = of_groups(filters);
  weights.insert(weights.end(), {channels, taps[0], taps[1]});
  const te::Tensor x = te::placeholder(placed(batch, of_groups(channels), size[0], size[1]), "X", type),
                   w = te::placeholder(weights, "W", type);
  add_array(p, draw, sizes, x);
  add_array(p, draw, sizes, w);
  const te::Axis c = te::reduce_axis(0, channels, "c"), r = te::reduce_axis(0, taps[0], "r"),
                 q = te::reduce_axis(0, taps[1], "q");
  const te::Tensor y = te::compute(
      placed(batch, of_groups(filters), out[0], out[1]),
      [&](const te::Axes& i) {
        const std::size_t channel_axes = as_axis ? 2 : 1, f = last ? 3 : 1, row = last ? 1 : 1 + channel_axes;
        const Expr h = Expr(i[row]) * stride[0] + Expr(r) * dilation[0] - padding[0],
                   v = Expr(i[row + 1]) * stride[1] + Expr(q) * dilation[1] - padding[1];
        std::vector<Expr> channel{c}, weight(i.begin() + f, i.begin() + f + channel_axes);
        if (as_axis) channel.insert(channel.begin(), i[f]);
        else if (groups > 1) channel[0] = te::floordiv(i[f], filters) * channels + c;
        weight.insert(weight.end(), {c, r, q});
        Expr element = x.at(placed(i[0], channel, h, v));
        const Expr inside = (h >= 0) & (h < size[0]) & (v >= 0) & (v < size[1]);
        if (padding[0] + padding[1] > 0) element = te::apply("where", {inside, element, 0});
        return te::sum(element * w.at(weight), {c, r, q});
      },
      "Y");
  p.reductions.push_back(y);
  set_outputs(p, draw, sizes, {y});
  return p;
}

// What was legal when it was said may not be any more (a loop that something is computed at was split): such programs
// fall back to the roots.
void settle(Program& p) {
  try {
    static_cast<void>(te::lower(p.schedule, p.arguments));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_schedule) throw;
    p.steps.push_back("all at the root, unbound");
    for (const te::StagePtr& stage : p.schedule.node()->stages) {
      if (stage->nesting == te::StageNode::Nesting::at) stage->nesting = te::StageNode::Nesting::root;
      std::erase_if(stage->marks, [](const auto& mark) { return mark.second.kind == te::Mark::Kind::bind; });
      stage->predicate = {};
    }
  }
}

}  // namespace

Program generate(std::uint64_t seed) {
  Draw draw(seed);
  if (draw.one_in(12)) return convolution(seed, draw);
  if (draw.one_in(10)) return tiled_product(seed, draw);
  if (draw.one_in(8)) return stages_of_rows(seed, draw);
  Program p;
  p.seed = seed;
  std::vector<Expr> sizes;
  te::Sizes bound;
  for (const char* name : {"n", "m", "p"}) {
    sizes.push_back(te::var(name));
    bound[sizes.back()->axis.get()] = draw.one_in(12)  ? draw.between(0, 2)
                                      : draw.one_in(3) ? 4 * draw.between(1, 4)
                                                       : draw.between(1, 13);
  }
  const auto size = [&]() -> Expr { return draw.one_in(4) ? Expr(draw.between(1, 9)) : draw.of(sizes); };
  bool any_float = false;  // NaN and infinities too
  const auto add = [&](const te::Tensor& tensor) { add_array(p, draw, bound, tensor, any_float); };
  // The sizes are told by an argument that has them all.
  add(te::placeholder({sizes[0], sizes[1], sizes[2]}, "S", s8));

  const int rank = draw.one_in(24) ? draw.between(5, 7) : draw.between(0, draw.one_in(3) ? 4 : 2);
  const int reduced = draw.between(1, 3);
  std::vector<Expr> shape;
  for (int d = 0; d < rank; ++d) shape.push_back(d < 3 ? size() : rank > 4 ? Expr(draw.between(1, 2)) : size());
  te::Axes k;
  // Some are called as other loops, sizes, words of C++ or what emitted code has.
  static const std::vector<std::array<const char*, 3>> names{
      {"k0", "k1", "k2"}, {"k0", "k0.outer", "k0"}, {"k0", "k1", "k2"}, {"i", "t1", "u"}, {"step", "float", "n"}};
  for (std::size_t r = 0; r < static_cast<std::size_t>(reduced); ++r)
    k.push_back(te::reduce_axis(draw.one_in(6) ? 1 : 0, size() + (draw.one_in(6) ? 1 : 0), names[seed % 7 % 5][r]));
  const std::vector<DType> types{f32, f32, bf16, f16, s8, i32, i64, u8};

  const te::Tensor chooser = te::placeholder({k[0].node()->begin + k[0].extent()}, "Z", s8);
  add(chooser);
  // A tensor read at some of the axes, perhaps shifted, in any order; guarded where a shift asks it.
  int number = 0;
  const auto read = [&](const te::Axes& i) {
    std::vector<Expr> index, extent;
    Expr guard;
    bool is_read = false;  // an index is guarded by what is read
    for (const te::Axes* list : {&i, static_cast<const te::Axes*>(&k)}) {
      for (const te::Axis& axis : *list) {
        if (index.size() == 6 || draw.one_in(4)) continue;
        const Expr end = axis.node()->begin + axis.extent();
        if (draw.one_in(6) && !index.empty()) {
          index.back() = index.back() + axis;  // a filter's window
          extent.back() = extent.back() + end;
        } else if (draw.one_in(8)) {
          index.push_back(Expr(axis) - Expr(1));  // padding
          extent.push_back(end);
          guard = te::both(guard, Expr(axis) >= Expr(1));
        } else if (draw.one_in(8)) {
          index.push_back(te::floordiv(axis, 2));
          extent.push_back(end);
        } else if (draw.one_in(6)) {
          const Place place = drawn_place(draw, axis, chooser(k[0]));
          index.push_back(place.index);
          extent.push_back(place.extent);
          if (!place.guard.empty()) guard = te::both(guard, place.guard);
        } else if (draw.one_in(8)) {  // within, which more than a bound of a loop says
          const te::Axis& other = draw.of(*list);
          const Expr apart = Expr(axis) - other;
          const int kind = draw.below(5);
          index.push_back(kind == 0   ? te::floordiv(apart, 2)
                          : kind == 1 ? Expr(axis) * 2 + 1
                          : kind == 2 ? Expr(axis) - te::floormod(axis, 3) * 7
                          : kind == 3 ? apart * apart
                                      : Expr(axis) * 5 - te::floordiv(Expr(axis) * 5, end) * end);
          guard = te::both(guard, kind == 0   ? (te::floormod(apart, 2) == 0) & (apart >= 0)
                                  : kind == 1 ? Expr(axis) < te::floordiv(end, 2)
                                  : kind == 2 ? te::floormod(axis, 3) == 0
                                  : kind == 3 ? apart * apart < end
                                              : Expr(axis) >= 0);
          extent.push_back(end);
        } else if (draw.one_in(8)) {  // the edge, where it leaves
          is_read = true;
          index.push_back(draw.one_in(2) ? Expr(axis) + draw.between(1, 3) : Expr(axis) - draw.between(1, 30));
          extent.push_back(end);
        } else {
          index.push_back(axis);
          extent.push_back(end);
        }
      }
    }
    for (std::size_t d = index.size(); d > 1; --d) {
      const auto other = static_cast<std::size_t>(draw.below(static_cast<int>(d)));
      std::swap(index[d - 1], index[other]);
      std::swap(extent[d - 1], extent[other]);
    }
    DType type = draw.of(types);
    if (draw.one_in(10)) type = boolean;
    const te::Tensor tensor = te::placeholder(extent, "A" + std::to_string(number++), type);
    add(tensor);
    Expr value = tensor.at(index);
    if (type == boolean) value = te::cast(value, i32);
    if (is_read) guard = te::both(guard, chooser(k[0]) >= Expr(draw.between(-2, 1)));
    return guard.empty() ? value : te::apply("where", {guard, value, Expr(draw.between(0, 1))});
  };

  // Perhaps a stage or two in front that the reduction reads.
  const bool before = draw.one_in(2) && rank > 0;
  te::Tensor front, inner;
  if (before) {
    std::vector<Expr> front_shape{shape[0], k[0].node()->begin + k[0].extent()};
    const te::Tensor a = te::placeholder(front_shape, "P", draw.of(types));
    add(a);
    front = inner = te::compute(
        front_shape,
        [&](const te::Axes& i) {
          const Expr x = a(i[0], i[1]) + te::cast(a(i[0], i[1]), i32) * Expr(1);
          if (draw.one_in(2)) return x;
          const Expr chosen = drawn_condition(draw, i, {a(i[0], i[1])}, 2);
          return te::apply("where", {chosen, x, te::apply("where", {i[1] >= Expr(1), a(i[0], i[1] - Expr(1)), 1})});
        },
        "F");
    if (draw.one_in(3))
      front = te::compute(
          front_shape,
          [&](const te::Axes& i) {
            const Place place = drawn_place(draw, i[1], a(i[0], i[1]));
            const Expr within = (place.index >= Expr(0)) & (place.index < front_shape[1]);
            const Expr chosen = drawn_condition(draw, i, {a(i[0], i[1]), inner(i[0], i[1])}, 1) & within;
            return te::apply("where", {chosen, inner(i[0], place.index), inner(i[0], i[1])});
          },
          "G");
  }
  const int kind = draw.below(15);
  any_float = (kind == 0 || kind == 1 || kind == 4 || kind == 12) && draw.one_in(3);
  p.in_order = kind >= 9 && kind < 13;
  p.has_nan = any_float && p.in_order;
  const bool of_index = (kind == 4 || kind == 6) && draw.one_in(8);  // as the place of an extreme is
  const auto loops = [&](const te::Axes& i) {
    te::Axes all = k;
    all.insert(all.end(), i.begin(), i.end());
    return all;
  };
  const auto terms = [&](const te::Axes& i) {
    std::vector<Expr> read{chooser(k[0])};
    if (before) read.insert(read.end(), {front(i[0], k[0]), inner(i[0], k[0])});
    return read;
  };
  const auto element = [&](const te::Axes& i) {
    if (of_index) return kind == 6 ? te::cast(k.back(), i32) : Expr(k.back());
    Expr x = read(i);
    if (draw.one_in(2)) x = x * read(i);
    if (draw.one_in(4)) x = x + Expr(k.back());
    if (draw.one_in(6) && rank > 0) x = te::apply("where", {Expr(k[0]) <= Expr(i[0]), x, Expr(0)});
    if (draw.one_in(6)) x = te::apply("where", {drawn_condition(draw, loops(i), terms(i), 2), x, Expr(1)});
    if (draw.one_in(8)) x = x + te::floordiv(Expr(k[0]) - 5, draw.one_in(2) ? -3 : 2);
    if (before) x = draw.one_in(3) && rank > 0 ? x + front(i[0], k[0]) * Expr(2) : x + front(i[0], k[0]);
    // Extremes of i64 are no doubles.
    return kind == 0 || kind == 1 || kind == 4 || kind == 12
               ? te::cast(x, x.type() == i32 && draw.one_in(2) ? i32 : f32)
               : x;
  };
  static const te::Reducer custom =
      te::comm_reducer([](const auto& a, const auto& b) { return std::vector<Expr>{a[0] + b[0]}; },
                       [](const auto&) { return std::vector<Expr>{Expr(0)}; }, "add");
  static const te::Reducer pair = te::comm_reducer(
      [](const auto& a, const auto& b) {
        return std::vector<Expr>{a[0] + b[0], te::apply("max", {a[1], b[1]})};
      },
      [](const auto&) {
        return std::vector<Expr>{Expr(0), Expr(-100)};
      },
      "sum_and_max");
  static const te::Reducer three = te::comm_reducer(
      [](const auto& a, const auto& b) {
        return std::vector<Expr>{a[0] + b[0], te::apply("min", {a[1], b[1]}), a[2] | b[2]};
      },
      [](const auto&) {
        return std::vector<Expr>{Expr(0), Expr(HUGE_VAL), te::cast(Expr(0), boolean)};
      },
      "sum_min_any");
  // By loops, by memory, by what a stage in front has, by both; by several of these.
  const int condition = draw.one_in(3) ? draw.between(1, 8) : 0, least = draw.between(-2, 1);
  const auto where = [&](const te::Axes& i) -> Expr {
    const Expr chosen = chooser(k[0]) >= Expr(least);
    switch (condition) {
      case 1: return Expr(k[0]) < Expr(3);
      case 2: return te::floormod(rank > 0 ? i.back() + Expr(k[0]) : Expr(k[0]), 2) < Expr(1);
      case 3: return chosen;
      case 4: return before ? front(i[0], k[0]) > Expr(least) : chosen;
      case 5: return (Expr(k.back()) >= (rank > 0 ? Expr(i[0]) : Expr(1))) & chosen;
      case 0: return {};
      default: {
        Draw same(p.seed + 2'000'000);  // for each of several results
        return drawn_condition(same, loops(i), terms(i), 2);
      }
    }
  };
  std::vector<te::Tensor> made;
  // None of these may be taken apart at will: a difference, a number of digits, the last of equals, a maximum that a
  // NaN ends.
  static const te::Reducer difference =
      te::comm_reducer([](const auto& a, const auto& b) { return std::vector<Expr>{a[0] - b[0]}; },
                       [](const auto&) { return std::vector<Expr>{Expr(0)}; }, "difference");
  static const te::Reducer digits =
      te::comm_reducer([](const auto& a, const auto& b) { return std::vector<Expr>{a[0] * Expr(3) + b[0]}; },
                       [](const auto&) { return std::vector<Expr>{Expr(0)}; }, "digits");
  static const auto greater = [](const Expr& take, const auto& a, const auto& b) {
    std::vector<Expr> chosen;
    for (std::size_t i = 0; i < a.size(); ++i) chosen.push_back(te::apply("where", {take, a[i], b[i]}));
    return chosen;
  };
  static const te::Reducer place =
      te::comm_reducer([](const auto& a, const auto& b) { return greater(a[1] >= b[1], a, b); },
                       [](const auto&) {
                         return std::vector<Expr>{Expr(-1), Expr(-1000)};
                       },
                       "place");
  static const te::Reducer beyond =
      te::comm_reducer([](const auto& a, const auto& b) { return greater(a[0] > b[0], a, b); },
                       [](const auto&) { return std::vector<Expr>{Expr(-HUGE_VAL)}; }, "beyond");
  const auto custom_of = [&](const te::Reducer& reducer, const auto& values) {
    made = te::compute_several(
        shape, [&](const te::Axes& i) { return reducer(values(i), k, where(i)); }, "B");
  };
  switch (kind) {
    case 0:
      made = {te::compute(
          shape, [&](const te::Axes& i) { return te::max(element(i), k, where(i)); }, "B")};
      break;
    case 1:
      made = {te::compute(
          shape, [&](const te::Axes& i) { return te::min(element(i), k, where(i)); }, "B")};
      break;
    case 2:
      made = {te::compute(
          shape,
          [&](const te::Axes& i) {
            return te::prod(te::apply("where", {element(i) > Expr(0), Expr(1), Expr(-1)}), k, where(i));
          },
          "B")};
      break;
    case 3:
      made = {te::compute(
          shape, [&](const te::Axes& i) { return te::any(element(i) > Expr(2), k, where(i)); }, "B")};
      break;
    case 4:
      made = te::compute_several(
          shape, [&](const te::Axes& i) { return te::argmax(element(i), k, where(i)); }, "B");
      break;
    case 5:
      made = {te::compute(
          shape, [&](const te::Axes& i) { return custom({te::cast(element(i), f32)}, k, where(i))[0]; }, "B")};
      break;
    case 6:
      made = te::compute_several(
          shape,
          [&](const te::Axes& i) {
            const Expr x = element(i);
            return pair(
                of_index ? std::vector<Expr>{x, x} : std::vector<Expr>{te::cast(x, f32), te::cast(element(i), i32)}, k,
                where(i));
          },
          "B");
      break;
    case 9:
      custom_of(difference, [&](const te::Axes& i) { return std::vector<Expr>{te::cast(element(i), f32)}; });
      break;
    case 10: custom_of(digits, [&](const te::Axes& i) { return std::vector<Expr>{te::cast(element(i), i32)}; }); break;
    case 11:
      custom_of(place, [&](const te::Axes& i) {
        Expr number = 0;
        for (const te::Axis& axis : k) number = number * Expr(20) + Expr(axis);
        return std::vector<Expr>{number, te::cast(element(i), i32)};
      });
      break;
    case 12: custom_of(beyond, [&](const te::Axes& i) { return std::vector<Expr>{te::cast(element(i), f32)}; }); break;
    case 13:  // several, of a stage
      made = te::compute_several(
          shape,
          [&](const te::Axes& i) {
            const Expr x = te::cast(element(i), f32);
            std::vector<Expr> all = te::argmax(x, k, where(i));
            if (draw.one_in(2)) std::swap(all[0], all[1]);
            all.insert(all.begin() + draw.below(3), te::sum(te::cast(element(i), i32), k, where(i)));
            return all;
          },
          "B");
      break;
    case 14:
      custom_of(three, [&](const te::Axes& i) {
        const Expr x = element(i);
        return std::vector<Expr>{te::cast(x, i64), te::cast(element(i), f32), x > Expr(1)};
      });
      break;
    default:
      made = {te::compute(
          shape, [&](const te::Axes& i) { return te::sum(element(i), k, where(i)); }, "B")};
      break;
  }
  p.reductions.push_back(made[0]);
  any_float = false;
  // Perhaps an epilogue or a stage behind.
  const te::Tensor b = made.back();
  if (rank == 2 && b.dtype() == f32 && kind > 4 && kind < 9 && draw.one_in(2)) {
    made = followed(p, draw, bound, b);
  } else if (draw.one_in(3) && !(of_index && b.dtype() == i64)) {
    if (b.dtype() == boolean) {
      made = {te::compute(
          shape, [&](const te::Axes& i) { return ~b.at(std::vector<Expr>(i.begin(), i.end())); }, "C")};
    } else if (draw.one_in(3)) {
      std::vector<te::Tensor> several = te::compute_several(
          shape,
          [&](const te::Axes& i) {
            const Expr x = b.at(std::vector<Expr>(i.begin(), i.end()));
            return std::vector<Expr>{x + Expr(1), te::cast(x, i32), x > Expr(2)};
          },
          "C");
      if (draw.one_in(2)) several.insert(several.begin(), made.begin(), made.end());
      made = several;
    } else {
      const std::vector<DType> stored{f32, f16, bf16, s8, u8, i32, i64, boolean};
      made = {te::compute(
          shape,
          [&](const te::Axes& i) {
            const Expr x = b.at(std::vector<Expr>(i.begin(), i.end())) * Expr(2);
            if (i.empty() || p.seed % 2 == 0) return x + Expr(1);
            const Expr drawn = te::random_at(p.seed, 3, i[0], i.back());  // an element's own number, whatever the loops
            return te::apply("where", {drawn < Expr(0.5), x, x + Expr(1)});
          },
          "C", draw.one_in(2) ? std::optional(draw.of(stored)) : std::nullopt)};
    }
  }
  set_outputs(p, draw, bound, made);
  return p;
}

void schedule(Program& p, Bindings bindings) {
  Draw draw(p.seed + 1'000'000);
  if (p.is_tiled && !draw.one_in(6)) {
    schedule_tiles(p, draw, bindings);
    return settle(p);
  }
  std::vector<te::Tensor> stages = p.stages;
  const auto step = [&](const std::string& text, const auto& action) { fuzz_te::step(p, text, action); };
  for (int count = draw.between(0, 10); count > 0; --count) {
    const te::Tensor tensor = draw.of(stages);
    te::Stage stage = p.schedule[tensor];
    const te::Axes leaves = stage.leaves();
    if (leaves.empty()) continue;
    const te::Axis a = draw.of(leaves), b = draw.of(leaves);
    const std::string on = tensor.name() + ": ";
    switch (draw.below(bindings == Bindings::threads ? 18 : 15)) {
      case 0:
      case 1: {
        const int f = draw.between(1, 6);
        step(on + "split " + a.name() + " by " + std::to_string(f), [&] { stage.split(a, f); });
        break;
      }
      case 2: {
        const int f = draw.between(1, 5);
        step(on + "split " + a.name() + " into " + std::to_string(f), [&] { stage.split_parts(a, f); });
        break;
      }
      case 3: {
        if (leaves.size() < 2) break;
        const auto at = static_cast<std::size_t>(draw.below(static_cast<int>(leaves.size()) - 1));
        step(on + "fuse " + leaves[at].name(), [&] { stage.fuse(leaves[at], leaves[at + 1]); });
        break;
      }
      case 4:
      case 5: {
        te::Axes order = leaves;
        for (std::size_t d = order.size(); d > 1; --d)
          std::swap(order[d - 1], order[static_cast<std::size_t>(draw.below(static_cast<int>(d)))]);
        std::string text;
        for (const te::Axis& axis : order) text += " " + axis.name();
        step(on + "reorder" + text, [&] { stage.reorder(order); });
        break;
      }
      case 6: step(on + "unroll " + a.name(), [&] { stage.unroll(a); }); break;
      case 7: step(on + "parallel " + a.name(), [&] { stage.parallel(a); }); break;
      case 8: {
        te::Axes factors{a};
        if (!(b == a) && draw.one_in(3)) factors.push_back(b);
        const int place = draw.between(0, static_cast<int>(stage.op().axis().size()));
        step(on + "rfactor " + a.name() + (factors.size() > 1 ? " " + b.name() : "") + " at " + std::to_string(place),
             [&] {
               const std::vector<te::Tensor> made = p.schedule.rfactor(tensor, factors, place);
               stages.push_back(made[0]);
             });
        break;
      }
      case 9: {
        const te::Tensor other = draw.of(stages);
        const te::Axes places = p.schedule[other].leaves();
        if (places.empty()) break;
        const te::Axis at = draw.of(places);
        step(on + "compute at " + other.name() + " " + at.name(), [&] {
          const te::StageNode before = *stage.node();
          stage.compute_at(p.schedule[other], at);
          try {
            static_cast<void>(te::lower(p.schedule, p.arguments));
          } catch (const Error&) {
            *stage.node() = before;
            throw;
          }
        });
        break;
      }
      case 10: {
        const te::Tensor other = draw.of(stages);
        step(on + "inline", [&] { stage.compute_inline(); });
        break;
      }
      case 11:
        if (draw.one_in(2)) {
          step(on + "cache write", [&] { stages.push_back(p.schedule.cache_write(tensor, "local")[0]); });
        } else {
          const te::Tensor& read = p.arguments[static_cast<std::size_t>(draw.below(p.outputs_from))];
          step(on + "cache read of " + read.name(),
               [&] { stages.push_back(p.schedule.cache_read(read, draw.one_in(3) ? "shared" : "local", {tensor})); });
        }
        break;
      case 12: step(on + "vectorize " + a.name(), [&] { stage.vectorize(a); }); break;
      case 13: {  // neighbours innermost, for reads side by side
        const int f = draw.one_in(3) ? 8 : 4;
        const te::Axis along = draw.one_in(2) ? leaves.back() : a;
        step(on + "neighbours of " + along.name() + ": " + std::to_string(f), [&] {
          const te::Axis side = stage.split(along, f).second;
          te::Axes order = stage.leaves();
          std::erase(order, side);
          order.push_back(side);
          stage.reorder(order);
          stage.unroll(side);
        });
        break;
      }
      case 14: {
        const int x = draw.between(1, 4), y = draw.between(1, 4);
        step(on + "tile " + a.name() + " and " + b.name() + " by " + std::to_string(x) + " and " + std::to_string(y),
             [&] { stage.tile(a, b, x, y); });
        break;
      }
      case 15: {  // another of the threads that reduce together stores
        const te::StageNode& node = *stage.node();
        const auto joined = std::find_if(node.leaves.begin(), node.leaves.end(), [&](const te::AxisPtr& leaf) {
          return leaf->kind == te::AxisNode::Kind::reduce && node.mark(leaf).kind == te::Mark::Kind::bind;
        });
        if (joined == node.leaves.end()) break;
        const te::Axis thread(node.mark(*joined).thread);
        const Expr& extent = (*joined)->extent;
        const int chosen = extent->kind == ExprNode::Kind::constant
                               ? draw.below(std::max(1, static_cast<int>(extent->value.integer)))
                               : 0;
        step(on + "store by thread " + std::to_string(chosen),
             [&] { stage.set_store_predicate(Expr(thread) == Expr(chosen)); });
        break;
      }
      default: {
        static const std::vector<std::string> tags{"threadIdx.x", "threadIdx.y", "blockIdx.x",
                                                   "blockIdx.y",  "threadIdx.x", "blockIdx.x"};
        const std::string tag = draw.of(tags);
        if (p.has_nan && te::is_reduce(a.node())) break;  // which thread met it first would matter
        step(on + "bind " + a.name() + " " + tag, [&] {
          const te::StageNode before = *stage.node();
          stage.bind(a, te::thread_axis(tag));
          try {
            static_cast<void>(te::lower(p.schedule, p.arguments));
          } catch (const Error&) {
            *stage.node() = before;
            throw;
          }
        });
        break;
      }
    }
  }
  settle(p);
}

void choose(Program& p, const Target& target) {
  const std::vector<te::Tensor> outputs(p.arguments.begin() + p.outputs_from, p.arguments.end());
  te::Sizes sizes;  // every other time they are known
  for (const Array& array : p.arrays)
    for (std::size_t d = 0; p.seed % 2 && d < array.shape.size(); ++d)
      if (const Expr& x = array.tensor.shape()[d]; x->kind == ExprNode::Kind::axis)
        sizes[x->axis.get()] = array.shape[d];
  if (p.many_rows && !sizes.empty()) sizes[p.many_rows.get()] = 1 << 20;
  p.schedule = te::choose_schedule(outputs, target, sizes);
  p.steps.push_back(p.schedule.calls());
}

std::string difference(const Program& p, const std::vector<std::vector<double>>& expected) {
  for (std::size_t o = 0; o < expected.size(); ++o) {
    const Array& array = p.arrays[static_cast<std::size_t>(p.outputs_from) + o];
    for (std::size_t i = 0; i < expected[o].size(); ++i) {
      const double is =
          core::load_real(array.tensor.dtype(), array.data.data(), array.place(static_cast<std::int64_t>(i)));
      double wanted = expected[o][i];
      if (array.tensor.dtype() == i64) wanted = static_cast<double>(core::to_integer(i64, wanted));
      if (is == wanted || (std::isnan(is) && std::isnan(wanted))) continue;
      std::string text = array.tensor.name() + " at " + std::to_string(i) + " is " + std::to_string(is) +
                         " and should be " + std::to_string(wanted) + "\n";
      for (const std::string& step : p.steps) text += "  " + step + "\n";
      return text;
    }
  }
  return {};
}

}  // namespace postlude::fuzz_te
