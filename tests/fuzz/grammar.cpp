// The file is longer than most because one class draws a case: what it has drawn tells what it may draw next.
#include "fuzz/grammar.h"

#include "graph/ir/verify.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

namespace postlude::fuzz {

namespace {

constexpr DType every_dtype[] = {f32, f32, f32, bf16, bf16, f16, e4m3, e5m2, s8, u8, i32, i64, boolean};
constexpr DType float_dtypes[] = {f32, bf16, f16, e4m3, e5m2};
constexpr Axes classes[] = {tile_axes, row_axes, col_axes, scalar_axes};
constexpr std::int64_t groups[] = {1, 2, 2, 3, 5, 8, 16, 32, 32, 64, 128};

class Generator {
 public:
  Generator(Choices& choices, const GrammarOptions& options) : pick_(choices), options_(options) {}

  Case run() {
    main_loop();
    Node acc;
    acc.op = Op::acc;
    append(acc);
    // Few nodes as often as many.
    const int target = 1 + static_cast<int>(pick_.below(1 + pick_.below(options_.most_nodes)));
    for (int attempts = 0; size() < target && attempts < 4 * target && !pick_.exhausted(); ++attempts) grow();
    outputs();
    shape();
    result_.data = pick_.next();
    const std::int64_t values = pick_.below(10);
    result_.values = values < 4 ? Values::integers : values < 9 ? Values::normal : Values::special;
    result_.layout = pick_.chance(50) ? 0 : pick_.next() | 1;
    return std::move(result_);
  }

 private:
  Choices& pick_;
  GrammarOptions options_;
  Case result_;
  Inference inference_;
  std::vector<NodeId> beside_;  // statistics that are outputs together

  GraphData& graph() { return result_.graph; }
  [[nodiscard]] int size() const { return static_cast<int>(result_.graph.nodes.size()); }
  [[nodiscard]] const ValueInfo& info_of(NodeId id) const { return inference_.values[static_cast<std::size_t>(id)]; }

  DType other_dtype(DType a) {
    if (!options_.odd_dtypes) return a;
    return is_float(a) ? (pick_.chance(85) ? a : pick_.pick(float_dtypes)) : pick_.chance(50) ? s8 : u8;
  }

  // Of one pixel until shape() draws the others: the epilogue has to know the dtypes, and whether there is a batch.
  void convolution() {
    Convolution c;
    c.direction = static_cast<Convolution::Direction>(pick_.below(3));
    c.first = !options_.odd_dtypes || pick_.chance(50) ? f32 : pick_.chance(20) ? s8 : pick_.pick(float_dtypes);
    c.second = other_dtype(c.first);
    set_convolution(result_, c);
  }

  void main_loop() {
    graph().name = "epilogue";
    if (options_.convolutions > 0 && pick_.chance(options_.convolutions)) return convolution();
    const bool batched = options_.batches && pick_.chance(25);
    if (options_.streams && pick_.chance(15)) {
      result_.problem = Stream{pick_.chance(70) || !options_.odd_dtypes ? f32
                               : pick_.pick(every_dtype) == i64         ? i32
                                                                        : pick_.pick(float_dtypes),
                               batched};
    } else {
      Gemm gemm{f32, f32, Layout::any, Layout::any, batched};
      if (options_.odd_dtypes && pick_.chance(50)) {
        if (pick_.chance(20)) {
          gemm.a = pick_.chance(50) ? s8 : u8;
          gemm.b = s8;
        } else {
          gemm.a = gemm.b = pick_.pick(float_dtypes);
        }
      }
      result_.problem = gemm;
    }
  }

  bool valid() {
    OutputDecl probe;  // the verifier wants an output; the accumulator always is a good one
    probe.name = "probe";
    probe.value = 0;
    graph().outputs = {probe};
    try {
      inference_ = verify(graph(), accumulator_type(result_.problem), default_operand_type(result_.problem));
    } catch (const Error& e) {
      if (e.code() == ErrorCode::internal) throw;
      return false;
    }
    return std::all_of(inference_.values.begin(), inference_.values.end(), [](const ValueInfo& v) {
      return v.rows.times <= 8 && v.columns.times <= 8 && v.columns.over <= 256 && v.rows.over <= 256;
    });
  }

