// Calls drawn from a grammar. The file is longer than most because all calls draw from, and change, one set of objects.
#include "fuzz/calls.h"

#include "core/convert.h"
#include "fuzz/convolution.h"
#include "fuzz/grammar.h"
#include "fuzz/inputs.h"
#include "plan/backend.h"

#include <postlude/function.h>
#include <postlude/parse.h>
#include <postlude/plan.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <stdexcept>

namespace postlude::fuzz {

struct Planned {
  Plan plan;
  std::optional<Convolution> conv;  // in front of it
};

// The newest few of each, so that sequences meet what others made.
class Shared {
 public:
  template <class T>
  void add(std::deque<T>& pool, T item) {
    const std::lock_guard lock(mutex_);
    pool.push_back(std::move(item));
    if (pool.size() > 24) pool.pop_front();
  }
  template <class T>
  T pick(const std::deque<T>& pool, Choices& choices) {
    const std::lock_guard lock(mutex_);
    return pool.empty() ? T() : pool[static_cast<std::size_t>(choices.below(static_cast<std::int64_t>(pool.size())))];
  }
  std::deque<Graph> graphs;
  std::deque<Planned> plans;
  const std::vector<std::string> corpus = texts();

 private:
  std::mutex mutex_;
};

std::shared_ptr<Shared> make_shared_pool() { return std::make_shared<Shared>(); }

namespace {

constexpr std::int64_t most_elements = 1 << 20;  // of a tensor that is bound

constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

// What a user's own function throws.
struct Thrown : std::exception {};

// A tensor's memory, exactly as long as its elements take: sanitizers see what is read beyond.
struct Memory {
  std::vector<std::uint8_t> bytes;
  bool output = false;
};

// What Plan::bind is given.
struct Arguments {
  std::deque<std::string> names;
  std::deque<Memory> memory;
  std::vector<Binding> bindings;
  bool as_asked = true;  // nothing was changed since slots() and shape_of() said what to bind
  bool aliased = false;  // an output lies in another tensor
};

// Whether the machine refuses, not a rule: a workspace beyond its memory, a device that is missing.
bool is_of_the_machine(const Error& error) { return static_cast<int>(error.code()) / 100 == 5; }

// Whether all elements of a tensor lie in the memory.
bool fits(const Tensor& t, const Memory& memory) {
  if (t.by_value) return true;
  if (t.rank < 0 || t.rank > Tensor::max_rank || static_cast<int>(t.dtype) >= dtype_count) return false;
  __int128 low = 0, high = size_of(t.dtype);
  for (int axis = 0; axis < t.rank; ++axis) {
    if (t.shape[axis] <= 0) return t.shape[axis] == 0;
    const __int128 reach = static_cast<__int128>(t.shape[axis] - 1) * t.strides[axis] * size_of(t.dtype);
    (reach < 0 ? low : high) += reach;
  }
  if (t.data == nullptr) return false;
  const __int128 first = static_cast<__int128>(reinterpret_cast<std::uintptr_t>(t.data)) -
                         static_cast<__int128>(reinterpret_cast<std::uintptr_t>(memory.bytes.data()));
  return first + low >= 0 && first + high <= static_cast<__int128>(memory.bytes.size());
}

using Unary = Value (*)(const Value&);
using Binary = Value (*)(const Value&, const Value&);
using Reduction = Value (*)(const Value&, Axes, ReduceOptions);

constexpr Unary unaries[] = {operator-, operator~, abs,   exp,  exp2,  expm1,      log,  log2,
                             log1p,     tanh,      erf,   sqrt, rsqrt, reciprocal, sin,  cos,
                             floor,     ceil,      round, relu, gelu,  gelu_erf,   silu, sigmoid};
constexpr Binary binaries[] = {operator+, operator-,  operator*, operator/,  operator==, operator!=,
                                                                                         operator<, operator<=, operator>, operator>=, operator&,  operator|,
                               floordiv,  min,        max,       pow,        scaled};
constexpr Reduction reductions[] = {sum, mean, max, min, prod, any, all, argmax, argmin, logsumexp, var, norm};

class Sequence {
 public:
  Sequence(std::uint64_t seed, Shared& shared) : choices_(mix(seed)), shared_(shared) {}

