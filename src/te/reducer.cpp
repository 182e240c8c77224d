#include "te/reducer.h"

#include "core/convert.h"
#include "cpu/isa.h"
#include "cpu/strips/combiner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace postlude::inline v0::te {

Expr as_number(const Expr& x, DType type, const std::string& what) {
  if (x->type == type) return x;
  const Expr now = converted(x, type);
  const bool literal = x->kind == ExprNode::Kind::constant && x->literal && x->type != DType::boolean;
  if (literal && (type == DType::f32 || now->value.value() == x->value.value())) return now;
  throw Error(
      ErrorCode::bad_combiner,
      what + " is " + std::string(v0::name(x->type)) + ", and what is reduced is " + std::string(v0::name(type)),
      "Cast it.");
}

Lambda lambda_of(const ReducerNode& reducer, const std::vector<DType>& types) {
  std::vector<Expr> parameters[2];
  std::unordered_map<const OperationNode*, int> index;
  for (auto& side : parameters) {
    for (const DType type : types) {
      auto node = std::make_shared<OperationNode>();
      node->dtypes = {type};
      index[node.get()] = static_cast<int>(index.size());
      side.push_back(Tensor(node, 0).at({}));
    }
  }
  std::vector<Expr> results = reducer.combine(parameters[0], parameters[1]);
  if (results.size() != types.size())
    throw Error(ErrorCode::bad_combiner, quoted(reducer.name) + " combines " + std::to_string(types.size()) +
                                             " values into " + std::to_string(results.size()));
  Lambda lambda;
  lambda.parameters = static_cast<int>(2 * types.size());
  for (int i = 0; i < lambda.parameters; ++i) {
    Node node;
    node.op = Op::parameter;
    node.index = i;
    lambda.nodes.push_back(node);
  }
  std::unordered_map<const ExprNode*, NodeId> made;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (results[i].empty())
      throw Error(ErrorCode::bad_combiner, quoted(reducer.name) + " combines two values into none");
    const Expr& result = results[i] =
        as_number(results[i], types[i], "what " + quoted(reducer.name) + " combines values into");
    visit(result, [&](const ExprNode& x) {
      if (made.count(&x)) return;
      Node node;
      if (x.kind == ExprNode::Kind::read) {
        const auto parameter = index.find(x.tensor.get());
        if (parameter == index.end())
          throw Error(ErrorCode::bad_combiner,
                      quoted(reducer.name) + " uses more than its arguments: " + quoted(x.tensor->name),
                      "Reduce its product with the elements, or a tuple that has it.");
        made[&x] = parameter->second;
        return;
      }
      if (x.kind == ExprNode::Kind::constant) {
        node.literal = x.value;
      } else if (x.kind == ExprNode::Kind::operation) {
        node.op = x.op;
        node.dtype = x.dtype;
        node.round = x.round;
        for (const Expr& arg : x.args) node.args.push_back(made.at(arg.node().get()));
      } else {
        throw Error(ErrorCode::bad_combiner, quoted(reducer.name) + " uses more than its arguments");
      }
      lambda.nodes.push_back(node);
      made[&x] = static_cast<NodeId>(lambda.nodes.size()) - 1;
    });
    lambda.results.push_back(made.at(result.node().get()));
  }
  return lambda;
}

namespace {

// Positive numbers, which all reducers are for (a tuple may have counts); any numbers; NaN and
// infinities.
constexpr std::size_t sampled_counts = 256, sampled_numbers = 384, sampled_all = 512;

// The components of one argument: strips of a sample each.
class SampleStrips {
 public:
  explicit SampleStrips(const std::vector<DType>& types) : types_(types) {
    for (const DType type : types) data_.emplace_back(sampled_all * static_cast<std::size_t>(cpu::strip_bytes(type)));
  }
  void set(std::size_t component, std::size_t sample, double x) {
    const DType type = types_[component];
    Literal literal{type, x, 0};
    if (type != DType::f32) literal.integer = static_cast<std::int64_t>(x);
    set(component, sample, literal);
  }
  void set(std::size_t component, std::size_t sample, const Literal& value) {
    cpu::write_constant(value, types_[component], at(component, sample));
  }
  [[nodiscard]] double get(std::size_t component, std::size_t sample) const {
    const char* const from = const_cast<SampleStrips*>(this)->at(component, sample);
    switch (types_[component]) {
      case DType::f32: return *reinterpret_cast<const float*>(from);
      case DType::i64: return static_cast<double>(*reinterpret_cast<const std::int64_t*>(from));
      case DType::boolean: return *from != 0;
      default: return *reinterpret_cast<const std::int32_t*>(from);
    }
  }
  std::vector<void*> pointers() {
    std::vector<void*> result;
    for (auto& part : data_) result.push_back(part.data());
    return result;
  }