  [[nodiscard]] bool accepted(const GraphData& graph) const {
    try {
      (void)verify(graph, accumulator_type(result_.problem), default_operand_type(result_.problem));
      return true;
    } catch (const Error&) { return false; }
  }

  // Adds a value if the verifier takes it; -1 if not.
  NodeId append(Node node) {
    const bool reads = node.op == Op::operand;
    if (std::any_of(node.args.begin(), node.args.end(), [](NodeId a) { return a < 0; }))
      return -1;  // made of what was refused
    graph().nodes.push_back(std::move(node));
    if (valid()) return size() - 1;
    if (reads) graph().operands.pop_back();
    graph().nodes.pop_back();
    return -1;
  }

  // A value that is there, the later the likelier. A general reduction stands only in `get`.
  NodeId any_value() {
    for (;;) {
      const std::int64_t back = pick_.below(1 + pick_.below(size()));
      const auto id = static_cast<NodeId>(size() - 1 - back);
      const Node& node = graph().nodes[static_cast<std::size_t>(id)];
      if (node.op != Op::reduce || node.reduction != ReduceOp::custom) return id;
      if (pick_.exhausted()) return 0;
    }
  }
  NodeId value_of(bool (*wanted)(DType)) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      const NodeId id = any_value();
      if (wanted(*info_of(id).type)) return id;
    }
    return wanted(f32) ? real() : any_value();
  }
  NodeId real() {
    for (int attempt = 0; attempt < 6; ++attempt) {
      const NodeId id = any_value();
      if (info_of(id).type == f32) return id;
    }
    return 0;
  }

  NodeId wide_integer() {
    const auto wide = [](DType t) { return t == i64; };
    const NodeId x = value_of(wide);
    if (wide(*info_of(x).type)) return x;
    Node node;
    node.op = Op::cast;
    node.args = {x};
    node.dtype = i64;
    return append(std::move(node));
  }

  NodeId unary(Op op, NodeId x) {
    Node node;
    node.op = op;
    node.args = {x};
    return append(std::move(node));
  }
  NodeId binary(Op op, NodeId x, NodeId y) {
    Node node;
    node.op = op;
    node.args = {x, y};
    return append(std::move(node));
  }
  NodeId literal(double x) {
    Node node;
    node.literal.real = x;
    return append(std::move(node));
  }
  NodeId literal(std::int64_t x) {
    Node node;
    node.literal.type = i64;
    node.literal.integer = x;
    return append(std::move(node));
  }
  NodeId constant() {
    constexpr double reals[] = {0.5, 0.25, 2.0, 1.0, -1.0, 0.1, -0.7, 3.0, 0.0, 1e-3, 100.0, -0.0};
    constexpr std::int64_t integers[] = {0, 1, 2, -1, 3, 7, 100, -5};
    if (pick_.chance(3)) return literal(pick_.chance(50) ? HUGE_VAL : std::nan(""));
    return pick_.chance(60) ? literal(pick_.pick(reals)) : literal(pick_.pick(integers));
  }
  NodeId operand(Axes axes, DType dtype) {
    OperandDecl decl;
    decl.name = "x" + std::to_string(graph().operands.size());
    decl.axes = axes;
    decl.dtype = dtype;
    graph().operands.push_back(decl);
    Node node;
    node.op = Op::operand;
    node.index = static_cast<std::int32_t>(graph().operands.size()) - 1;
    return append(std::move(node));
  }
  NodeId call(const char* function, std::vector<NodeId> args) {
    Node node;
    node.op = Op::call;
    node.function = find_function(function);
    if (!node.function) return -1;
    while (args.size() < node.function->parameters.size()) {
      const auto& value = node.function->parameters[args.size()].default_value;
      args.push_back(value ? literal(value->value()) : any_value());
      if (args.back() < 0) return -1;
    }
    node.args = std::move(args);
    return append(std::move(node));
  }

