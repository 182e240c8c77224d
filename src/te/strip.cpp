#include "te/strip.h"

#include "te/reducer.h"

#include "cpu/strips/ops.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::te {
namespace {

using cpu::compute_index;
using cpu::StripReducer;

std::optional<StripReducer> strip_reducer(Known known) {
  switch (known) {
    case Known::sum: return StripReducer::sum;
    case Known::prod: return StripReducer::prod;
    case Known::min: return StripReducer::min;
    case Known::max: return StripReducer::max;
    case Known::any: return StripReducer::any;
    case Known::all: return StripReducer::all;
    case Known::argmax: return StripReducer::argmax;
    case Known::argmin: return StripReducer::argmin;
    case Known::none: break;
  }
  return {};
}

// Whether it says which results there are: where it fails there may be none to read.
bool chooses_results(const Expr& condition) {
  bool found = false;
  visit(condition, [&](const ExprNode& x) {
    found |= x.kind == ExprNode::Kind::axis && x.axis->kind != AxisNode::Kind::reduce &&
             x.axis->kind != AxisNode::Kind::size;
  });
  return found;
}

}  // namespace

StripNest::StripNest(const Bounding& with, std::vector<Loop> loops, const std::vector<Expr>& conditions,
                     const Statement& statement)
    : with_(with), loops_(std::move(loops)), updates_(statement.kind == Statement::Kind::update) {
  in_order_ = updates_ && !kept_order(*statement.reducer).empty();
  std::vector<Expr> parts, masks;  // what a mask leaves out is the identity instead
  for (const Expr& condition : conditions) split_and(condition, parts);
  for (const Expr& part : parts) {
    const std::vector<Expr> bounds = at_least_zero(part);
    std::vector<Linear> linears;
    for (const Expr& bound : bounds) linears.push_back(linear(bound, *with_.sizes, *with_.slots));
    const bool affine = !linears.empty() && std::all_of(linears.begin(), linears.end(), [&](const Linear& l) {
      return std::none_of(loops_.begin(), loops_.end(), [&](const Loop& loop) { return l.others_have(loop.slot); });
    });
    if (affine) {
      conditions_.insert(conditions_.end(), linears.begin(), linears.end());
    } else if (updates_ && statement.reducer->free.is_left_alone && (is_computed(part) || !chooses_results(part))) {
      masks.push_back(part);
    } else {
      scalar_conditions_.push_back(part);
      visit(part, [&](const ExprNode& x) {
        if (x.kind == ExprNode::Kind::axis && !with_.sizes->count(x.axis.get()))
          scalar_variables_.emplace_back(x.axis.get(), with_.slots->of(x.axis.get()));
      });
    }
  }
  for (const BufferPtr& to : statement.to) to_.push_back(access(with_.buffers->at(to.get()), statement.index, false));
  for (const Loop& loop : loops_) {
    bool single =
        std::any_of(to_.begin(), to_.end(), [&](const Access& to) { return to.offset.others_have(loop.slot); });
    for (const auto& variable : scalar_variables_) single |= variable.second == loop.slot;
    single_.push_back(single);
  }
  bool within = false;  // loops that are reduced around one that goes one by one do so too
  for (std::size_t l = loops_.size(); in_order_ && l-- > 0;)
    if (loops_[l].reduces) within = single_[l] = single_[l] || within;
  for (std::size_t i = 0; i < statement.values.size(); ++i) {
    Expr value = statement.values[i];
    if (!updates_) value = converted(value, compute_type(to_[i].buffer.type));
    types_.push_back(value->type);
    kept_.push_back(value);  // values are found by their nodes
    if (updates_) {
      std::vector<DType> types;
      for (const Expr& x : statement.values) types.push_back(x->type);
      const Expr identity = identity_of(*statement.reducer, types)[i];
      for (const Expr& mask : masks) value = operation(Op::where, {mask, value, identity});
      kept_.push_back(value);
    }
    results_.push_back(compile(value, !masks.empty()));
  }
  if (updates_) {
    reducer_ = statement.reducer;
    for (std::size_t i = 0; i < types_.size(); ++i)
      if (to_[i].buffer.type != types_[i])
        throw Error(ErrorCode::internal, "a reduction's result has another type than its elements");
    if (const auto known = strip_reducer(reducer_->known)) {
      if (types_.size() == 2) cpu::write_constant(identity_of(*reducer_, types_)[1]->value, types_[1], identity_);
      swaps_ = reducer_->known == Known::argmax || reducer_->known == Known::argmin;
      const int type = compute_index(types_[swaps_ ? 1 : 0]);
      along_function_ = with_.table->along[static_cast<int>(*known)][type];
      across_function_ = with_.table->across[static_cast<int>(*known)][type];
    }
    if (!along_function_ || !across_function_) {
      along_function_ = across_function_ = nullptr;
      if (types_.size() > 16) throw Error(ErrorCode::unsupported, "the CPU reduces at most 16 values together");
      combiner_ = std::make_shared<const cpu::Combiner>(lambda_of(*reducer_, types_), types_, *with_.table);
    }
  }
  if (updates_ && reducer_->known == Known::sum && types_[0] == DType::f32 && !values_.empty()) {
    const Value& last = values_.back();
    const Expr& x = kept_.back();
    multiplies_ = results_[0] + 1 == static_cast<int>(values_.size()) && x->kind == ExprNode::Kind::operation &&
                  x->op == Op::mul && last.args.size() == 2;
  }
  choose_order();
  assign_slots();
  find_by_row();
  const auto is_plain = [&](int v) {
    const Value& value = values_[static_cast<std::size_t>(v)];
    return value.kind == Value::Kind::load && value.access.buffer.type == DType::f32 && !value.access.guarded;
  };
  const bool whole =
      scalar_conditions_.empty() && std::none_of(single_.begin(), single_.end(), [](bool x) { return x; });
  const bool direct = updates_ && across_function_ && whole && values_.size() == 1 &&
                      values_[0].kind == Value::Kind::load && is_direct(values_[0].access.buffer.type) &&
                      !values_[0].access.guarded && is_direct(to_[0].buffer.type);
  rows_ = direct && !along_;
  lines_ = direct && along_ && !loops_.empty();
  windows_ = multiplies_ && !along_ && values_.size() == 3 && is_plain(values_.back().args[0]) &&
             is_plain(values_.back().args[1]) && to_[0].buffer.type == DType::f32 && whole;
  counted_ = swaps_ && along_ && !loops_.empty() && along_function_ && results_[0] != results_[1] &&
             values_[static_cast<std::size_t>(results_[0])].kind == Value::Kind::index &&
             values_[static_cast<std::size_t>(results_[0])].linear.factor(loops_[order_.back()].slot) > 0 &&
             std::none_of(values_.begin(), values_.end(), [&](const Value& value) {
               const std::vector<int>& places = value.access.index_values;
               return std::find(value.args.begin(), value.args.end(), results_[0]) != value.args.end() ||
                      std::find(places.begin(), places.end(), results_[0]) != places.end();
             });
  const Value& last = values_.empty() ? Value{} : values_[static_cast<std::size_t>(results_.back())];
  places_ = counted_ && whole && values_.size() == 2 && last.kind == Value::Kind::load &&
            is_direct(last.access.buffer.type) && !last.access.guarded && is_direct(to_[1].buffer.type);
}

