#include "reference/reduce.h"

#include "core/convert.h"
#include "reference/product.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <type_traits>

namespace postlude::inline v0::reference {

namespace {

double reach(const Real& x) { return std::max(std::abs(x.low), std::abs(x.high)); }

// `alike` of accumulation_error(), for the terms of a sum. Terms that are multiples of the unit of
// the whole sum have no bits that are rounded away. For 16 terms and less the worst case is the
// bound.
double alike(std::vector<float> terms) {
  const auto n = static_cast<double>(terms.size());
  double magnitude = 0, result = 0;
  for (const float x : terms) magnitude += std::abs(static_cast<double>(x));
  if (n <= 16 || !std::isfinite(magnitude)) return n;
  const double unit = ulp(magnitude);
  std::sort(terms.begin(), terms.end());
  for (auto first = terms.begin(); first != terms.end();) {
    const auto last = std::upper_bound(first, terms.end(), *first);
    const auto times = static_cast<double>(last - first);
    result += std::fmod(*first, unit) == 0 ? times : times * times;
    first = last;
  }
  return result;
}
std::vector<float> values(std::span<const Cell> x) {
  std::vector<float> result;
  for (const Cell& c : x) result.push_back(static_cast<float>(c.real.value));
  return result;
}

// The relative error of a sum that is carried along with a running maximum or mean: a few roundings
// a term, and as many again for rescaling the sum so far.
double running_error(const std::vector<float>& terms) {
  const auto n = static_cast<double>(terms.size());
  return unit_roundoff * (8 + 2 * std::log1p(n) + 4 * std::min(n, 4 * std::sqrt(alike(terms))));
}

struct Survey {  // of the elements of a reduction
  bool nan = false, anything = false, points = true, positive = true, negative = true, negative_zeros = true;
};
Survey survey(std::span<const Cell> x) {
  Survey s;
  for (const Cell& c : x) {
    const Real& r = c.real;
    s.nan = s.nan || is_nan(r);
    s.anything = s.anything || is_anything(r);
    s.points = s.points && is_point(r);
    s.positive = s.positive && r.low >= 0;
    s.negative = s.negative && r.high <= 0;
    s.negative_zeros = s.negative_zeros && r.low == 0 && std::signbit(r.low);
  }
  return s;
}

// The elements are already known to hold neither kind of NaN.
Real sum_in_any_order(std::span<const Cell> x, const Survey& s, bool online) {
  double value = 0, low = 0, high = 0, magnitude = 0, finite = 0;
  int step = grid_of_zero;
  for (const Cell& c : x) {
    value += c.real.value;
    finite += std::isfinite(reach(c.real)) ? reach(c.real) : 0;
    low += c.real.low;
    high += c.real.high;
    magnitude += reach(c.real);
    step = std::min(step, grid(c.real.value));
  }
  if (s.points && std::isnan(value)) return point(value);  // inf - inf
  if (s.points && std::isinf(magnitude) && finite <= FLT_MAX) return point(value);
  if (std::isnan(low) || std::isnan(high) || std::isnan(value)) return anything(value);
  if (magnitude > FLT_MAX && !s.positive && !s.negative) return anything(value);  // partial sums may overflow
  if (s.points && s.negative_zeros && !x.empty()) return {0.0, -0.0, 0.0};        // 0 + -0 is +0
  const bool exact =
      s.points && step >= -149 && magnitude <= std::min(std::ldexp(0x1p24, step), static_cast<double>(FLT_MAX));
  if (exact) return point(value + 0.0);
  const std::vector<float> terms = values(x);
  const double error = accumulation_error(std::max<std::int64_t>(std::ssize(x) - 1, 0), alike(terms));
  return widened({value, low, high}, (error + (online ? running_error(terms) : 0)) * magnitude);
}

Real sum(const Reducing& reducing, std::span<const Cell> x) {
  const Survey s = survey(x);
  if (s.nan) return point(std::nan(""));
  if (s.anything) return anything(std::nan(""));
  return sum_in_any_order(x, s, reducing.online);
}

Real mean(const Reducing& reducing, std::span<const Cell> x) {
  const auto count = point(static_cast<double>(static_cast<float>(x.size())));
  const Real result = divide(sum(reducing, x), count);
  if (!reducing.welford || x.empty() || is_nan(result)) return result;
  double magnitude = 0;
  for (const Cell& c : x) magnitude += reach(c.real);
  return widened(result, running_error(values(x)) * magnitude / static_cast<double>(x.size()));
}

Whole sum_of_integers(std::span<const Cell> x, DType type) {
  __int128 value = 0, low = 0, high = 0;
  for (const Cell& c : x) {
    value += c.whole.value;
    low += c.whole.low;
    high += c.whole.high;
  }
  const auto wrap = [](__int128 v) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(v)); };
  const core::IntegerRange range = core::integer_range(type);
  if (low == high) return point(wrap(low));
  if (low < range.min || high > range.max) return anything(wrap(value), type);
  return {wrap(value), wrap(low), wrap(high)};
}

