#include "fuzz/case.h"

#include "core/convert.h"
#include "fuzz/choices.h"
#include "graph/ir/verify.h"
#include "graph/text/printer.h"
#include "lower/lower.h"

#include <postlude/parse.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace postlude::fuzz {

namespace {

constexpr const char* values_names[] = {"integers", "normal", "special"};

std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  for (const char c : text) seed = mix(seed ^ static_cast<std::uint8_t>(c));
  return seed;
}

double uniform(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
double gauss(std::uint64_t bits) {
  return std::sqrt(-2 * std::log1p(-uniform(bits))) * std::cos(6.283185307179586 * uniform(mix(bits)));
}

// Whether elements may meet zeros instead of weights: of taps that another residue of a strided gradient has, or on
// tensor cores of filters in other groups (docs/convolution.md, Limits).
bool meets_zeros(const Case& c, const CaseTensor& t) {
  if (!c.conv || t.name != c.problem.loop().inputs()[0].name) return false;
  const bool by_data = c.conv->direction == Convolution::Direction::dgrad,
             strided =
                 std::ranges::any_of(c.conv->axes, [](const Convolution::Along&along) { return along.stride > 1; }),
             in_groups = c.conv->groups > 1 && t.dtype != DType::f32;
  return (by_data && strided) || (in_groups && c.conv->direction != Convolution::Direction::wgrad);
}

// Of a convolution's inputs, the one whose elements are scaled by K.

std::string_view second_of(const Case& c) { return c.conv ? c.problem.loop().inputs()[1].name : "B"; }

void store_element(const Case& c, const CaseTensor& t, void* memory, std::int64_t at, std::uint64_t bits) {
  const bool right = t.name == second_of(c), main_loop = right || t.name == "A" || t.rank > 0;
  const std::uint64_t small = mix(bits ^ 0x51);
  if (!is_float(t.dtype)) {
    std::int64_t x = static_cast<std::int64_t>(small % 9) - 4;
    if (t.dtype == DType::boolean) x &= 1;
    if (t.dtype == DType::u8) x = std::abs(x);
    if (t.dtype == DType::i64)
      x = static_cast<std::int64_t>(small % static_cast<std::uint64_t>(c.shape.n + 2)) - 1;  // a label
    if (c.values == Values::special && small % 5 == 0) {
      const core::IntegerRange range = core::integer_range(t.dtype);
      x = small % 2 == 0 ? range.min : range.max;
    }
    return core::store_integer(t.dtype, memory, at, x);
  }
  double x = 0;
  if (c.values == Values::integers) {
    const int reach = right ? 2 : 4;
    x = static_cast<double>(static_cast<std::int64_t>(small % static_cast<std::uint64_t>(2 * reach + 1)) - reach);
    if (main_loop && small % 3 != 0) x = 0;  // thinned, so that sums stay small
  } else {
    x = gauss(bits) / (right ? std::sqrt(static_cast<double>(std::max<std::int64_t>(c.shape.k, 1))) : 1);
    if (c.values == Values::special && small % (main_loop ? 97 : 7) == 0) {
      const double largest = t.dtype == DType::f32 ? std::numeric_limits<float>::max()
                                                   : core::decode(t.dtype, core::float_format(t.dtype).max);
      const double specials[] = {
          std::nan(""), HUGE_VAL, -HUGE_VAL, 0.0, -0.0, core::decode(t.dtype, 1), -core::decode(t.dtype, 1),
          largest,      -largest};
      const std::size_t first = meets_zeros(c, t) ? 3 : 0;  // behind what is not finite
      x = specials[first + mix(small) % (std::size(specials) - first)];
    }
  }
  core::store_real(t.dtype, memory, at, x);
}

// Strides of a tensor: contiguous, with a gap behind each row, transposed, with a gap behind each
// element, and for inputs also repeated along an axis, or backwards along one.
void lay_out(const Case& c, CaseTensor& t) {
  const bool along = c.layout == along_k;  // rows are then whole 16 bytes apart, where their lengths are
  const std::uint64_t choice = c.layout == 0 ? 0 : hash(t.name, along ? c.data : c.layout);
  const int modes = t.output ? 4 : 7, mode = c.layout == 0 ? 0
                                             : along       ? 1 + static_cast<int>(t.name == "B")
                                                     : static_cast<int>(choice % static_cast<std::uint64_t>(modes));
  const auto& e = t.extents;
  const auto often = static_cast<std::int64_t>(choice >> 8);
  const std::int64_t gap = along ? (often % 4 == 0 ? 16 : 0) : 1 + often % 9;
  std::int64_t m = e[2], n = 1, b = e[1] * e[2];
  if (mode == 1) m += gap, b = e[1] * m;
  if (mode == 2) m = 1, n = e[1] + gap, b = n * e[2];
  if (mode == 3) n = 2, m = 2 * e[2] + gap, b = e[1] * m;
  if (mode == 5) m = -m;
  if (mode == 6) n = -n;
  if (mode == 4) (choice >> 16 & 1) != 0 ? m = 0 : n = 0;
  t.strides = {t.axes.has(Axis::b) ? b : 0, t.axes.has(Axis::m) ? m : 0, t.axes.has(Axis::n) ? n : 0, 0, 0};
  t.first = 0;
  for (std::size_t i = 0; i < 3; ++i)
    t.first -= std::min<std::int64_t>(t.strides[i], 0) * std::max<std::int64_t>(e[i] - 1, 0);
}

// The same of a convolution's input, whose axes may lie in any order; channels last where the layout is 0.
void lay_out_image(const Case& c, CaseTensor& t) {
  const auto rank = static_cast<std::size_t>(t.rank);
  const std::uint64_t choice = c.layout == 0 ? 0 : hash(t.name, c.layout);
  const int mode = c.layout == 0 ? 0 : static_cast<int>(choice % 8);
  std::array<std::size_t, 5> order{0, 1, 2, 3, 4};                                          // outermost first
  if (mode < 4) std::rotate(order.begin() + 1, order.begin() + 2, order.begin() + t.rank);  // channels last
  if (mode == 7)
    for (std::size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[(choice >> (8 * i)) % i]);
  const auto gap = static_cast<std::int64_t>(1 + (choice >> 8) % 9);
  std::int64_t step = mode == 3 || mode == 6 ? 2 : 1;
  for (std::size_t i = rank; i-- > 0;) {
    t.strides[order[i]] = step;
    step *= t.extents[order[i]];
    if (mode != 0 && mode != 4 && i == 1 + (choice >> 16) % 2) step += gap;
  }
  const std::size_t odd = (choice >> 24) % rank;
  if (mode == 2) t.strides[odd] = -t.strides[odd];
  if (mode == 5) t.strides[odd] = 0;
  t.first = 0;
  for (std::size_t i = 0; i < rank; ++i)
    t.first -= std::min<std::int64_t>(t.strides[i], 0) * std::max<std::int64_t>(t.extents[i] - 1, 0);
}

std::int64_t elements_of_memory(const CaseTensor& t) {
  std::int64_t last = t.first;
  for (std::size_t i = 0; i < t.extents.size(); ++i) {
    if (t.extents[i] == 0) return 0;
    last += std::max<std::int64_t>(t.strides[i], 0) * (t.extents[i] - 1);
  }
  return last + 1;
}

bool is_poison(const std::uint8_t* p, std::int64_t bytes) {
  return std::all_of(p, p + bytes, [](std::uint8_t x) { return x == poison; });
}

// "key=value" of a comment.
std::string field(const std::string& text, const std::string& key) {
  const auto at = text.find(' ' + key + '=');
  if (at == std::string::npos) throw std::runtime_error("a case without " + key);
  const auto begin = at + key.size() + 2;
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

}  // namespace

std::string write(const Case& c) {
  std::ostringstream out;
  const auto name_of = [](DType t) { return std::string(name(t)); };
  if (c.conv) {
    out << "# problem: kind=conv conv=" << write(*c.conv) << " a=" << name_of(c.conv->first)
        << " b=" << name_of(c.conv->second) << " batched=" << is_batched(c.problem) << '\n';
  } else if (const auto* gemm = c.problem.get_if<Gemm>()) {
    out << "# problem: kind=gemm a=" << name_of(gemm->a) << " b=" << name_of(gemm->b) << " batched=" << gemm->batched
        << '\n';
  } else {
    out << "# problem: kind=" << c.problem.loop().name() << " a=" << name_of(c.problem.loop().inputs()[0].dtype)
        << " b=f32 batched=" << is_batched(c.problem) << '\n';
  }
  out << "# shape: batch=" << c.shape.batch << " m=" << c.shape.m << " n=" << c.shape.n << " k=" << c.shape.k << '\n';
  out << "# data: data=" << c.data << " values=" << values_names[static_cast<int>(c.values)] << " layout=" << c.layout
      << " seed=" << c.seed << '\n';
  out << print(c.graph);
  return out.str();
}

Case read(const std::string& text) {
  Case c;
  const auto number = [&](const char* key) { return std::stoull(field(text, key)); };
  const auto dtype = [&](const char* key) { return parse_dtype(field(text, key)).value(); };
  const bool batched = number("batched") != 0;
  const std::string kind = field(text, "kind");
  if (kind == "conv") set_convolution(c, read_convolution(field(text, "conv"), dtype("a"), dtype("b")));
  else if (kind == "gemm") c.problem = Gemm{dtype("a"), dtype("b"), Layout::any, Layout::any, batched};
  else c.problem = Stream{dtype("a"), batched};
  if (!c.conv)
    c.shape = {static_cast<std::int64_t>(number("batch")), static_cast<std::int64_t>(number("m")),
               static_cast<std::int64_t>(number("n")), static_cast<std::int64_t>(number("k"))};
  c.data = number("data");
  c.layout = number("layout");
  c.seed = number("seed");
  const std::string values = field(text, "values");
  for (int i = 0; i < 3; ++i)
    if (values == values_names[i]) c.values = static_cast<Values>(i);
  c.graph = parse(text, {}, "case").data();
  return c;
}

GraphData with_dtypes(const GraphData& graph, const Problem& problem) {
  const lower::Program program = lower::lower(graph, facts_of(problem));
  GraphData result = graph;
  for (std::size_t i = 0; i < graph.operands.size(); ++i) result.operands[i].dtype = program.buffers[i].dtype;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    result.outputs[i].dtype = program.buffers[graph.operands.size() + i].dtype;
  return result;
}

void set_convolution(Case& c, const Convolution& conv) {
  c.conv = conv;
  c.problem = conv.problem();
  c.shape = conv.shape();
}

bool divisible(const Case& c) {
  const Inference inference = verify(c.graph, accumulator_type(c.problem), default_operand_type(c.problem));
  return std::all_of(inference.divisibility.begin(), inference.divisibility.end(),
                     [&](const Divisibility& d) { return d.columns.at(c.shape.n) % d.divisor == 0; });
}

std::vector<Binding> Tensors::named() const {
  std::vector<Binding> result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CaseTensor& t = all[i];
    Tensor x;
    x.data = memory[i].data() + t.first * size_of(t.dtype);
    x.dtype = t.dtype;
    constexpr Axis axes[] = {Axis::b, Axis::m, Axis::n};
    for (std::size_t axis = 0; axis < t.extents.size(); ++axis) {
      if (t.rank > 0 ? axis >= static_cast<std::size_t>(t.rank) : axis > 2 || !t.axes.has(axes[axis])) continue;
      x.shape[static_cast<std::size_t>(x.rank)] = t.extents[axis];
      x.strides[static_cast<std::size_t>(x.rank++)] = t.strides[axis];
    }
    result.push_back({t.name, x});
  }
  return result;
}