int StripNest::append(Value value) {
  values_.push_back(std::move(value));
  return static_cast<int>(values_.size()) - 1;
}

StripNest::Access StripNest::access(const BoundBuffer& buffer, const std::vector<Expr>& index, bool guarded) {
  Access access;
  access.buffer = buffer;
  access.guarded = guarded;
  Expr offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    access.index.push_back(linear(index[d], *with_.sizes, *with_.slots));
    offset = offset + index[d] * Expr(buffer.strides[d]);
  }
  access.offset = linear(offset, *with_.sizes, *with_.slots);
  return access;
}

// What it is made of comes first.
int StripNest::compile(const Expr& x, bool guarded) {
  std::vector<std::pair<Expr, bool>> left{{x, guarded}}, missing;
  while (!left.empty()) {
    const auto [at, is_guarded] = left.back();
    if (made_[is_guarded].count(at.node().get())) {
      left.pop_back();
      continue;
    }
    missing.clear();
    Value value = valued(at, is_guarded, missing);
    if (missing.empty()) made_[is_guarded].emplace(at.node().get(), append(std::move(value)));
    left.insert(left.end(), missing.rbegin(), missing.rend());
  }
  return made_[guarded].at(x.node().get());
}

// `missing`: what it is made of that is not compiled yet.
StripNest::Value StripNest::valued(const Expr& x, bool guarded, std::vector<std::pair<Expr, bool>>& missing) {
  const auto made_of = [&](const Expr& part, bool is_guarded) {
    const auto found = made_[is_guarded].find(part.node().get());
    if (found == made_[is_guarded].end()) missing.emplace_back(part, is_guarded);
    return found == made_[is_guarded].end() ? -1 : found->second;
  };
  Value value;
  value.type = x->type;
  switch (x->kind) {
    case ExprNode::Kind::constant:
      cpu::write_constant(x->value, x->type, value.literal);
      value.uniform = true;
      break;
    case ExprNode::Kind::axis:
    case ExprNode::Kind::operation: {
      if (x->type == DType::i64 && x->depth <= deepest_sum && !is_computed(x)) {
        Linear affine = linear(x, *with_.sizes, *with_.slots);
        const auto varies = [&](const Loop& loop) { return affine.others_have(loop.slot); };
        if (std::none_of(loops_.begin(), loops_.end(), varies)) {
          value.kind = Value::Kind::index;
          value.linear = std::move(affine);
          break;
        }
      }
      value.kind = Value::Kind::operation;
      for (std::size_t i = 0; i < x->args.size(); ++i)
        value.args.push_back(made_of(x->args[i], guarded || (x->op == Op::where && i > 0)));
      const DType last =
          (x->op == Op::cast ? x->args.front() : x->args.back())->type;  // a cast may have a random number
      if (x->op == Op::cast && x->round != Round::nearest_even && (last == DType::f32 || is_float(x->dtype))) {
        value.kind = Value::Kind::rounded;
        value.cast = {last, x->dtype, x->round};
      } else if (x->op == Op::random) {
        value.function = with_.table->random;
        value.random = {x->seed, x->random_stream, 0};
      } else if (x->op == Op::cast) {
        value.function = with_.table->cast[compute_index(last)][static_cast<int>(x->dtype)];
      } else {
        value.function = with_.table->ops[static_cast<int>(x->op)][compute_index(last)];
      }
      if (value.kind == Value::Kind::operation && !value.function)
        throw Error(ErrorCode::internal, "the CPU has no strip function for " + print(x));
      value.uniform = missing.empty() && std::all_of(value.args.begin(), value.args.end(), [&](int arg) {
                        return values_[static_cast<std::size_t>(arg)].uniform;
                      });
      break;
    }
    case ExprNode::Kind::read: {
      value.kind = Value::Kind::load;
      value.access = access(with_.buffers->at(with_.nest->of(*x.node()).get()), x->args, guarded);
      bool affine = std::none_of(x->args.begin(), x->args.end(), [](const Expr& i) { return is_computed(i); });
      for (const Loop& loop : loops_) affine = affine && !value.access.offset.others_have(loop.slot);
      for (const Linear& l : value.access.index)
        for (const Loop& loop : loops_) affine = affine && !(guarded && l.others_have(loop.slot));
      if (!affine) {
        value.kind = Value::Kind::gather;
        for (const Expr& i : x->args) value.access.index_values.push_back(made_of(i, guarded));
      }
      break;
    }
    case ExprNode::Kind::reduce: throw Error(ErrorCode::internal, "a reduction within a value");
  }
  return value;
}

