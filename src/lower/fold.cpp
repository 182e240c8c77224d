#include "lower/fold.h"

#include "core/convert.h"

#include <cmath>

namespace postlude::inline v0::lower {
namespace {

Literal real(double x) { return {DType::f32, static_cast<double>(static_cast<float>(x)), 0}; }
Literal boolean(bool x) { return {DType::boolean, 0, x}; }

Literal integer(DType type, std::uint64_t x) {
  const auto wrapped = static_cast<std::int64_t>(x);
  return {type, 0, type == DType::i32 ? static_cast<std::int32_t>(wrapped) : wrapped};
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  const std::int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

double smaller(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// +, -, * and / of two f32 are exact or have a double's 53 bits, of which rounding to 24 is right;
// so is sqrt.
std::optional<Literal> evaluate_real(Op op, double a, double b, double c) {
  switch (op) {
    case Op::add: return real(a + b);
    case Op::sub: return real(a - b);
    case Op::mul: return real(a * b);
    case Op::div: return real(a / b);
    case Op::floordiv: return real(std::floor(static_cast<double>(static_cast<float>(a / b))));
    case Op::fma: return real(std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
    case Op::neg: return real(-a);
    case Op::abs: return real(std::abs(a));
    case Op::min: return real(smaller(a, b));
    case Op::max: return real(larger(a, b));
    case Op::exp: return real(std::exp(a));
    case Op::exp2: return real(std::exp2(a));
    case Op::expm1: return real(std::expm1(a));
    case Op::log: return real(std::log(a));
    case Op::log2: return real(std::log2(a));
    case Op::log1p: return real(std::log1p(a));
    case Op::tanh: return real(std::tanh(a));
    case Op::erf: return real(std::erf(a));
    case Op::sqrt: return real(std::sqrt(a));
    case Op::rsqrt: return real(1 / std::sqrt(a));
    case Op::reciprocal: return real(1 / a);
    case Op::pow: return real(std::pow(a, b));
    case Op::sin: return real(std::sin(a));
    case Op::cos: return real(std::cos(a));
    case Op::floor: return real(std::floor(a));
    case Op::ceil: return real(std::ceil(a));
    case Op::round: return real(std::nearbyint(a));
    default: return std::nullopt;
  }
}

std::optional<Literal> evaluate_integer(Op op, DType type, std::int64_t a, std::int64_t b, std::int64_t c) {
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b), uc = static_cast<std::uint64_t>(c);
  switch (op) {
    case Op::add: return integer(type, ua + ub);
    case Op::sub: return integer(type, ua - ub);
    case Op::mul: return integer(type, ua * ub);
    case Op::fma: return integer(type, ua * ub + uc);
    case Op::floordiv: return integer(type, static_cast<std::uint64_t>(floor_divide(a, b)));
    case Op::neg: return integer(type, 0 - ua);
    case Op::abs: return integer(type, a < 0 ? 0 - ua : ua);
    case Op::min: return integer(type, static_cast<std::uint64_t>(a < b ? a : b));
    case Op::max: return integer(type, static_cast<std::uint64_t>(a > b ? a : b));
    case Op::floor:
    case Op::ceil:
    case Op::round: return integer(type, ua);
    case Op::bit_and: return type == DType::boolean ? boolean(a && b) : integer(type, ua & ub);
    case Op::bit_or: return type == DType::boolean ? boolean(a || b) : integer(type, ua | ub);
    case Op::bit_not: return type == DType::boolean ? boolean(!a) : integer(type, ~ua);
    default: return std::nullopt;
  }
}

template <typename T>
std::optional<Literal> compare(Op op, T a, T b) {
  switch (op) {
    case Op::eq: return boolean(a == b);
    case Op::ne: return boolean(a != b);
    case Op::lt: return boolean(a < b);
    case Op::le: return boolean(a <= b);
    case Op::gt: return boolean(a > b);
    case Op::ge: return boolean(a >= b);
    default: return std::nullopt;
  }
}

std::optional<Literal> convert(DType type, const Literal& x, DType dtype, Round round) {
  if (round == Round::stochastic) return std::nullopt;
  if (is_float(dtype)) {
    const double value = static_cast<double>(static_cast<float>(x.value()));
    return real(dtype == DType::f32 ? value : core::round_to(dtype, value, round));
  }
  const std::int64_t value =
      x.type == DType::f32 ? core::to_integer(dtype, x.real, round) : core::to_integer(dtype, x.integer);
  return Literal{type, 0, value};
}

}  // namespace

std::optional<Literal> evaluate(Op op, DType type, std::span<const Literal> args, DType dtype, Round round) {
  if (args.empty()) return std::nullopt;
  const Literal& a = args[0];
  const Literal b = args.size() > 1 ? args[1] : Literal{}, c = args.size() > 2 ? args[2] : Literal{};
  if (op == Op::cast) return convert(type, a, dtype, round);
  if (op == Op::where) return a.integer ? b : c;
  if (op >= Op::eq && op <= Op::ge)
    return a.type == DType::f32 ? compare(op, a.real, b.real) : compare(op, a.integer, b.integer);
  if (a.type == DType::f32) return evaluate_real(op, a.real, b.real, c.real);
  return evaluate_integer(op, type, a.integer, b.integer, c.integer);
}

bool fold(Work& work) {
  Rewriter to(work);
  Item item;
  std::vector<Literal> args;
  bool folded = false;
  while (to.next(item)) {
    bool constant = is_elementwise(item.op) && item.op != Op::scaled;
    for (NodeId a : item.args) constant = constant && to[a].op == Op::constant;
    if (constant) {
      args.clear();
      for (NodeId a : item.args) args.push_back(to[a].literal);
      if (const auto value = evaluate(item.op, item.type, args, item.dtype, item.round)) {
        item.op = Op::constant;
        item.literal = *value;
        item.args.clear();
        folded = true;
      }
    }
    to.keep(std::move(item));
  }
  return to.finish() || folded;
}

}  // namespace postlude::inline v0::lower