// The sum is an integer, and becomes an f32 when it is divided.
Real mean_of_integers(std::span<const Cell> x) {
  const Cell sum = cast(cell(sum_of_integers(x, DType::i64)), DType::i64, DType::f32);
  return divide(sum.real, point(static_cast<double>(static_cast<float>(x.size()))));
}

Real extreme(bool largest, std::span<const Cell> x) {
  const Survey s = survey(x);
  if (s.nan) return point(std::nan(""));
  Real result = point(largest ? -infinity : infinity);
  for (const Cell& c : x) {
    const auto better = [&](double a, double b) { return largest ? greater(a, b) : lesser(a, b); };
    result = {better(result.value, c.real.value), better(result.low, c.real.low), better(result.high, c.real.high)};
  }
  return s.anything ? anything(result.value) : result;
}

Whole extreme_of_integers(bool largest, std::span<const Cell> x, DType type) {
  const core::IntegerRange range = core::integer_range(type);
  Whole result = point(largest ? range.min : range.max);
  for (const Cell& c : x) {
    const auto better = [&](std::int64_t a, std::int64_t b) { return largest ? std::max(a, b) : std::min(a, b); };
    result = {better(result.value, c.whole.value), better(result.low, c.whole.low), better(result.high, c.whole.high)};
  }
  return result;
}

// x1 * x2 * ... in any order. The product is exact where the odd parts of all factors multiply to
// less than 2^24. Where a product of some of them may overflow or lose bits to underflow, the
// result may too.
Real product_of_all(std::span<const Cell> x) {
  const Survey s = survey(x);
  if (s.nan) return point(std::nan(""));
  if (s.anything) return anything(std::nan(""));
  Real result = point(1.0);
  double large = 1, small = 1, odd = 1;
  for (const Cell& c : x) {
    const Real& r = c.real;
    if (reach(r) > 1) large *= reach(r);
    const double least = std::signbit(r.low) != std::signbit(r.high) ? 0 : std::min(std::abs(r.low), std::abs(r.high));
    if (least < 1 && (least != 0 || !is_point(r))) small *= std::max(least, 0x1p-149);
    if (s.points && r.value != 0 && std::isfinite(r.value))
      odd = std::min(odd * std::ldexp(std::abs(r.value), -grid(r.value)), infinity);
    const double exact = result.value * r.value;
    result = multiply(result, r);
    result.value = exact;
  }
  if (is_nan(result) || (large > FLT_MAX && !(s.points && std::isinf(result.value)))) {
    return s.points && std::isnan(result.value) ? result : anything(result.value);
  }
  if (small < FLT_MIN) {
    const double bound = 2 * std::max(reach(result), 0x1p-149 * large);
    return {result.value, -bound, bound};
  }
  if (s.points && odd < 0x1p24) return point(result.value);
  const double error = static_cast<double>(x.size()) * unit_roundoff;
  return widened(result, error * std::min(reach(result), static_cast<double>(FLT_MAX)));
}

Whole product_of_integers(std::span<const Cell> x, DType type) {
  std::uint64_t value = 1;
  bool known = true;
  for (const Cell& c : x) {
    value *= static_cast<std::uint64_t>(c.whole.value);
    known = known && is_point(c.whole);
  }
  const auto result = static_cast<std::int64_t>(value);
  return known ? point(result) : anything(result, type);
}

// max + log(sum of exp(x - max)), for one end of the intervals.
template <class End>
double log_of_sum(std::span<const Cell> x, End end) {
  double top = -infinity;
  for (const Cell& c : x) top = std::max(top, end(c.real));
  if (std::isinf(top)) return top;
  double sum = 0;
  for (const Cell& c : x) sum += std::exp(end(c.real) - top);
  return top + std::log(sum);
}