  std::string run() {
    for (std::int64_t step = 8 + choices_.below(24); step > 0 && wrong_.empty(); --step) {
      try {
        one();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) wrong(error.what());
        if (to_string(error.code()).size() != 6 || error.message().empty()) wrong("an Error that says nothing");
      } catch (const Thrown&) {
      } catch (const std::exception& error) {
        wrong(std::string("an exception that is no Error: ") + error.what());
      } catch (...) { wrong("an exception that is nothing known"); }
    }
    return wrong_;
  }

 private:
  void wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what + " (in " + doing_ + ")";
  }
  std::int64_t below(std::int64_t count) { return choices_.below(count); }
  bool rarely() { return choices_.chance(4); }

  void one() {
    switch (below(16)) {
      case 0: return build();
      case 1: return read_text();
      case 2: return define_text();
      case 3: return define_native();
      case 4: return make_graph();
      case 5:
      case 6:
      case 7: return compile_plan();
      case 8: return explain();
      case 9: return ask();
      case 10: return pack_b();
      case 11: return call_again();
      default: return bind();
    }
  }

  // --- Graphs

  Value literal() {
    switch (below(10)) {
      case 0: return Value(std::nan(""));
      case 1: return Value(HUGE_VAL);
      case 2: return Value(smallest);
      case 3: return Value(true);
      case 4: return Value(1e300);
      case 5: return Value();
      case 6: return Value(std::numeric_limits<std::uint64_t>::max());
      default: return Value(static_cast<double>(below(9) - 4));
    }
  }
  Value value() {
    if (values_.empty() || choices_.chance(20)) return literal();
    return choices_.pick(values_);
  }
  std::int64_t number() {
    constexpr std::int64_t odd[] = {-1, 0, 5, 1000, INT_MAX, INT_MIN, largest, smallest};
    return choices_.chance(85) ? 1 + below(8) : choices_.pick(odd);
  }
  Axes axes() {
    constexpr Axes usual[] = {tile_axes, row_axes, col_axes, scalar_axes};
    Axes result = choices_.pick(usual);
    if (rarely()) result.bits = static_cast<std::uint8_t>(below(256));
    return result;
  }
  DType dtype() { return static_cast<DType>(rarely() ? below(256) : below(dtype_count)); }
  std::optional<DType> maybe_dtype() { return choices_.chance(60) ? std::nullopt : std::optional(dtype()); }
  std::string any_name() {
    static const std::string odd[] = {"",         "acc",    std::string("a\0b", 3), "'quoted'", "A", "\xff\xfe", "D",
                                      "*/ #if 0", "lambda", std::string(5000, 'x')};
    if (choices_.chance(10)) return choices_.pick(odd);
    return std::string(1, static_cast<char>('p' + below(6)));
  }