  // Something between about -1 and 1, so that exponentials and powers stay finite.
  NodeId tame(NodeId x) {
    if (pick_.chance(25)) return x;
    switch (pick_.below(4)) {
      case 0: return unary(Op::tanh, x);
      case 1: return unary(Op::sin, x);
      case 2: return call("sigmoid", {x});
      default: {
        const NodeId low = literal(-1.0), high = literal(1.0);
        return binary(Op::min, binary(Op::max, x, low), high);
      }
    }
  }

  void grow() {
    if (pick_.chance(options_.reductions)) return reductions();
    const std::int64_t kind = pick_.below(100);
    if (kind < 22) arithmetic();
    else if (kind < 34) function();
    else if (kind < 44) operand(pick_.pick(classes), pick_.pick(every_dtype));
    else if (kind < 48) constant();
    else if (kind < 54) choice();
    else if (kind < 60) cast();
    else if (kind < 63) coordinate();
    else if (kind < 65) random();
    else if (kind < 69) pieces();
    else if (kind < 79) reduction();
    else if (kind < 81) beside();
    else if (kind < 83) blocks();
    else if (kind < 84) likelihood();
    else if (kind < 86) normalise();
    else if (kind < 88) chain();
    else if (kind < 90) general_reduction();
    else if (kind < 92) scaled();
    else if (kind < 95) integers();
    else prelude();
  }

  // What kernels are made of; most of the rest they only compute.
  void reductions() {
    const std::int64_t kind = pick_.below(100);
    if (kind < 22) reduction();
    else if (kind < 32) beside();
    else if (kind < 50) blocks();
    else if (kind < 72) normalise();
    else if (kind < 92) whole();
    else likelihood();
  }