Real log_sum_exp(std::span<const Cell> x) {
  const Survey s = survey(x);
  if (s.nan) return point(std::nan(""));
  if (s.anything) return anything(std::nan(""));
  const Real result = {log_of_sum(x, [](const Real& r) { return r.value; }),
                       log_of_sum(x, [](const Real& r) { return r.low; }),
                       log_of_sum(x, [](const Real& r) { return r.high; })};
  // The logarithm turns the sum's relative error into an absolute one, and has 2 ulps (of at most
  // log n) of its own.
  const double logarithm = std::log1p(static_cast<double>(x.size()));
  double top = -infinity;
  for (const Cell& c : x) top = std::max(top, c.real.value);
  std::vector<float> terms;
  for (const Cell& c : x) terms.push_back(static_cast<float>(std::exp(c.real.value - top)));
  return widened(result, running_error(terms) + info(Op::log).ulps * ulp(logarithm));
}

// The standard deviation is a seminorm of x: an error of root mean square e changes it by at most
// e. Welford's and two passes err like a perturbation of x by running_error (Chan, Golub and
// LeVeque, "Algorithms for computing the sample variance", Am. Stat. 37, 1983).
Real variance(std::span<const Cell> x) {
  const Survey s = survey(x);
  const auto n = static_cast<double>(x.size());
  if (s.nan || x.empty()) return point(std::nan(""));
  if (s.anything) return anything(std::nan(""));
  double mean = 0, squares = 0, error = 0, largest = 0;
  bool certainly_infinite = false;
  for (const Cell& c : x) {
    const Real& r = c.real;
    mean += r.value / n;
    squares += r.value * r.value;
    error += std::pow(std::max(r.high - r.value, r.value - r.low), 2);
    largest = std::max(largest, reach(r));
    certainly_infinite = certainly_infinite || (is_point(r) && std::isinf(r.value));
  }
  if (certainly_infinite) return point(std::nan(""));
  if (largest > 0x1p63 / std::sqrt(n)) return anything(std::nan(""));  // a sum of squares may overflow
  double deviation = 0;
  std::vector<float> terms;
  for (const Cell& c : x) {
    const double square = (c.real.value - mean) * (c.real.value - mean);
    deviation += square;
    terms.push_back(static_cast<float>(square));
  }
  deviation = std::sqrt(deviation / n);
  const double e = std::sqrt(error / n) + running_error(terms) * std::sqrt(squares / n);
  const double low = std::max(0.0, deviation - e), high = deviation + e;
  return widened({deviation * deviation, low * low, high * high}, 0x1p-126);  // squares may underflow
}

// sqrt(sum of x * x)
Real norm(const Reducing& reducing, std::span<const Cell> x) {
  std::vector<Cell> squares(x.size());
  std::transform(x.begin(), x.end(), squares.begin(), [](const Cell& c) {
    const Real magnitude = is_nan(c.real) || is_anything(c.real) || is_point(c.real)
                               ? c.real
                               : Real{std::abs(c.real.value),
                                      std::signbit(c.real.low) != std::signbit(c.real.high)
                                          ? 0.0
                                          : std::min(std::abs(c.real.low), std::abs(c.real.high)),
                                      reach(c.real)};
    return cell(multiply(magnitude, magnitude));
  });
  return square_root(sum(reducing, squares));
}

Whole any_or_all(bool any, DType argument, std::span<const Cell> x) {
  Whole result = point(std::int64_t{any ? 0 : 1});
  for (const Cell& c : x) {
    const Whole b = cast(c, argument, DType::boolean).whole;
    const auto f = [&](std::int64_t p, std::int64_t q) { return any ? p | q : p & q; };
    result = {f(result.value, b.value), f(result.low, b.low), f(result.high, b.high)};
  }
  return result;
}

// Interval is Real or Whole. i is right unless an element before it is surely as good, or one
// behind it surely better.
template <class Interval>
Whole first_extreme(bool largest, std::span<const Interval> x, std::vector<std::int64_t>& candidates) {
  const auto n = static_cast<std::int64_t>(x.size());
  if (n == 0) return point(std::int64_t{-1});
  // Everything is said in terms of "largest": the sure part of an element, and what it may reach. ~
  // turns integers round without overflow.
  const auto turned = [](auto v) {
    if constexpr (std::is_floating_point_v<decltype(v)>) return -v;
    else return ~v;
  };
  const auto sure = [&](const Interval& r) { return largest ? r.low : turned(r.high); };
  const auto most = [&](const Interval& r) { return largest ? r.high : turned(r.low); };
  const auto value = [&](const Interval& r) { return largest ? r.value : turned(r.value); };
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n; ++i)
    if (value(x[static_cast<std::size_t>(i)]) > value(x[static_cast<std::size_t>(best)])) best = i;
  using T = decltype(x[0].value);
  std::vector<T> behind(x.size());  // the best sure part after i
  T running = std::numeric_limits<T>::lowest();
  if constexpr (std::is_floating_point_v<T>) running = -infinity;
  const T nothing = running;
  for (std::int64_t i = n; i-- > 0;) {
    behind[static_cast<std::size_t>(i)] = running;
    running = std::max(running, sure(x[static_cast<std::size_t>(i)]));
  }
  running = nothing;
  for (std::int64_t i = 0; i < n; ++i) {
    const Interval& r = x[static_cast<std::size_t>(i)];
    const bool beaten = (i > 0 && running >= most(r)) || behind[static_cast<std::size_t>(i)] > most(r);
    if (!beaten) candidates.push_back(i);
    running = std::max(running, sure(r));
  }
  if (!std::binary_search(candidates.begin(), candidates.end(), best)) best = candidates.front();
  return {best, candidates.front(), candidates.back()};
}

}  // namespace