  // Values of earlier builders stay among the values: they are foreign then.
  void build() {
    doing_ = "build";
    GraphBuilder g(any_name());
    GraphBuilder copy = g;
    if (choices_.chance(50)) values_.clear();
    values_.push_back(g.accumulator());
    for (std::int64_t step = 2 + below(14); step > 0; --step) {
      try {
        append(rarely() ? copy : g);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) throw;
      }
    }
    // What a sequence made last; an output that is refused leaves the others.
    for (std::int64_t outputs = 1 + below(3); outputs > 0; --outputs) {
      try {
        g.output(any_name(), value(), maybe_dtype(), rarely() ? std::optional(axes()) : std::nullopt);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) throw;
      }
    }
    const Graph graph = g.finish();
    (void)graph.operands();
    (void)graph.outputs();
    if (const std::string found = check_text(graph.print()); !found.empty()) wrong(found);
    shared_.add(shared_.graphs, graph);
    if (rarely()) (void)copy.finish();
    if (rarely()) g.output("late", value());
  }

  void append(GraphBuilder& g) {
    switch (below(15)) {
      case 0: values_.push_back(g.operand(any_name(), axes(), maybe_dtype())); break;
      case 1: {
        const Value indices[] = {g.m_index(), g.n_index(), g.batch_index(), g.random(choices_.next(), 3)};
        values_.push_back(choices_.pick(indices));
        break;
      }
      case 2: values_.push_back(g.constant(value())); break;
      case 3:
        values_.push_back(
            cast(value(), dtype(), static_cast<Round>(rarely() ? below(256) : below(5)), choices_.next()));
        break;
      case 4: values_.push_back(where(value(), value(), value())); break;
      case 5:
        values_.push_back(choices_.chance(50) ? fma(value(), value(), value()) : clamp(value(), 0.0, value()));
        break;
      case 6: {
        const auto k = static_cast<int>(std::clamp<std::int64_t>(number(), INT_MIN, 64));
        for (const Value& part : chunk(value(), k, choices_.chance(70) ? 0 : number())) values_.push_back(part);
        break;
      }
      case 7: {
        std::vector<Value> parts;
        for (std::int64_t i = below(4); i > 0; --i) parts.push_back(value());
        values_.push_back(concat(parts, choices_.chance(70) ? 0 : number()));
        break;
      }
      case 8:
        values_.push_back(repeat(value(), number(), static_cast<Axis>(rarely() ? below(256) : 1 << below(3))));
        break;
      case 9:
      case 10:
        values_.push_back(choices_.pick(reductions)(
            value(), axes(), {.group = choices_.chance(70) ? 0 : number(), .batch = choices_.chance(10)}));
        break;
      case 11: general_reduction(g); break;
      case 12: {
        constexpr const char* names[] = {"relu", "fuzz_0", "fuzz_1", "fuzz_native_0", "fuzz_native_1", "nobody's", ""};
        std::vector<Value> arguments;
        for (std::int64_t i = below(4); i > 0; --i) arguments.push_back(value());
        values_.push_back(call(choices_.pick(names), arguments));
        break;
      }
      case 13: values_.push_back(choices_.pick(binaries)(value(), value())); break;
      default: values_.push_back(choices_.pick(unaries)(value()));
    }
    if (rarely()) g.name(value(), any_name());
    if (rarely()) g.at({any_name(), {static_cast<int>(below(9) - 2), static_cast<int>(below(99) - 9), 1}, any_name()});
  }

  void general_reduction(GraphBuilder& g) {
    std::vector<Value> over;
    for (std::int64_t i = rarely() ? 0 : 1 + below(2); i > 0; --i) over.push_back(value());
    const std::vector<double> identity(rarely() ? static_cast<std::size_t>(below(4)) : over.size(), 0);
    const std::int64_t mistake = below(20);
    const Combine combine = [&](std::span<const Value> a, std::span<const Value> b) {
      if (mistake == 0) throw Thrown();
      if (mistake == 1) return std::vector<Value>{};
      if (mistake == 2) return std::vector<Value>{value()};
      if (mistake == 3) (void)g.finish();
      std::vector<Value> result;
      for (std::size_t i = 0; i < a.size(); ++i) result.push_back(mistake == 4 ? sum(a[i]) : a[i] + b[i]);
      return result;
    };
    for (const Value& part : reduce(over, mistake == 5 ? Combine() : combine, identity, axes()))
      values_.push_back(part);
  }

  void read_text() {
    doing_ = "parse";
    const std::string text =
        choices_.chance(30) ? mutated_text(choices_, shared_.corpus) : choices_.pick(shared_.corpus);
    const std::vector<std::string> names = epilogue_names(text);
    const std::string name = names.empty() || rarely() ? any_name() : choices_.chance(50) ? "" : choices_.pick(names);
    shared_.add(shared_.graphs, parse(text, name, any_name()));
    if (rarely()) (void)parse_file("/" + any_name());
  }

  void make_graph() {
    doing_ = "graph";
    const Case c = generate(choices_, {.most_nodes = 24, .most_elements = 512});
    shared_.add(shared_.graphs, Graph(std::make_shared<const GraphData>(c.graph)));
  }

  void define_text() {
    doing_ = "define a text";
    constexpr const char* defs[] = {"def fuzz_0(x): return max(x, 0) ** 2",
                                    "def fuzz_1(x, y=2.0): return x / y",
                                    "def fuzz_0(x): return x",
                                    "def relu(x): return x",
                                    "def fuzz_2(x): return fuzz_2(x)",
                                    "fuzz",
                                    "def fuzz_3(x): return sum(x, axis=1)",
                                    "def fuzz_4(): return 1",
                                    ""};
    define(choices_.pick(defs));
    if (functions().size() < 10) wrong("functions() lacks the prelude");
  }

  // (x0 + x1 + ...) / 2, which float code and its reference have alike; one argument in a hundred makes it throw.
  void define_native() {
    doing_ = "define a native function";
    constexpr int arities[] = {1, 1, 1, 2, 3, 0, -1, 1000000000};
    constexpr const char* derivatives[] = {"0.5", "0.5", "x", "nobody", "sum(x)", "1 -"};
    NativeFunction f;
    f.name = "fuzz_native_" + std::to_string(below(3));
    if (rarely()) f.name = any_name();
    f.arity = choices_.pick(arities);
    const int arity = f.arity;
    const bool throws = rarely();
    f.reference = [arity](const double* x, const double*) {
      double all = 0;
      for (int i = 0; i < arity; ++i) all += x[i];
      return all / 2;
    };
    if (choices_.chance(60)) {
      f.strip = [arity, throws](const float* const* x, const float*, float* out, std::int64_t n) {
        if (throws) throw Thrown();
        for (std::int64_t i = 0; i < n; ++i) {
          double all = 0;
          for (int j = 0; j < arity; ++j) all += static_cast<double>(x[j][i]);
          out[i] = static_cast<float>(all / 2);
        }
      };
    }
    if (rarely()) f.reference = nullptr;
    if (rarely()) f.parameters = {{any_name(), 0.5}, {any_name(), {}}};
    if (rarely()) f.guard = "p == 0";
    if (rarely()) f.ulps = choices_.chance(50) ? -1 : std::nan("");
    if (choices_.chance(20)) f.derivatives.assign(static_cast<std::size_t>(below(3)), choices_.pick(derivatives));
    define(f, choices_.chance(50));
  }

  // --- Plans

  // Some of it no convolution.
  Convolution convolution(DType first, DType second) {
    Convolution c;
    c.direction = static_cast<Convolution::Direction>(below(3));
    c.first = first, c.second = second;
    draw_geometry(c, choices_);
    Convolution::Along& along = choices_.pick(c.axes);
    std::int32_t* const fields[] = {&along.image,  &along.taps,  &along.stride,
                                    &along.before, &along.after, &along.dilation};
    if (rarely()) *choices_.pick(fields) = static_cast<std::int32_t>(std::clamp<std::int64_t>(number(), -1, 1 << 30));
    if (rarely()) c.groups = std::clamp<std::int64_t>(number(), -1, INT_MAX);
    return c;
  }

  Problem problem(std::optional<Convolution>& conv) {
    constexpr DType usual[] = {f32, f32, bf16, f16, s8};
    const auto one = [&] { return rarely() ? dtype() : choices_.pick(usual); };
    const DType a = one();
    if (choices_.chance(20)) {
      conv = convolution(a, choices_.chance(90) ? a : one());
      return conv->problem();
    }
    const bool batched = choices_.chance(20);
    if (choices_.chance(30)) return Stream{.x = a, .batched = batched};
    const auto layout = [&] { return static_cast<Layout>(rarely() ? below(256) : below(3)); };
    return Gemm{
        .a = a, .b = choices_.chance(90) ? a : one(), .a_layout = layout(), .b_layout = layout(), .batched = batched};
  }

  Target target() {
    constexpr const char* named[] = {"cpu",  "cpu",    "portable", "avx2", "avx512", "amx",     "sm_90a", "best",
                                     "cuda", "cuda:7", "sm_",      "sm_1", "",       "cuda:-1", "avx3"};
    Target result =
        choices_.chance(50) ? Target::cpu(1 + static_cast<int>(below(3))) : Target::parse(choices_.pick(named));
    if (rarely()) result.threads = static_cast<int>(number());
    if (rarely()) result.device = static_cast<Device>(below(256));
    if (rarely()) result.device_index = static_cast<int>(number());
    if (rarely()) result.isa = any_name();
    if (rarely()) result.schedule = choices_.chance(50) ? "pingpong 128x64x3 sub 64x2 aux 0 raster 2" : any_name();
    return result;
  }

  void compile_plan() {
    doing_ = "compile";
    const Graph graph = shared_.pick(shared_.graphs, choices_);
    std::optional<Convolution> conv;
    const Problem p = problem(conv);
    const Target t = target();
    CompileOptions options;
    for (std::int64_t i = choices_.chance(80) ? 0 : below(3); i > 0; --i)
      options.dtypes.emplace_back(any_name(), dtype());
    const bool supported = static_cast<bool>(supports(p, graph, t, options));
    bool compiled = true;
    std::string why = "compiles";
    try {
      shared_.add(shared_.plans, {compile(p, graph, t, options), conv});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      compiled = false;
      why = error.what();
    }
    if (supported != compiled) wrong("supports() says " + std::string(supported ? "yes" : "no") + ", but: " + why);
  }

  void explain() {
    doing_ = "explain";
    const Plan plan = shared_.pick(shared_.plans, choices_).plan;
    const auto part = static_cast<ExplainPart>(rarely() ? below(256) : below(6));
    if (plan.explain(part, size(), size(), size()).size() > (64u << 20)) wrong("an explanation without end");
  }

  void ask() {
    doing_ = "ask";
    switch (below(8)) {
      case 0: (void)Plan().slots(); break;
      case 1: (void)Graph().print(); break;
      case 2: Call().run(); break;
      case 3: (void)Call().describe(); break;
      case 4: (void)Target::parse(any_name()); break;
      case 5: (void)parse_dtype(any_name()); break;
      case 6: {
        const std::int64_t shape[] = {number(), number(), number(), number(), number()};
        (void)Tensor(nullptr, dtype(), std::span(shape, static_cast<std::size_t>(below(6)))).elements();
        break;
      }
      default: {
        const Plan plan = shared_.pick(shared_.plans, choices_).plan;
        (void)plan.shape_of(any_name(), number(), number(), number());
        (void)plan.graph().name();
      }
    }
  }

  std::int64_t size() {
    constexpr std::int64_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 17, 31, 32, 33, 64};
    return rarely() ? below(2) * number() : choices_.pick(sizes);
  }

  // Tensors as a plan asks for them, filled with small integers, but for those that are too large.
  Arguments bindings_for(const Planned& planned) {
    const Plan& plan = planned.plan;
    Arguments bound;
    Shape at{1 + below(3), std::clamp<std::int64_t>(size(), 0, 64), 8 * std::clamp<std::int64_t>(size(), 0, 8),
             std::clamp<std::int64_t>(size(), 0, 64)};
    std::vector<std::vector<std::int64_t>> images;
    if (planned.conv && planned.conv->possible()) at = planned.conv->shape(), images = planned.conv->inputs();
    std::size_t next = 0;
    for (const Plan::Slot& slot : plan.slots()) {
      const std::size_t number = next++;
      std::vector<std::int64_t> shape = plan.shape_of(slot.name, at.m, at.n, at.k);
      if (number < images.size()) shape = images[number];
      else if (slot.batched && (slot.output || choices_.chance(70))) shape.insert(shape.begin(), at.batch);
      std::int64_t elements = 1;
      bool large = false;  // a repeat may ask for terabytes
      for (const std::int64_t extent : shape)
        large = large || __builtin_mul_overflow(elements, extent, &elements) || elements > most_elements;
      if (large) {
        bound.as_asked = false;
        continue;
      }
      Memory& memory = bound.memory.emplace_back();
      memory.output = slot.output;
      memory.bytes.resize(static_cast<std::size_t>(elements * size_of(slot.dtype)));
      const bool is_signed = slot.dtype != u8 && slot.dtype != boolean;
      for (std::int64_t i = 0; i < elements && !slot.output; ++i) {
        const std::int64_t x = below(slot.dtype == boolean ? 2 : 5) - (is_signed ? 2 : 0);
        if (is_float(slot.dtype)) core::store_real(slot.dtype, memory.bytes.data(), i, static_cast<double>(x));
        else core::store_integer(slot.dtype, memory.bytes.data(), i, x);
      }
      static std::uint8_t nothing[8];  // the address of an empty tensor
      const void* const data = elements == 0 ? nothing : memory.bytes.data();
      bound.bindings.push_back({bound.names.emplace_back(slot.name), Tensor(data, slot.dtype, shape)});
      Tensor& t = bound.bindings.back().tensor;
      if (number < images.size() && choices_.chance(50)) {  // channels last
        t.strides[0] = elements / std::max<std::int64_t>(shape[0], 1);
        std::int64_t step = shape[1];
        for (int axis = t.rank; axis-- > 2; step *= shape[static_cast<std::size_t>(axis)]) t.strides[axis] = step;
        t.strides[1] = 1;
      }
    }
    return bound;
  }

  void change(Arguments& bound) {
    if (bound.bindings.empty()) return;
    bound.as_asked = false;
    const auto at = static_cast<std::size_t>(below(static_cast<std::int64_t>(bound.bindings.size())));
    Tensor& t = bound.bindings[at].tensor;
    const auto axis = static_cast<std::size_t>(below(4));
    switch (below(16)) {
      case 0: bound.bindings.erase(bound.bindings.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: bound.bindings.push_back(bound.bindings[at]); break;
      case 2: bound.bindings.push_back({bound.names.emplace_back(any_name()), t}); break;
      case 3: t.dtype = dtype(); break;
      case 4: t.rank = static_cast<int>(number()); break;
      case 5: t.rank = static_cast<int>(below(7)) - 1; break;
      case 6: t.shape[axis] = number(); break;
      case 7: t.strides[axis] = number(); break;
      case 8: t.strides[axis] = -t.strides[axis]; break;
      case 9: std::swap(t.strides[0], t.strides[1]); break;
      case 10: t.data = rarely() ? nullptr : static_cast<std::uint8_t*>(t.data) + below(9); break;
      case 11: t.device = static_cast<Device>(below(3)); break;
      case 12: t = Tensor::scalar(static_cast<double>(below(9)), dtype()); break;
      case 13: {  // in place, as likely as not of another shape
        const Tensor& other = choices_.pick(bound.bindings).tensor;
        t.data = other.data;
        if (choices_.chance(30)) t = other;
        bound.aliased = true;
        break;
      }
      case 14: std::swap(t, choices_.pick(bound.bindings).tensor); break;
      default: t.device_index = static_cast<int>(number());
    }
  }

  static bool all_fit(const Arguments& bound) {
    return std::all_of(bound.bindings.begin(), bound.bindings.end(), [&](const Binding& b) {
      return b.tensor.by_value || b.tensor.elements() == 0 ||
             std::any_of(bound.memory.begin(), bound.memory.end(),
                         [&](const Memory& memory) { return fits(b.tensor, memory); });
    });
  }

  void bind() {
    doing_ = "bind";
    const Planned planned = shared_.pick(shared_.plans, choices_);
    const Plan& plan = planned.plan;
    Arguments bound = bindings_for(planned);
    for (std::int64_t changes = choices_.chance(50) ? 0 : 1 + below(2); changes > 0; --changes) change(bound);
    std::string refusal;
    try {
      plan.check(bound.bindings);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      refusal = error.what();
    }
    Call call;
    try {
      call = plan.bind(bound.bindings);
    } catch (const Error& error) {
      if (refusal.empty() && !is_of_the_machine(error))
        wrong(std::string("check() has nothing against it, but bind(): ") + error.what());
      throw;
    }
    if (!refusal.empty()) return wrong("bind() takes what check() refuses: " + refusal);
    (void)call.describe();
    (void)call.workspace_bytes();
    if (plan.target().device != Device::cpu || !all_fit(bound)) return;
    doing_ = "run";
    const auto outputs = [&] {
      std::vector<std::vector<std::uint8_t>> bytes;
      for (const Memory& memory : bound.memory)
        if (memory.output) bytes.push_back(memory.bytes);
      return bytes;
    };
    call.run();
    if (bound.aliased) return keep(std::move(bound), call);
    const auto first = outputs();
    call();
    if (first != outputs()) return wrong("a second run has other bits\n" + plan.graph().print());
    // A mutated combiner need not be associative, as reduce() demands: its value depends on the order.
    const std::vector<Node>& nodes = plan.graph().data().nodes;
    if (std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.combine != nullptr; }))
      return keep(std::move(bound), call);
    doing_ = "verify";
    for (const Comparison& c : verify(plan, bound.bindings)) {
      if (!(c.error_over_bound <= 1))
        return wrong("output " + c.output + " is " + std::to_string(c.value) + " for " + std::to_string(c.expected) +
                     ", error / bound " + std::to_string(c.error_over_bound) + "\n" + plan.graph().print());
    }
    keep(std::move(bound), call);
  }

  void keep(Arguments bound, const Call& call) {
    calls_.emplace_back(std::move(bound), call);
    if (calls_.size() > 4) calls_.pop_front();
  }

  // Calls outlive what else is let go, and copies of them are the same call.
  void call_again() {
    doing_ = "run again";
    if (calls_.empty()) return;
    auto& [bound, call] = choices_.pick(calls_);
    if (rarely()) call = Call(call);
    call.run(choices_.chance(50) ? nullptr : this);
  }

  // What was packed for a plan is bound by it in B's place, where B would be.
  void pack_b() {
    doing_ = "pack";
    const Planned planned = shared_.pick(shared_.plans, choices_);
    const Plan& plan = planned.plan;
    Arguments bound = bindings_for(planned);
    if (bound.bindings.size() < 2) return;
    if (choices_.chance(20)) change(bound);
    if (bound.bindings.size() < 2 || !all_fit(bound)) return;
    plan.check(bound.bindings);
    const PackedOperand packed = pack(plan, bound.bindings[1].tensor);
    const bool to_another = rarely();
    if (rarely()) bound.as_asked = false;
    else bound.bindings.erase(bound.bindings.begin() + 1);
    Call call;
    try {
      call = (to_another ? shared_.pick(shared_.plans, choices_).plan : plan).bind(bound.bindings, packed);
    } catch (const Error& error) {
      if (bound.as_asked && !to_another && !is_of_the_machine(error))
        wrong(std::string("what was packed is not taken: ") + error.what());
      throw;
    }
    if (plan.target().device != Device::cpu) return;
    call.run();
    keep(std::move(bound), call);
  }

  Choices choices_;
  Shared& shared_;
  std::string wrong_;
  std::string doing_;
  std::vector<Value> values_;
  std::deque<std::pair<Arguments, Call>> calls_;
};

}  // namespace

std::string check_calls(std::uint64_t seed, Shared& shared) { return Sequence(seed, shared).run(); }

}  // namespace postlude::fuzz
