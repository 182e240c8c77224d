#include "reference/elementwise.h"

#include "core/convert.h"
#include "core/philox.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace postlude::inline v0::reference {

namespace {

using Wide = __int128;

// ---- f32: the image of intervals ----------------------------------------------------------------

// The image of a function that is monotone in each argument, from the corners, not yet rounded. A
// corner where it is not defined makes the result unknown, or NaN where no corner is defined.
template <class F, class... Args>
Real image(F f, const Args&... args) {
  const double value = f(args.value...);
  if ((is_point(args) && ...)) return point(value);
  if ((is_nan(args) || ...)) return point(std::nan(""));
  if ((is_anything(args) || ...)) return anything(value);
  constexpr std::size_t count = sizeof...(Args);
  const Real* all[] = {&args...};
  double low = infinity, high = -infinity;
  std::size_t undefined = 0;
  for (std::size_t corner = 0; corner < (1u << count); ++corner) {
    std::size_t i = 0;
    const auto end = [&] {
      const Real& x = *all[i];
      return (corner >> i++ & 1) != 0 ? x.high : x.low;
    };
    double y;
    if constexpr (count == 1) y = f(end());
    else {
      const double a = end(), b = end();
      y = f(a, b);
    }
    if (std::isnan(y)) {
      ++undefined;
      continue;
    }
    low = lesser(low, y);
    high = greater(high, y);
  }
  if (undefined == (1u << count)) return point(std::nan(""));
  if (undefined != 0 || std::isnan(value)) return anything(value);
  return {value, lesser(low, value), greater(high, value)};
}

double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : lesser(a, b); }
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : greater(a, b); }

// Whether a denominator may be a zero of either sign, or pass through zero: then its reciprocal has
// no corners.
bool meets_pole(const Real& x) { return !is_point(x) && !is_nan(x) && std::signbit(x.low) && !std::signbit(x.high); }

Real times(const Real& a, const Real& b) {
  return image([](double x, double y) { return x * y; }, a, b);
}
Real sum(const Real& a, const Real& b) {
  return image([](double x, double y) { return x + y; }, a, b);
}
Real difference(const Real& a, const Real& b) {
  return image([](double x, double y) { return x - y; }, a, b);
}
Real quotient(const Real& a, const Real& b) {
  if (meets_pole(b)) return is_nan(a) ? a : anything(a.value / b.value);
  return image([](double x, double y) { return x / y; }, a, b);
}
Real negative(const Real& x) { return {-x.value, -x.high, -x.low}; }
Real magnitude(const Real& x) {
  if (is_nan(x) || is_anything(x)) return {std::abs(x.value), x.low, x.high};
  const double a = std::abs(x.low), b = std::abs(x.high);
  const bool through_zero = std::signbit(x.low) != std::signbit(x.high);
  return {std::abs(x.value), through_zero ? 0.0 : std::min(a, b), std::max(a, b)};
}

// sin and cos have the Lipschitz constant 1 and lie within [-1, 1].
Real wave(double (*f)(double), const Real& x) {
  const double value = f(x.value);
  if (is_point(x)) return point(value);
  if (is_anything(x) || std::isinf(x.low) || std::isinf(x.high)) return anything(value);
  const double error = std::max(x.high - x.value, x.value - x.low);
  const double a = f(x.low), b = f(x.high);  // they keep the sign of a zero, which value - 0.0 loses
  return {value, lesser(std::max(-1.0, value - error), lesser(a, b)),
          greater(std::min(1.0, value + error), greater(a, b))};
}

Real power(const Real& a, const Real& b) {
  const auto f = [](double x, double y) { return std::pow(x, y); };
  const double value = std::pow(a.value, b.value);
  if (is_point(a) && is_point(b)) return point(value);
  if (is_nan(a) || is_nan(b) || is_anything(a) || is_anything(b)) return anything(value);
  if (!std::signbit(a.low)) return image(f, a, b);
  if (!is_point(b) || b.value != std::floor(b.value) || std::isinf(b.value)) return anything(value);
  const bool even = std::fmod(b.value, 2) == 0;
  if (b.value < 0 && meets_pole(a)) return anything(value);
  return image(f, even ? magnitude(a) : a, b);
}

Real scaled(const Real& s, const Real& x, double ulps) {
  if (s.value == 0 && s.low == 0 && s.high == 0) return point(0.0);
  const Real full = rounded(times(s, x), ulps);
  const bool may_be_zero = is_anything(s) || (s.low <= 0 && s.high >= 0);
  if (!may_be_zero) return full;
  return hull(full, point(0.0), s.value == 0 ? 0.0 : full.value);
}