void Tensors::poison_outputs() {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].output) memory[i].fill_with_poison();
}

std::string Tensors::damage() const {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CaseTensor& t = all[i];
    if (!t.output) continue;
    if (!is_poison(memory[i].before().data(), static_cast<std::int64_t>(memory[i].before().size())))
      return "output " + t.name + " was written in front of its memory";
    std::vector<bool> owned(static_cast<std::size_t>(elements_of_memory(t)), false);
    for_elements(t, [&](const std::array<std::int64_t, 5>& place) {
      const std::int64_t at = t.at(place);
      owned[static_cast<std::size_t>(at)] = true;
    });
    const std::int64_t size = size_of(t.dtype);
    for (std::size_t e = 0; e < owned.size(); ++e)
      if (!owned[e] && !is_poison(memory[i].data() + static_cast<std::int64_t>(e) * size, size))
        return "output " + t.name + " was written between its elements, at " + std::to_string(e);
  }
  return "";
}

std::vector<std::vector<std::uint8_t>> Tensors::copy_outputs() const {
  std::vector<std::vector<std::uint8_t>> result;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].output) result.emplace_back(memory[i].data(), memory[i].data() + memory[i].size());
  return result;
}

Tensors materialise(const Case& c) {
  const Inference inference = verify(c.graph, accumulator_type(c.problem), default_operand_type(c.problem));
  const bool batched = is_batched(c.problem);
  const Shape& s = c.shape;
  Tensors result;
  // An input may lack the batch axis: it is shared then. Some tensor must say what the batch is: A
  // or X where no output does.
  const bool outputs_say = std::any_of(c.graph.outputs.begin(), c.graph.outputs.end(), [&](const OutputDecl& o) {
    return inference.values[static_cast<std::size_t>(o.value)].axes.has(Axis::b);
  });
  // Puts a tensor that is laid out into memory.
  const auto place = [&](const CaseTensor& t) {
    GuardedMemory memory(static_cast<std::size_t>(elements_of_memory(t) * size_of(t.dtype)));
    if (!t.output) {
      std::uint64_t bits = hash(t.name, c.data);
      for_elements(t, [&](const std::array<std::int64_t, 5>& place) {
        const std::int64_t at = t.at(place);
        store_element(c, t, memory.data(), at, bits = mix(bits));
      });
    }
    result.all.push_back(t);
    result.memory.push_back(std::move(memory));
    return Bound{
        result.memory.back().data() + t.first * size_of(t.dtype), t.dtype, {t.strides[0], t.strides[1], t.strides[2]}};
  };
  const auto add = [&](std::string name, DType dtype, Axes axes, std::int64_t rows, std::int64_t columns, bool output,
                       bool has_b) {
    CaseTensor t;
    t.name = std::move(name);
    t.dtype = dtype;
    const bool must_say = !outputs_say && (t.name == "A" || t.name == "X");
    const bool shared =
        !output && !must_say && c.layout != 0 && hash(t.name, (c.layout == along_k ? c.data : c.layout) ^ 0xB) % 3 == 0;
    t.axes = axes | (batched && has_b && !shared ? Axes(Axis::b) : Axes());
    t.output = output;
    t.extents = {t.axes.has(Axis::b) ? s.batch : 1, t.axes.has(Axis::m) ? rows : 1, t.axes.has(Axis::n) ? columns : 1,
                 1, 1};
    lay_out(c, t);
    return place(t);
  };
  result.bindings.shape = s;
  const MainLoop& loop = c.problem.loop();
  for (const Input& input : loop.inputs()) {
    const std::vector<std::int64_t> shape =
        c.conv ? c.conv->inputs()[result.all.size()] : loop.shape_of(result.all.size(), s);
    Given& given = result.bindings.inputs.emplace_back();
    given.name = input.name;
    given.dtype = input.dtype;
    given.rank = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), given.shape.begin());
    if (c.conv) {
      CaseTensor t;
      t.name = input.name, t.dtype = input.dtype, t.rank = given.rank;
      std::ranges::copy(shape, t.extents.begin());
      lay_out_image(c, t);
      given.data = place(t).data;
      for (std::size_t i = 0; i < shape.size(); ++i) given.strides[i] = shape[i] == 1 ? 0 : t.strides[i];
      continue;
    }
    const bool matrix = shape.size() == 2;
    const Bound bound = add(std::string(input.name), input.dtype, matrix ? tile_axes : Axes(Axis::m), shape[0],
                            matrix ? shape[1] : 1, false, true);
    given.data = bound.data;
    given.strides = {bound.strides[1], bound.strides[2]};
    if (result.all.back().axes.has(Axis::b)) given.batch = s.batch, given.batch_stride = bound.strides[0];
  }
  const Operands operands = loop.operands(result.bindings.inputs);
  result.bindings.a = operands.a;
  result.bindings.b = operands.b;
  result.bindings.addressing = operands.addressing;
  if (!loop.contraction()) result.bindings.shape.k = 0;
  for (std::size_t i = 0; i < c.graph.operands.size(); ++i) {
    const OperandDecl& o = c.graph.operands[i];
    const DType dtype = o.dtype.value_or(o.axes.empty() ? DType::f32 : default_operand_type(c.problem));
    result.bindings.buffers.push_back(add(o.name, dtype, o.axes, inference.operand_rows[i].at(s.m),
                                          inference.operand_columns[i].at(s.n), false, true));
  }
  for (const OutputDecl& o : c.graph.outputs) {
    const ValueInfo& v = inference.values[static_cast<std::size_t>(o.value)];
    result.bindings.buffers.push_back(
        add(o.name, o.dtype.value(), v.axes & tile_axes, v.rows.at(s.m), v.columns.at(s.n), true, v.axes.has(Axis::b)));
  }
  return result;
}

}  // namespace postlude::fuzz