// Which loop's elements lie side by side: the one along which most memory is consecutive.
void StripNest::choose_order() {
  std::size_t unit = loops_.empty() ? 0 : loops_.size() - 1;
  double best = -1;
  bool reduces_inside = false;
  for (std::size_t l = loops_.size(); l-- > 0;) {
    if (in_order_ && loops_[l].reduces && std::exchange(reduces_inside, true)) continue;
    const Linear& extent = loops_[l].extent;
    double score = 0;
    const auto weigh = [&](const Access& access, double weight) {
      const std::int64_t factor = access.offset.factor(loops_[l].slot);
      score += factor == 1 ? weight : factor == 0 ? weight / 8 : 0;
    };
    for (const Value& value : values_)
      if (value.kind == Value::Kind::load) weigh(value.access, 4);
    for (const Access& to : to_) weigh(to, updates_ ? 1 : 4);
    if (single_[l]) score = -0.5;
    else if (extent.is_affine() && extent.terms.empty() && extent.constant < 8)
      score = score * static_cast<double>(extent.constant) / 16;
    if (score > best) best = score, unit = l;
  }
  along_ = updates_ && (loops_.empty() || loops_[unit].reduces);
  // Reduced loops are last where a strip is reduced along itself, first where across.
  for (const bool reduces : {!along_, along_})
    for (std::size_t l = 0; l < loops_.size(); ++l)
      if (l != unit && loops_[l].reduces == reduces) order_.push_back(l);
  if (!loops_.empty()) order_.push_back(unit);
}