Real apply_real(Op op, std::span<const Cell> args) {
  const Real& x = args[0].real;
  const Real& y = args[args.size() > 1 ? 1 : 0].real;
  const double ulps = info(op).ulps;
  const auto monotone = [&](double (*f)(double)) { return rounded(image(f, x), ulps); };
  switch (op) {
    case Op::add: return rounded(sum(x, y), ulps);
    case Op::sub: return rounded(difference(x, y), ulps);
    case Op::mul: return rounded(times(x, y), ulps);
    case Op::div: return rounded(quotient(x, y), ulps);
    case Op::floordiv: return image([](double q) { return std::floor(q); }, rounded(quotient(x, y), ulps));
    case Op::neg: return negative(x);
    case Op::abs: return magnitude(x);
    case Op::min: return image(smaller, x, y);
    case Op::max: return image(larger, x, y);
    case Op::fma: {
      const double value = std::fma(x.value, y.value, args[2].real.value);
      Real exact = sum(times(x, y), args[2].real);
      if (!is_nan(exact)) exact.value = value;
      return rounded(exact, ulps);
    }
    case Op::exp: return monotone([](double v) { return std::exp(v); });
    case Op::exp2: return monotone([](double v) { return std::exp2(v); });
    case Op::expm1: return monotone([](double v) { return std::expm1(v); });
    case Op::log: return monotone([](double v) { return std::log(v); });
    case Op::log2: return monotone([](double v) { return std::log2(v); });
    case Op::log1p: return monotone([](double v) { return std::log1p(v); });
    case Op::tanh: return monotone([](double v) { return std::tanh(v); });
    case Op::erf: return monotone([](double v) { return std::erf(v); });
    case Op::sqrt: return monotone([](double v) { return std::sqrt(v); });
    case Op::rsqrt:
      if (meets_pole(x)) return anything(1 / std::sqrt(x.value));
      return monotone([](double v) { return 1 / std::sqrt(v); });
    case Op::reciprocal: return rounded(quotient(point(1.0), x), ulps);
    case Op::pow: return rounded(power(x, y), ulps);
    case Op::sin: return rounded(wave([](double v) { return std::sin(v); }, x), ulps);
    case Op::cos: return rounded(wave([](double v) { return std::cos(v); }, x), ulps);
    case Op::floor: return monotone([](double v) { return std::floor(v); });
    case Op::ceil: return monotone([](double v) { return std::ceil(v); });
    case Op::round: return monotone([](double v) { return std::nearbyint(v); });
    case Op::scaled: return scaled(x, y, ulps);
    default: throw Error(ErrorCode::internal, "the reference has no f32 form of " + std::string(info(op).id));
  }
}

// ---- integers: exact, wrapping ------------------------------------------------------------------

std::int64_t wrap(Wide x, DType type) {
  if (type == DType::i32) return static_cast<std::int32_t>(static_cast<std::uint32_t>(x));
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x));
}