  // Of all elements, several together, as losses and norms of gradients are.
  void whole() {
    constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::var, ReduceOp::norm};
    const NodeId x = real();
    NodeId all = -1;
    for (std::int64_t more = pick_.below(3); more >= 0; --more) {
      const NodeId s = reduce(pick_.pick(ops), x, tile_axes, 0);
      if (s < 0) return;
      all = all < 0 ? s : binary(Op::add, all, s);
    }
    if (all >= 0 && pick_.chance(50)) binary(pick_.chance(50) ? Op::sub : Op::mul, x, all);
  }

  void arithmetic() {
    constexpr Op ops[] = {Op::add, Op::sub, Op::mul, Op::mul,      Op::add,
                          Op::div, Op::min, Op::max, Op::floordiv, Op::fma};
    const Op op = pick_.pick(ops);
    const NodeId x = any_value(), y = pick_.chance(10) ? constant() : any_value();
    if (y < 0) return;
    if (op == Op::fma) {
      Node node;
      node.op = op;
      node.args = {x, y, any_value()};
      append(std::move(node));
    } else if (op == Op::div && pick_.chance(60)) {  // away from the pole
      const NodeId positive = binary(Op::add, unary(Op::abs, y) < 0 ? y : size() - 1, literal(1.0));
      if (positive >= 0) binary(op, x, positive);
    } else {
      binary(op, x, y);
    }
  }

  void function() {
    constexpr Op calm[] = {Op::neg,   Op::abs,  Op::tanh,  Op::erf,   Op::sin, Op::cos,
                           Op::floor, Op::ceil, Op::round, Op::expm1, Op::exp, Op::exp2};
    constexpr Op positive[] = {Op::log, Op::log2, Op::log1p, Op::sqrt, Op::rsqrt, Op::reciprocal};
    if (pick_.chance(60)) {
      const Op op = pick_.pick(calm);
      NodeId x = real();
      if (op == Op::exp || op == Op::exp2 || op == Op::expm1) x = tame(x);
      if (x >= 0) unary(op, x);
    } else if (pick_.chance(70)) {
      NodeId x = unary(Op::abs, real());
      if (x >= 0 && pick_.chance(80)) x = binary(Op::add, x, literal(pick_.chance(50) ? 1.0 : 0.01));
      if (x >= 0) unary(pick_.pick(positive), x);
    } else {
      NodeId x = unary(Op::abs, tame(real()));
      if (x >= 0) binary(Op::pow, x, pick_.chance(50) ? literal(pick_.chance(50) ? 2.0 : 0.5) : tame(real()));
    }
  }

  void choice() {
    constexpr Op compares[] = {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge};
    const NodeId x = any_value();
    const NodeId condition = binary(pick_.pick(compares), x, pick_.chance(40) ? constant() : any_value());
    if (condition < 0 || pick_.chance(20)) return;
    Node node;
    node.op = Op::where;
    node.args = {condition, any_value(), pick_.chance(30) ? constant() : any_value()};
    if (node.args[2] >= 0) append(std::move(node));
  }

  void cast() {
    Node node;
    node.op = Op::cast;
    node.args = {any_value()};
    node.dtype = pick_.pick(every_dtype);
    constexpr Round rounds[] = {Round::nearest_even, Round::nearest_even, Round::toward_zero,
                                Round::up,           Round::down,         Round::stochastic};
    node.round = pick_.pick(rounds);
    if (node.round == Round::stochastic) node.seed = static_cast<std::uint64_t>(pick_.below(1000));
    append(std::move(node));
  }

  void coordinate() {
    constexpr Op ops[] = {Op::m_index, Op::n_index, Op::n_index, Op::batch_index};
    constexpr Op of_pixels[] = {Op::z_index, Op::p_index, Op::p_index, Op::q_index, Op::q_index};
    Node node;
    const bool pixels = result_.conv && result_.conv->direction != Convolution::Direction::wgrad;
    node.op = pixels && pick_.chance(60) ? pick_.pick(of_pixels) : pick_.pick(ops);
    append(std::move(node));
  }

  void random() {
    Node node;
    node.op = Op::random;
    node.seed = pick_.next();
    node.random_stream = static_cast<std::uint32_t>(pick_.below(3));
    append(std::move(node));
  }

  void pieces() {
    const NodeId x = any_value();
    const std::int32_t k = pick_.chance(75) ? 2 : 3;
    const std::int64_t group = pick_.chance(50) ? 0 : k * (1 + pick_.below(8));
    std::vector<NodeId> parts;
    for (std::int32_t i = 0; i < k; ++i) {
      Node node;
      node.op = Op::chunk;
      node.args = {x};
      node.pieces = k;
      node.group = group;
      node.index = i;
      const NodeId part = append(std::move(node));
      if (part < 0) return;
      parts.push_back(part);
    }
    if (pick_.chance(40)) binary(pick_.chance(50) ? Op::mul : Op::sub, parts[0], parts[1]);
    if (!pick_.chance(50)) return;
    Node node;
    node.op = Op::concat;
    node.group = pick_.chance(50) ? group : 0;
    for (std::int32_t i = 0; i < k; ++i)
      node.args.push_back(pick_.chance(60) ? parts[static_cast<std::size_t>((i + 1) % k)] : any_value());
    append(std::move(node));
  }

  NodeId reduce(ReduceOp op, NodeId x, Axes axes, std::int64_t group) {
    Node node;
    node.op = Op::reduce;
    node.reduction = op;
    node.args = {x};
    node.axes = axes;
    node.group = group;
    return append(std::move(node));
  }
  NodeId repeat(NodeId x, std::int64_t group, Axes axis) {
    Node node;
    node.op = Op::repeat;
    node.args = {x};
    node.group = group;
    node.axes = axis;
    return append(std::move(node));
  }
  Axes some_axes() {
    constexpr Axes axes[] = {Axis::n, Axis::n, Axis::n, Axis::m, Axis::m, tile_axes};
    Axes result = pick_.pick(axes);
    if (is_batched(result_.problem) && pick_.chance(15)) result = result | Axis::b;
    return result;
  }

  void reduction() {
    constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::sum,  ReduceOp::mean,   ReduceOp::max,    ReduceOp::min,
                                ReduceOp::any, ReduceOp::all,  ReduceOp::argmax, ReduceOp::argmin, ReduceOp::logsumexp,
                                ReduceOp::var, ReduceOp::norm, ReduceOp::prod};
    constexpr ReduceOp of_integers[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::prod};
    const bool whole = pick_.chance(15);  // numbers, of 64 bits
    const ReduceOp op = whole ? pick_.pick(of_integers) : pick_.pick(ops);
    const NodeId x = whole ? wide_integer() : any_value();
    const Axes axes = some_axes();
    const bool grouped = pick_.chance(25) && (axes & tile_axes) != tile_axes;
    const std::int64_t group = grouped ? pick_.pick(groups) : 0;
    const NodeId s = reduce(op, x, axes, group);
    if (s < 0 || pick_.chance(40)) return;
    const NodeId back = grouped ? repeat(s, group, axes & tile_axes) : s;  // used again in what it came from
    if (back >= 0) binary(pick_.chance(50) ? Op::sub : Op::mul, x, back);
  }

  // Statistics of whole rows (or columns) beside some of their groups: tiles gather both at a time.
  void beside() {
    constexpr ReduceOp ops[] = {ReduceOp::sum,    ReduceOp::mean,   ReduceOp::max,       ReduceOp::var,
                                ReduceOp::argmax, ReduceOp::argmin, ReduceOp::logsumexp, ReduceOp::norm};
    const NodeId x = any_value();
    const Axes axis = pick_.chance(70) ? Axis::n : Axis::m;
    const std::int64_t group = pick_.pick(groups);
    beside_.clear();
    for (std::int64_t i = 2 + pick_.below(2); i > 0; --i) {
      const NodeId s = reduce(pick_.pick(ops), pick_.chance(80) ? x : any_value(), axis, i % 2 ? group : 0);
      if (s >= 0) beside_.push_back(s);
    }
  }

  // Normalisations as models have them: softmax, layernorm, rmsnorm, of a row, a column or the heads of a row, also far
  // from 0.
  void normalise() {
    NodeId x = real();
    if (pick_.chance(10)) x = binary(Op::add, x, literal(100.0));
    const Axes axis = pick_.chance(70) ? Axis::n : Axis::m;
    const std::int64_t group = pick_.chance(20) ? pick_.pick(groups) : 0;
    const auto of = [&](ReduceOp op, NodeId y) { return reduce(op, y, axis, group); };
    const auto beside = [&](NodeId s) { return group == 0 ? s : repeat(s, group, axis); };
    NodeId y = -1;
    switch (pick_.below(3)) {
      case 0: {
        const NodeId e = unary(Op::exp, binary(Op::sub, x, beside(of(ReduceOp::max, x))));
        y = binary(Op::div, e, beside(of(ReduceOp::sum, e)));
        break;
      }
      case 1: {
        const NodeId centred = binary(Op::sub, x, beside(of(ReduceOp::mean, x)));
        const NodeId v = of(ReduceOp::var, x), padded = binary(Op::add, v, literal(1e-3));
        y = binary(Op::mul, centred, beside(unary(Op::rsqrt, padded)));
        break;
      }
      default: {
        const NodeId mean = of(ReduceOp::mean, binary(Op::mul, x, x)), padded = binary(Op::add, mean, literal(1e-6));
        y = binary(Op::mul, x, beside(unary(Op::rsqrt, padded)));
      }
    }
    if (y >= 0 && pick_.chance(30)) binary(Op::mul, y, operand(pick_.pick(classes), f32));  // a gain
  }

  // Statistics that wait for one before them, as lowering joins some: extremes of what is shifted or scaled, squared
  // deviations, weighted exponentials at a temperature; in groups too.
  void chain() {
    const NodeId x = real();
    const Axes axis = pick_.chance(70) ? Axis::n : Axis::m;
    const std::int64_t group = pick_.chance(30) ? pick_.pick(groups) : 0;
    const auto beside = [&](NodeId s) { return group == 0 || s < 0 ? s : repeat(s, group, axis); };  // its elements
    switch (pick_.below(3)) {
      case 0: {
        const NodeId of = pick_.chance(50) ? x : binary(Op::mul, x, x);
        NodeId s = of < 0 ? -1 : reduce(pick_.chance(50) ? ReduceOp::mean : ReduceOp::max, of, axis, group);
        const bool shift = pick_.chance(50);
        if (!shift) s = binary(Op::add, s < 0 ? -1 : unary(Op::abs, s), literal(1e-3));
        if (!shift && s >= 0) s = unary(Op::rsqrt, s);
        NodeId y = binary(shift ? Op::sub : Op::mul, x, beside(s));
        if (y >= 0 && pick_.chance(50)) y = unary(Op::abs, y);
        if (y >= 0) reduce(pick_.chance(70) ? ReduceOp::max : ReduceOp::min, y, axis, group);
        return;
      }
      case 1: {
        const NodeId d = binary(Op::sub, x, beside(reduce(ReduceOp::mean, x, axis, group)));
        const NodeId square = binary(Op::mul, d, d);
        if (square >= 0) reduce(pick_.chance(50) ? ReduceOp::mean : ReduceOp::sum, square, axis, group);
        return;
      }
      default: {
        NodeId d = binary(Op::sub, x, beside(reduce(ReduceOp::max, x, axis, group)));
        if (d >= 0 && pick_.chance(60)) d = binary(Op::mul, d, literal(pick_.chance(50) ? 0.3 : 2.0));
        const NodeId e = d < 0 ? -1 : unary(Op::exp, d);
        if (e < 0) return;
        const NodeId s = reduce(ReduceOp::sum, e, axis, group);
        const NodeId p = pick_.chance(50) ? binary(Op::div, e, beside(s)) : e;
        const NodeId weighted = binary(Op::mul, p, pick_.chance(20) ? p : any_value());
        if (weighted >= 0) reduce(ReduceOp::sum, weighted, axis, group);
      }
    }
  }

  // A sum of two values at once, or the smallest of one with what belongs to it.
  void general_reduction() {
    const NodeId x = real(), y = real();
    Node node;
    node.op = Op::reduce;
    node.reduction = ReduceOp::custom;
    node.args = {x, y};
    node.axes = some_axes();
    auto combine = std::make_shared<Lambda>();
    combine->parameters = 4;
    const auto add = [&](Op op, std::vector<NodeId> args, std::int32_t index = 0) {
      Node n;
      n.op = op;
      n.args = std::move(args);
      n.index = index;
      combine->nodes.push_back(std::move(n));
      return static_cast<NodeId>(combine->nodes.size()) - 1;
    };
    NodeId p[4];
    for (std::int32_t i = 0; i < 4; ++i) p[i] = add(Op::parameter, {}, i);  // a1, a2, b1, b2
    if (pick_.chance(50)) {
      combine->results = {add(Op::add, {p[0], p[2]}), add(Op::max, {p[1], p[3]})};
      node.identity = {0, -HUGE_VAL};
    } else {
      combine->results = {add(Op::min, {p[0], p[2]}), add(Op::add, {p[1], p[3]})};
      node.identity = {HUGE_VAL, 0};
    }
    node.combine = std::move(combine);
    const NodeId reduced = append(std::move(node));
    if (reduced < 0) return;
    for (std::int32_t i = 0; i < 2; ++i) {
      Node get;
      get.op = Op::get;
      get.args = {reduced};
      get.index = i;
      append(std::move(get));
    }
  }

  void scaled() {
    const NodeId s = operand(scalar_axes, f32);
    if (s < 0) return;
    const NodeId factor = pick_.chance(50) ? binary(Op::mul, s, literal(0.0)) : s;
    binary(Op::scaled, factor < 0 ? s : factor, real());
  }

  void integers() {
    constexpr Op ops[] = {Op::bit_and, Op::bit_or, Op::bit_not, Op::floordiv, Op::mul, Op::add};
    const auto whole = [](DType t) { return t != f32; };
    const NodeId x = value_of(whole), y = value_of(whole);
    const Op op = pick_.pick(ops);
    if (op == Op::bit_not) unary(op, x);
    else binary(op, x, y);
  }

  void prelude() {
    constexpr const char* names[] = {"relu", "gelu", "gelu_erf", "silu",      "sigmoid",    "softplus",
                                     "mish", "elu",  "clamp",    "hardswish", "leaky_relu", "mod"};
    call(pick_.pick(names), {real()});
  }

  // As quantised models have them: a statistic of each group, or of each block of rows and columns, with an operand of
  // each, and back on what it came from.
  void blocks() {
    const NodeId x = real();
    const Axes axis = pick_.chance(60) ? Axis::n : Axis::m;
    const std::int64_t group = pick_.pick(groups);
    constexpr ReduceOp ops[] = {ReduceOp::max, ReduceOp::max, ReduceOp::sum, ReduceOp::mean, ReduceOp::var};
    const ReduceOp op = pick_.pick(ops);
    NodeId s = reduce(op, pick_.chance(50) ? unary(Op::abs, x) : x, axis, group);
    const Axes other = tile_axes - axis;
    const std::int64_t others = pick_.chance(30) ? pick_.pick(groups) : 0;
    if (s >= 0 && others) s = reduce(pick_.chance(80) ? op : pick_.pick(ops), s, other, others);
    if (s < 0) return;
    if (pick_.chance(60)) s = binary(Op::mul, s, operand(pick_.pick(classes), pick_.pick(float_dtypes)));
    if (s >= 0 && pick_.chance(30)) s = binary(Op::max, s, literal(0.25));
    if (s >= 0 && others) s = repeat(s, others, other);
    if (s >= 0) binary(pick_.chance(50) ? Op::mul : Op::sub, x, repeat(s, group, axis));
  }

  // As losses have them: sums of logarithms beside products.
  void likelihood() {
    const NodeId x = tame(real()), p = call("sigmoid", {x});
    if (p < 0) return;
    NodeId log = unary(Op::log, pick_.chance(70) ? p : binary(Op::div, p, literal(2.0)));
    if (log >= 0) log = binary(Op::add, binary(Op::mul, real(), pick_.chance(50) ? literal(0.5) : x), log);
    if (log >= 0 && pick_.chance(20)) log = binary(Op::scaled, operand(scalar_axes, f32), log);
    if (log >= 0) reduce(ReduceOp::sum, log, pick_.chance(70) ? Axes(Axis::n) : some_axes(), 0);
  }

  // ---- the ends
  // A reduction that is there, or any value.
  NodeId statistic() {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const NodeId id = any_value();
      if (graph().nodes[static_cast<std::size_t>(id)].op == Op::reduce) return id;
    }
    return any_value();
  }
  void outputs() {
    if (pick_.chance(30)) beside_.clear();
    const std::int64_t wanted = static_cast<std::int64_t>(beside_.size()) + 1 + pick_.below(1 + pick_.below(4));
    const bool alone = pick_.chance(options_.reductions / 2);  // statistics, as losses are
    std::vector<OutputDecl> chosen;
    for (std::int64_t i = 0; i < wanted; ++i) {
      for (int attempt = 0; attempt < 8; ++attempt) {
        OutputDecl o;
        o.name = "y" + std::to_string(chosen.size());
        if (attempt == 7) o.value = 0;
        else if (attempt == 0 && i < static_cast<std::int64_t>(beside_.size()))
          o.value = beside_[static_cast<std::size_t>(i)];
        else if (alone && attempt < 4) o.value = statistic();
        else if (attempt == 0 && options_.reductions > 0 && pick_.chance(50)) o.value = size() - 1;
        else o.value = attempt == 0 && pick_.chance(20) ? statistic() : any_value();
        const DType type = *info_of(o.value).type;
        if (type == f32) o.dtype = pick_.chance(60) ? f32 : pick_.pick(every_dtype);
        else if (type == boolean) o.dtype = pick_.chance(60) ? boolean : pick_.chance(50) ? f32 : u8;
        else o.dtype = pick_.chance(60) ? i64 : pick_.pick(every_dtype);
        graph().outputs = chosen;
        graph().outputs.push_back(o);
        if (!accepted(graph())) continue;  // a constant
        chosen.push_back(o);
        break;
      }
    }
    graph().outputs = chosen;
    // Most graphs have nothing that is unused, unless that is what an operand is as wide as.
    if (GraphData used = without_unused(graph()); pick_.chance(85) && accepted(used)) graph() = std::move(used);
  }

  void geometry() {
    constexpr std::int64_t most_products = 200'000;  // an interval each
    Convolution c = *result_.conv;
    for (int tries = 0; tries < 200; ++tries) {
      draw_geometry(c, pick_);
      for (int more = 0; more < 64; ++more, c.widen()) {
        set_convolution(result_, c);
        if (divisible(result_)) break;
      }
      const Shape& s = result_.shape;
      const std::int64_t elements = s.batch * s.m * s.n;
      if (divisible(result_) && elements <= options_.most_elements && elements * s.k <= most_products) return;
      if (pick_.exhausted()) break;
    }
    c.filters = c.channels = 0;
    set_convolution(result_, c);
  }

  void shape() {
    if (result_.conv) return geometry();
    constexpr std::int64_t sizes[] = {1,  2,  3,  4,  5,  7,  8,  13, 15,  16,  17,  24,  31,
                                      32, 33, 47, 63, 64, 65, 96, 97, 127, 129, 256, 257, 511};
    constexpr std::int64_t depths[] = {1, 2, 3, 4, 7, 8, 16, 17, 31, 32, 33, 64, 65, 100};
    Shape& s = result_.shape;
    s.batch = is_batched(result_.problem) ? 1 + pick_.below(3) : 1;
    s.m = pick_.chance(3) ? 0 : pick_.pick(sizes);
    s.n = pick_.chance(3) ? 0 : pick_.pick(sizes);
    s.k = result_.problem.get_if<Stream>() ? 0 : pick_.chance(4) ? 0 : pick_.pick(depths);
    if (is_batched(result_.problem) && pick_.chance(3)) s.batch = 0;
    while (s.batch * s.m * s.n > options_.most_elements) (s.m > s.n ? s.m : s.n) /= 2;
    // Four blocks of 16 K elements and more (choose_blocks in src/cpu/schedule.cpp).
    if (options_.tall && result_.problem.get_if<Stream>() && pick_.chance(10)) {
      s.m = 40 + pick_.below(30);
      s.n = 1500 + pick_.below(2500);
    } else if (options_.tall && pick_.chance(4)) {  // several blocks of columns, whose groups begin behind the first
      s.m = 1 + pick_.below(4);
      s.n = 600 + pick_.below(2400);
    }
    for (std::int64_t tries = 0; tries < 200 && !divisible(result_); ++tries) ++s.n;
    if (!divisible(result_)) s.n = 0;
  }
};

}  // namespace