 private:
  char* at(std::size_t component, std::size_t sample) {
    return data_[component].data() + sample * static_cast<std::size_t>(cpu::strip_bytes(types_[component]));
  }
  const std::vector<DType>& types_;
  std::vector<std::vector<char>> data_;
};

// So few numbers that many are equal, and so small that a product of three is exact.
double sample(std::uint64_t& state, DType type, std::size_t number) {
  static const double counts[] = {1, 2, 3, 5, 7, 40, 100, 1, 2};
  static const double numbers[] = {-3, -2, -1, 0, 1, 2, 3, 5, 40, -40, 100, -100, 1, 0};
  static const double beyond[] = {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL, 0, 1, -2};
  state = state * 6364136223846793005u + 1442695040888963407u;
  const std::uint64_t drawn = state >> 33;
  if (type == DType::boolean) return static_cast<double>(drawn & 1);
  if (number < sampled_counts) return counts[drawn % std::size(counts)];
  if (number < sampled_numbers || type != DType::f32) return numbers[drawn % std::size(numbers)];
  return beyond[drawn % std::size(beyond)];
}

}  // namespace

Freedom freedom_of(const ReducerNode& reducer, const std::vector<DType>& types) {
  const cpu::StripTable& table = cpu::strips(cpu::best_isa());
  const cpu::Combiner combiner(lambda_of(reducer, types), types, table);
  std::vector<char> scratch(static_cast<std::size_t>(combiner.scratch_bytes(sampled_all)));
  const auto combined = [&](SampleStrips& a, SampleStrips& b) {
    SampleStrips result(types);
    const std::vector<void*> from = a.pointers(), other = b.pointers(), to = result.pointers();
    combiner.combine(from.data(), other.data(), to.data(), sampled_all, scratch.data());
    return result;
  };
  SampleStrips x[3] = {SampleStrips(types), SampleStrips(types), SampleStrips(types)}, neutral(types);
  const std::vector<Expr> identity = identity_of(reducer, types);
  std::uint64_t state = 24;
  for (std::size_t s = 0; s < sampled_all; ++s)
    for (std::size_t i = 0; i < types.size(); ++i) {
      for (SampleStrips& each : x) each.set(i, s, sample(state, types[i], s));
      neutral.set(i, s, identity[i]->value);
    }
  SampleStrips ab = combined(x[0], x[1]), ba = combined(x[1], x[0]), bc = combined(x[1], x[2]);
  // The largest number that a sample met: what is rounded is as far off. Infinite: it left what the reducer is for.
  std::vector<double> scale(sampled_all, 1);
  for (const SampleStrips* each : {&x[0], &x[1], &x[2], &ab, &ba, &bc})
    for (std::size_t s = 0; s < sampled_all; ++s)
      for (std::size_t i = 0; i < types.size(); ++i) {
        const double number = std::fabs(each->get(i, s));
        scale[s] = std::isnan(number) ? HUGE_VAL : std::max(scale[s], number);
      }
  Freedom free;
  // Clears `holds`, or notes that it fails elsewhere alone.
  const auto compare = [&](bool& holds, const SampleStrips& a, const SampleStrips& b) {
    for (std::size_t s = 0; s < sampled_all; ++s)
      for (std::size_t i = 0; i < types.size(); ++i) {
        const double p = a.get(i, s), q = b.get(i, s);
        const bool finite = std::isfinite(p) && std::isfinite(q), usual = finite && std::isfinite(scale[s]);
        const double about = usual ? scale[s] : 1 + std::max(std::fabs(p), std::fabs(q));
        if (p == q || (std::isnan(p) && std::isnan(q)) || (finite && std::fabs(p - q) <= 1e-4 * about)) continue;
        (usual && s < sampled_counts ? holds : free.everywhere) = false;
      }
  };
  compare(free.commutes, ab, ba);
  compare(free.associates, combined(ab, x[2]), combined(x[0], bc));
  compare(free.has_identity, combined(neutral, x[0]), x[0]);
  const bool before = std::exchange(free.everywhere, true);
  compare(free.has_identity, combined(x[0], neutral), x[0]);
  free.is_left_alone = free.has_identity && free.everywhere;
  free.everywhere &= before;
  return free;
}

std::string kept_order(const ReducerNode& reducer) {
  const Freedom& free = reducer.free;
  if (!free.commutes) return quoted(reducer.name) + " is not commutative";
  if (!free.associates) return quoted(reducer.name) + " is not associative";
  if (!free.has_identity) return "the identity of " + quoted(reducer.name) + " changes what it is combined with";
  if (!free.everywhere)
    return quoted(reducer.name) + " depends on its order where numbers are zero, negative, infinite or NaN";
  return {};
}

}  // namespace postlude::inline v0::te