// Scratch for each value until its last use.
void StripNest::assign_slots() {
  std::vector<int> last(values_.size(), -1);
  for (std::size_t v = 0; v < values_.size(); ++v) {
    for (const int arg : values_[v].args) last[static_cast<std::size_t>(arg)] = static_cast<int>(v);
    for (const int arg : values_[v].access.index_values) last[static_cast<std::size_t>(arg)] = static_cast<int>(v);
  }
  for (const int result : results_) last[static_cast<std::size_t>(result)] = static_cast<int>(values_.size());
  std::vector<int> free;
  for (std::size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].kind == Value::Kind::constant) continue;
    if (free.empty()) free.push_back(slots_used_++);
    values_[v].slot = free.back();
    free.pop_back();
    for (std::size_t u = 0; u < v; ++u)
      if (last[u] == static_cast<int>(v) && values_[u].slot >= 0) free.push_back(values_[u].slot);
  }
  // Columns in order, places, states, dense elements, a gather's.
  slots_used_ += (in_order_ ? 3 : 2) * static_cast<int>(types_.size()) + 4;
  combiner_offset_ = static_cast<std::int64_t>(slots_used_) * most_elements * 8;
  scratch_bytes_ = combiner_offset_ + (combiner_ ? combiner_->scratch_bytes(most_elements) : 0);
}

// What is read and only operations take, which then may be one element for each row of a strip.
void StripNest::find_by_row() {
  std::vector<bool> taken(values_.size(), true);
  for (const int result : results_) taken[static_cast<std::size_t>(result)] = false;
  for (const Value& value : values_) {
    const bool is_multiplied = multiplies_ && &value == &values_.back();  // update() does it
    const bool takes_rows =
        value.kind == Value::Kind::operation && value.function != with_.table->random && !is_multiplied;
    for (const int arg : value.args)
      if (!takes_rows) taken[static_cast<std::size_t>(arg)] = false;
    for (const int index : value.access.index_values) taken[static_cast<std::size_t>(index)] = false;
  }
  for (std::size_t v = 0; v < values_.size(); ++v) values_[v].by_row = taken[v] && values_[v].kind == Value::Kind::load;
}

void StripNest::set_initial(std::unique_ptr<StripNest> initial, bool for_all) {
  initial_ = std::move(initial);
  // Sums of products may start where they are made, if no part of their products is made apart.
  starts_ = for_all && windows_ && std::none_of(conditions_.begin(), conditions_.end(), [&](const Linear& condition) {
              return std::any_of(loops_.begin(), loops_.end(),
                                 [&](const Loop& loop) { return loop.reduces && condition.factor(loop.slot) != 0; });
            });
}

}  // namespace postlude::inline v0::te