// The result of an exact operation on `ends`; the whole range where an interval reaches beyond the
// type.
Whole wrapped(Wide value, std::initializer_list<Wide> ends, DType type) {
  const Wide low = std::min(ends), high = std::max(ends);
  const core::IntegerRange range = core::integer_range(type);
  if (low == high) return point(wrap(low, type));
  if (low < range.min || high > range.max) return anything(wrap(value, type), type);
  return {wrap(value, type), static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

Wide floor_quotient(Wide a, Wide b) {
  if (b == 0) return 0;
  const Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

template <class F>
Whole corners(F f, const Whole& a, const Whole& b, DType type) {
  return wrapped(f(a.value, b.value), {f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)}, type);
}

Whole apply_whole(Op op, std::span<const Cell> args, DType type) {
  const Whole& x = args[0].whole;
  const Whole& y = args[args.size() > 1 ? 1 : 0].whole;
  const auto multiply = [](Wide a, Wide b) { return a * b; };
  switch (op) {
    case Op::add: return corners([](Wide a, Wide b) { return a + b; }, x, y, type);
    case Op::sub: return corners([](Wide a, Wide b) { return a - b; }, x, y, type);
    case Op::mul: return corners(multiply, x, y, type);
    case Op::floordiv: {
      if (is_point(y) || y.low > 0 || y.high < 0) return corners(floor_quotient, x, y, type);
      const Wide most = std::max({Wide{x.low}, -Wide{x.low}, Wide{x.high}, -Wide{x.high}});  // |x / y| <= |x|
      return wrapped(floor_quotient(x.value, y.value), {-most, most}, type);
    }
    case Op::neg: return wrapped(-Wide{x.value}, {-Wide{x.low}, -Wide{x.high}}, type);
    case Op::abs: {
      const auto size = [](Wide a) { return a < 0 ? -a : a; };
      const Wide nearest = x.low < 0 && x.high > 0 ? Wide{0} : std::min(size(x.low), size(x.high));
      return wrapped(size(x.value), {nearest, size(x.low), size(x.high)}, type);
    }
    case Op::min: return {std::min(x.value, y.value), std::min(x.low, y.low), std::min(x.high, y.high)};
    case Op::max: return {std::max(x.value, y.value), std::max(x.low, y.low), std::max(x.high, y.high)};
    case Op::fma: {
      const Whole& z = args[2].whole;
      const Wide ends[] = {multiply(x.low, y.low), multiply(x.low, y.high), multiply(x.high, y.low),
                           multiply(x.high, y.high)};
      const auto [low, high] = std::minmax_element(ends, ends + 4);
      return wrapped(multiply(x.value, y.value) + z.value, {*low + z.low, *high + z.high}, type);
    }
    case Op::floor:
    case Op::ceil:
    case Op::round: return x;
    case Op::bit_not:
      if (type == DType::boolean) return {1 - x.value, 1 - x.high, 1 - x.low};
      return {~x.value, ~x.high, ~x.low};
    case Op::bit_and:
    case Op::bit_or: {
      const auto f = [&](std::int64_t a, std::int64_t b) { return op == Op::bit_and ? a & b : a | b; };
      const bool known = is_point(x) && is_point(y);
      if (known || type == DType::boolean) return {f(x.value, y.value), f(x.low, y.low), f(x.high, y.high)};
      return anything(f(x.value, y.value), type);
    }
    default: throw Error(ErrorCode::internal, "the reference has no integer form of " + std::string(info(op).id));
  }
}

// ---- comparisons --------------------------------------------------------------------------------

template <class Interval>
Whole decided(bool value, bool surely, bool surely_not, const Interval&) {
  return {value, surely ? 1 : 0, surely_not ? 0 : 1};
}

template <class Interval>
Whole compare(Op op, const Interval& a, const Interval& b) {
  switch (op) {
    case Op::lt: return decided(a.value < b.value, a.high < b.low, a.low >= b.high, a);
    case Op::le: return decided(a.value <= b.value, a.high <= b.low, a.low > b.high, a);
    case Op::gt: return compare(Op::lt, b, a);
    case Op::ge: return compare(Op::le, b, a);
    case Op::eq:
      return decided(a.value == b.value, a.low == a.high && b.low == b.high && a.low == b.low,
                     a.high < b.low || b.high < a.low, a);
    default: {
      const Whole equal = compare(Op::eq, a, b);
      return {1 - equal.value, 1 - equal.high, 1 - equal.low};
    }
  }
}

Whole compare_reals(Op op, const Real& a, const Real& b) {
  if (is_nan(a) || is_nan(b)) return point(std::int64_t{op == Op::ne});
  const Whole result = compare(op, a, b);
  if (is_anything(a) || is_anything(b)) return {result.value, 0, 1};  // it may be NaN, which no interval shows
  return result;
}

template <class Interval>
Interval choose(const Whole& condition, const Interval& a, const Interval& b) {
  if (is_point(condition)) return condition.value != 0 ? a : b;
  return hull(a, b, condition.value != 0 ? a.value : b.value);
}

Whole to_boolean(const Real& x) {
  if (is_nan(x)) return point(std::int64_t{1});
  if (is_anything(x)) return {x.value != 0, 0, 1};
  const bool zero = x.low == 0 && x.high == 0, never = x.low > 0 || x.high < 0;
  return {x.value != 0, never, zero ? 0 : 1};
}

Real to_real(const Whole& x) {
  const auto f = [](std::int64_t v) { return static_cast<double>(static_cast<float>(v)); };
  return {f(x.value), f(x.low), f(x.high)};
}

}  // namespace

Real add(const Real& a, const Real& b) { return rounded(sum(a, b), 0.5); }
Real multiply(const Real& a, const Real& b) { return rounded(times(a, b), 0.5); }
Real divide(const Real& a, const Real& b) { return rounded(quotient(a, b), 0.5); }
Real square_root(const Real& x) {
  return rounded(image([](double v) { return std::sqrt(v); }, x), 0.5);
}

Cell convert(const Cell& x, DType from, DType to) {
  if (from == to) return x;
  if (to == DType::f32) return cell(to_real(x.whole));
  return cast(x, from, to);
}

Cell cast(const Cell& x, DType from, DType dtype, Round round, double u) {
  if (from != DType::f32) {
    if (is_float(dtype)) return cast(cell(to_real(x.whole)), DType::f32, dtype, round, u);
    if (dtype == DType::boolean) {
      const bool zero = x.whole.low == 0 && x.whole.high == 0, never = x.whole.low > 0 || x.whole.high < 0;
      return cell(Whole{x.whole.value != 0, never, zero ? 0 : 1});
    }
    const auto f = [&](std::int64_t v) { return core::to_integer(dtype, v); };
    return cell(Whole{f(x.whole.value), f(x.whole.low), f(x.whole.high)});
  }
  const Real& r = x.real;
  if (is_float(dtype)) {  // every mode is monotone, stochastic for the u of this element
    if (is_nan(r)) return x;
    const auto f = [&](double v) { return core::round_to(dtype, v, round, u); };
    if (is_anything(r)) return cell(anything(f(r.value)));
    return cell(Real{f(r.value), f(r.low), f(r.high)});
  }
  if (dtype == DType::boolean) return cell(to_boolean(r));
  const auto f = [&](double v) { return core::to_integer(dtype, v, round, u); };
  if (is_nan(r)) return cell(point(std::int64_t{0}));
  return cell(Whole{f(r.value), f(r.low), f(r.high)});  // what may be anything reaches both ends, and 0 is between
}

Cell constant(const Literal& literal, DType type) {
  if (type == DType::f32) {
    if (literal.type == DType::f32) return cell(point(core::round_to(DType::f32, literal.real)));
    return cell(to_real(point(literal.integer)));
  }
  return cell(point(literal.integer));
}

Cell apply(const Operation& operation, std::span<const Cell> args, const Place& place) {
  const Node& node = *operation.node;
  switch (info(node.op).rule) {
    case TypeRule::compare:
      if (operation.argument == DType::f32) return cell(compare_reals(node.op, args[0].real, args[1].real));
      return cell(compare(node.op, args[0].whole, args[1].whole));
    case TypeRule::select:
      if (operation.result == DType::f32) return cell(choose(args[0].whole, args[1].real, args[2].real));
      return cell(choose(args[0].whole, args[1].whole, args[2].whole));
    case TypeRule::cast: {
      if (node.dtype == operation.argument) return args[0];  // not rounded: it may go into an fma
      const double u =
          node.round == Round::stochastic ? core::random_uniform(node.seed, 0, place.b, place.m, place.n) : 0;
      return cast(args[0], operation.argument, node.dtype, node.round, u);
    }
    default:
      if (operation.result == DType::f32) return cell(apply_real(node.op, args));
      return cell(apply_whole(node.op, args, operation.result));
  }
}

Cell apply_native(const NativeFunction& function, std::span<const Cell> args) {
  std::vector<double> x(args.size());
  const auto at = [&](double t) {  // from all lows (t = 0) over all values (t = 1) to all highs (t = 2)
    for (std::size_t i = 0; i < args.size(); ++i) {
      const Real& r = args[i].real;
      x[i] = t < 1 ? r.low + t * (r.value - r.low) : r.value + (t - 1) * (r.high - r.value);
      if (t == 1 || is_nan(r)) x[i] = r.value;
    }
    return function.reference(x.data(), x.data() + function.arity);
  };
  const double value = at(1);
  bool known = true;
  for (const Cell& a : args) {
    known = known && is_point(a.real);
    if (is_anything(a.real)) return cell(anything(value));
  }
  Real result = point(value);
  // Nothing is known of the function's slopes, so its image is sampled at the corners and on the
  // way between them. Values between the samples are taken to reach as far again.
  if (!known && !std::isnan(value)) {
    const auto include = [&](double y) {
      if (std::isnan(y)) {
        result = anything(value);
        return;
      }
      result.low = lesser(result.low, y);
      result.high = greater(result.high, y);
    };
    for (const double t : {0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 2.0}) include(at(t));
    for (std::size_t corner = 0; corner < (std::size_t{1} << std::min<std::size_t>(args.size(), 6)); ++corner) {
      for (std::size_t i = 0; i < args.size(); ++i)
        x[i] = (corner >> std::min<std::size_t>(i, 5) & 1) != 0 ? args[i].real.high : args[i].real.low;
      include(function.reference(x.data(), x.data() + function.arity));
    }
    if (!is_anything(result)) result = {value, 2 * result.low - value, 2 * result.high - value};
  }
  const Real r = rounded(result, std::max(function.ulps, 0.5));
  return cell(is_nan(r) ? r : widened(r, function.absolute_error));
}

}  // namespace postlude::inline v0::reference