GraphData without_unused(const GraphData& graph) {
  std::vector<bool> used(graph.nodes.size(), false);
  for (const OutputDecl& o : graph.outputs) used[static_cast<std::size_t>(o.value)] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;)
    if (used[i])
      for (const NodeId a : graph.nodes[i].args) used[static_cast<std::size_t>(a)] = true;
  GraphData result;
  result.name = graph.name;
  std::vector<NodeId> moved(graph.nodes.size(), -1);
  std::vector<std::int32_t> operand(graph.operands.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!used[i]) continue;
    Node node = graph.nodes[i];
    for (NodeId& a : node.args) a = moved[static_cast<std::size_t>(a)];
    if (node.op == Op::operand) {
      std::int32_t& index = operand[static_cast<std::size_t>(node.index)];
      if (index < 0) {
        index = static_cast<std::int32_t>(result.operands.size());
        result.operands.push_back(graph.operands[static_cast<std::size_t>(node.index)]);
      }
      node.index = index;
    }
    moved[i] = static_cast<NodeId>(result.nodes.size());
    result.nodes.push_back(std::move(node));
  }
  result.outputs = graph.outputs;
  for (OutputDecl& o : result.outputs) o.value = moved[static_cast<std::size_t>(o.value)];
  return result;
}

Case generate(Choices& choices, const GrammarOptions& options) { return Generator(choices, options).run(); }

Case generate(std::uint64_t seed, const GrammarOptions& options) {
  Choices choices(mix(seed));
  Case c = generate(choices, options);
  c.seed = seed;
  return c;
}

}  // namespace postlude::fuzz