Cell reduce(const Reducing& reducing, std::span<const Cell> x) {
  const bool real = reducing.argument == DType::f32;
  switch (reducing.op) {
    case ReduceOp::sum: return real ? cell(sum(reducing, x)) : cell(sum_of_integers(x, reducing.result));
    case ReduceOp::mean: return cell(real ? mean(reducing, x) : mean_of_integers(x));
    case ReduceOp::max:
    case ReduceOp::min: {
      const bool largest = reducing.op == ReduceOp::max;
      return real ? cell(extreme(largest, x)) : cell(extreme_of_integers(largest, x, reducing.result));
    }
    case ReduceOp::prod: return real ? cell(product_of_all(x)) : cell(product_of_integers(x, reducing.result));
    case ReduceOp::any:
    case ReduceOp::all: return cell(any_or_all(reducing.op == ReduceOp::any, reducing.argument, x));
    case ReduceOp::logsumexp: return cell(log_sum_exp(x));
    case ReduceOp::var: return cell(variance(x));
    case ReduceOp::norm: return cell(norm(reducing, x));
    case ReduceOp::argmax:
    case ReduceOp::argmin:
    case ReduceOp::custom: break;
  }
  throw Error(ErrorCode::internal, "not a plain reduction: " + std::string(info(reducing.op).spelling));
}

Whole index_of_extreme(bool largest, DType argument, std::span<const Cell> x, std::vector<std::int64_t>& candidates) {
  candidates.clear();
  if (argument != DType::f32) {
    std::vector<Whole> elements;
    for (const Cell& c : x) elements.push_back(c.whole);
    return first_extreme<Whole>(largest, elements, candidates);
  }
  // The first certain NaN wins over everything but what may be a NaN before it.
  std::vector<Real> elements;
  bool nan = false;
  for (const Cell& c : x) {
    const auto index = static_cast<std::int64_t>(elements.size());
    if (is_nan(c.real)) {
      if (!nan && std::any_of(elements.begin(), elements.end(), is_anything)) {
        for (std::int64_t i = 0; i < index; ++i)
          if (is_anything(elements[static_cast<std::size_t>(i)])) candidates.push_back(i);
      }
      nan = true;
      candidates.push_back(index);
      break;
    }
    elements.push_back(c.real);
  }
  if (nan) return {candidates.back(), candidates.front(), candidates.back()};
  // An element that may be anything may be a NaN, so it is always a candidate.
  const Whole result = first_extreme<Real>(largest, elements, candidates);
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (is_anything(elements[i])) candidates.push_back(static_cast<std::int64_t>(i));
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  if (candidates.empty()) return result;
  return {result.value, candidates.front(), candidates.back()};
}

// Whether a combiner's result on which several orders agree is that of all orders. It is for a NaN,
// an infinity, the value of an element or of the identity, and for sums of no more than 24 bits.
// Else the orders agree by chance: another may round otherwise.
bool is_exact(double value, std::span<const DType> types, std::size_t component, std::span<const Cell> identity,
              std::span<const Cell> x) {
  if (!std::isfinite(value) || value == identity[component].real.value) return true;
  double magnitude = std::abs(value);
  int step = grid_of_zero;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (types[i % types.size()] != DType::f32) continue;
    if (i % types.size() == component && value == x[i].real.value) return true;
    magnitude += reach(x[i].real);
    step = std::min(step, grid(x[i].real.value));
  }
  return step >= -149 && magnitude <= std::ldexp(0x1p24, step);
}

std::vector<Cell> reduce_custom(const Body& combine, std::span<const Cell> identity, std::span<const DType> types,
                                std::span<const Cell> x) {
  const std::size_t k = types.size(), count = x.size() / k;
  std::vector<Cell> parameters(2 * k), out(k), scratch;
  const auto finite_reach = [&](const Cell* state) {  // of the largest f32 in it
    double largest = 0;
    for (std::size_t i = 0; i < k; ++i) {
      if (types[i] == DType::f32 && std::isfinite(reach(state[i].real)))
        largest = std::max(largest, reach(state[i].real));
    }
    return largest;
  };
  double largest = 0;  // of all states
  const auto into = [&](std::vector<Cell>& state, const Cell* other) {
    std::copy(state.begin(), state.end(), parameters.begin());
    std::copy_n(other, k, parameters.begin() + static_cast<std::ptrdiff_t>(k));
    combine.run(parameters, {}, scratch, out);
    std::copy(out.begin(), out.end(), state.begin());
    largest = std::max(largest, finite_reach(out.data()));
  };
  // Element `order(i)` after another, `parts` states beside each other, which are folded last.
  const auto fold = [&](std::size_t parts, auto order) {
    std::vector<std::vector<Cell>> states(parts, std::vector<Cell>(identity.begin(), identity.end()));
    for (std::size_t i = 0; i < count; ++i) into(states[i % parts], &x[order(i) * k]);
    for (std::size_t part = 1; part < parts; ++part) into(states[0], states[part].data());
    return std::move(states[0]);
  };
  // A few orders say how far apart orders lie: the result is their hull, and as much again for all
  // the others. Fewer orders were not enough. A sum may be exact in six of them and not in that of
  // eight warps (fuzz_gpu seed 1795290988), and small terms may count only where the largest number
  // and its negative meet first.
  const auto forward = [](std::size_t i) { return i; };
  const auto backward = [&](std::size_t i) { return count - 1 - i; };
  const auto inward = [&](std::size_t i) { return i % 2 == 0 ? i / 2 : count - 1 - i / 2; };
  std::vector<std::size_t> sorted(count);
  const auto by_rank = [&](std::size_t i) { return sorted[i]; };
  const auto sort = [&](auto rank) {  // the elements of the largest first
    std::iota(sorted.begin(), sorted.end(), std::size_t{0});
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
  };
  sort([&](std::size_t i) { return finite_reach(&x[i * k]); });
  std::vector<Cell> result = fold(1, forward);
  const auto include = [&](std::size_t i, const Cell& other) {
    result[i] = types[i] == DType::f32 ? cell(hull(result[i].real, other.real, result[i].real.value))
                                       : cell(hull(result[i].whole, other.whole, result[i].whole.value));
  };
  for (const std::vector<Cell>& other : {fold(1, backward), fold(1, inward), fold(2, forward), fold(2, inward),
                                         fold(4, forward), fold(8, forward), fold(32, forward), fold(1, by_rank)})
    for (std::size_t i = 0; i < k; ++i) include(i, other[i]);
  // The largest partial sum is that of all elements above 0, the smallest that of all below. Where
  // one overflows, an infinity may meet one of the other sign, which orders without an overflow do
  // not show.
  for (std::size_t c = 0; c < k && largest * static_cast<double>(count) > FLT_MAX; ++c) {
    if (types[c] != DType::f32) continue;
    for (const double sign : {1.0, -1.0}) {
      sort([&](std::size_t i) { return std::isnan(x[i * k + c].real.value) ? 0 : sign * x[i * k + c].real.value; });
      const std::vector<Cell> other = fold(1, by_rank);
      for (std::size_t i = 0; i < k; ++i)
        if (types[i] == DType::f32 && !std::isfinite(reach(other[i].real))) include(i, other[i]);
    }
  }
  for (std::size_t i = 0; i < k; ++i) {
    if (types[i] != DType::f32) continue;
    const Real h = result[i].real;
    if (is_anything(h)) continue;
    if (is_point(h)) {
      if (!is_exact(h.value, types, i, identity, x)) result[i] = cell(widened(h, 2 * unit_roundoff * largest));
      continue;
    }
    // The hull grows to both sides: what these orders gave too little, others may give too much.
    const double middle = std::clamp<double>(h.value, -FLT_MAX, FLT_MAX);
    const double below = std::isinf(h.low) ? 0 : middle - h.low, above = std::isinf(h.high) ? 0 : h.high - middle;
    // An addition to the largest number may lose half its unit, so orders nearer to each other
    // agree by chance.
    const double apart = 2 * std::max({below, above, unit_roundoff * largest});
    result[i] =
        cell(Real{h.value, std::isinf(h.low) ? h.low : middle - apart, std::isinf(h.high) ? h.high : middle + apart});
  }
  return result;
}

}  // namespace postlude::inline v0::reference
