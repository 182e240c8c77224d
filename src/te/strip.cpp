#include "te/strip.h"

#include "cpu/strips/ops.h"
#include "cpu/strips/weighted.h"

#include <algorithm>
#include <cstring>

namespace postlude::inline v0::te {
namespace {

using cpu::compute_index;
using cpu::Strip;
using cpu::StripArg;
using cpu::StripReducer;

// Whether memory holds values as strips do.
bool is_direct(DType type) { return type == DType::f32 || type == DType::i32 || type == DType::i64; }

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

// A combiner as the graph's nodes: parameters a, then b.
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
  const std::vector<Expr> results = reducer.combine(parameters[0], parameters[1]);
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
  for (const Expr& result : results) {
    visit(result, [&](const ExprNode& x) {
      if (made.count(&x)) return;
      Node node;
      if (x.kind == ExprNode::Kind::read) {
        made[&x] = index.at(x.tensor.get());
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

}  // namespace

StripNest::StripNest(const Bounding& with, std::vector<Loop> loops, const std::vector<Expr>& conditions,
                     const Statement& statement)
    : with_(with), loops_(std::move(loops)), updates_(statement.kind == Statement::Kind::update) {
  if (loops_.size() > most_loops) throw Error(ErrorCode::unsupported, "more than 16 loops around one statement");
  std::vector<Expr> parts, masks;
  for (const Expr& condition : conditions) split_and(condition, parts);
  for (const Expr& part : parts) {
    const std::vector<Expr> bounds = reads(part) ? std::vector<Expr>{} : at_least_zero(part);
    std::vector<Linear> linears;
    for (const Expr& bound : bounds) linears.push_back(linear(bound, *with_.sizes, *with_.slots));
    const bool affine = !linears.empty() && std::all_of(linears.begin(), linears.end(), [&](const Linear& l) {
      return std::none_of(loops_.begin(), loops_.end(), [&](const Loop& loop) { return l.others_have(loop.slot); });
    });
    if (affine) {
      conditions_.insert(conditions_.end(), linears.begin(), linears.end());
    } else if (updates_) {
      masks.push_back(part);
    } else {
      if (reads(part))
        throw Error(ErrorCode::unsupported, "a condition around a stored element reads a tensor: " + print(part));
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
  counted_ = swaps_ && along_ && !loops_.empty() && along_function_ &&
             values_[static_cast<std::size_t>(results_[0])].kind == Value::Kind::index &&
             values_[static_cast<std::size_t>(results_[0])].linear.factor(loops_[order_.back()].slot) > 0 &&
             std::none_of(values_.begin(), values_.end(), [&](const Value& value) {
               const std::vector<int>& places = value.access.index_values;
               return std::find(value.args.begin(), value.args.end(), results_[0]) != value.args.end() ||
                      std::find(places.begin(), places.end(), results_[0]) != places.end();
             });
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

int StripNest::compile(const Expr& x, bool guarded) {
  if (const auto found = made_[guarded].find(x.node().get()); found != made_[guarded].end()) return found->second;
  Value value;
  value.type = x->type;
  switch (x->kind) {
    case ExprNode::Kind::constant:
      cpu::write_constant(x->value, x->type, value.literal);
      value.uniform = true;
      break;
    case ExprNode::Kind::axis:
    case ExprNode::Kind::operation: {
      if (x->type == DType::i64 && !reads(x)) {
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
        value.args.push_back(compile(x->args[i], guarded || (x->op == Op::where && i > 0)));
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
      value.uniform = std::all_of(value.args.begin(), value.args.end(),
                                  [&](int arg) { return values_[static_cast<std::size_t>(arg)].uniform; });
      break;
    }
    case ExprNode::Kind::read: {
      value.kind = Value::Kind::load;
      value.access = access(with_.buffers->at(with_.nest->of(*x.node()).get()), x->args, guarded);
      bool affine = std::none_of(x->args.begin(), x->args.end(), [](const Expr& i) { return reads(i); });
      for (const Loop& loop : loops_) affine = affine && !value.access.offset.others_have(loop.slot);
      for (const Linear& l : value.access.index)
        for (const Loop& loop : loops_) affine = affine && !(guarded && l.others_have(loop.slot));
      if (!affine) {
        value.kind = Value::Kind::gather;
        for (const Expr& i : x->args) value.access.index_values.push_back(compile(i, guarded));
      }
      break;
    }
    case ExprNode::Kind::reduce: throw Error(ErrorCode::internal, "a reduction within a value");
  }
  const int made = append(std::move(value));
  made_[guarded].emplace(x.node().get(), made);
  return made;
}

// Which loop's elements lie side by side: the one along which most memory is consecutive.
void StripNest::choose_order() {
  std::size_t unit = loops_.empty() ? 0 : loops_.size() - 1;
  double best = -1;
  for (std::size_t l = loops_.size(); l-- > 0;) {
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
  slots_used_ += 2 * static_cast<int>(types_.size()) + 2;  // states, dense elements, a gather's
  combiner_offset_ = static_cast<std::int64_t>(slots_used_) * most_elements * 8;
  scratch_bytes_ = combiner_offset_ + (combiner_ ? combiner_->scratch_bytes(most_elements) : 0);
}

// ---- boxes --------------------------------------------------------------------------------------

void StripNest::set_initial(std::unique_ptr<StripNest> initial, bool for_all) {
  initial_ = std::move(initial);
  // Sums of products may start where they are made, if no part of their products is made apart.
  starts_ = for_all && windows_ && std::none_of(conditions_.begin(), conditions_.end(), [&](const Linear& condition) {
              return std::any_of(loops_.begin(), loops_.end(),
                                 [&](const Loop& loop) { return loop.reduces && condition.factor(loop.slot) != 0; });
            });
}

void StripNest::run(Frame& frame) const {
  if (static_cast<std::int64_t>(frame.scratch.size()) < scratch_bytes_)
    frame.scratch.resize(static_cast<std::size_t>(scratch_bytes_));
  Box box;
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    box.first[l] = 0;
    box.count[l] = loops_[l].extent.at(frame.loops);
    if (box.count[l] <= 0) {
      if (initial_) initial_->run(frame);
      return;
    }
  }
  if (initial_ && !(starts_ && is_window(box))) initial_->run(frame);
  split(frame, box, 0);
}

// Divides the box until each condition holds in all of a part, or nowhere: where the loop that
// changes it most passes its bound, else in halves.
void StripNest::split(Frame& frame, Box& box, std::size_t condition) const {
  for (; condition < conditions_.size(); ++condition) {
    const Linear& c = conditions_[condition];
    for (std::size_t l = 0; l < loops_.size(); ++l)
      frame.loops[static_cast<std::size_t>(loops_[l].slot)] = box.first[l];
    std::int64_t low = c.at(frame.loops), high = low, widest = 0;
    std::size_t along = 0;
    for (std::size_t l = 0; l < loops_.size(); ++l) {
      const std::int64_t change = c.factor(loops_[l].slot) * (box.count[l] - 1);
      (change < 0 ? low : high) += change;
      if (std::abs(change) > widest) widest = std::abs(change), along = l;
    }
    if (high < 0) return;
    if (low >= 0) continue;
    const std::int64_t factor = c.factor(loops_[along].slot), count = box.count[along];
    const std::int64_t rest = low + std::max<std::int64_t>(-factor, 0) * (count - 1);  // the others at their worst
    std::int64_t at =
        factor < 0 ? (rest >= 0 ? rest / -factor + 1 : 0) : (rest < 0 ? (-rest + factor - 1) / factor : 0);
    if (at <= 0 || at >= count) at = count / 2;
    Box part = box;
    part.count[along] = at;
    split(frame, part, condition);
    part = box;
    part.first[along] += at;
    part.count[along] -= at;
    return split(frame, part, condition);
  }
  tiles(frame, box);
}

// Tiles of a box that fit a strip, in the order of the loops.
void StripNest::tiles(Frame& frame, const Box& box) const {
  if (windows_ && is_window(box)) return window(frame, box);
  if (rows_ && rows(frame, box)) return;
  if (lines_ && lines(frame, box)) return;
  std::int64_t step[most_loops], room = most_elements;
  for (std::size_t o = order_.size(); o-- > 0;) {
    const std::size_t l = order_[o];
    step[l] = single_[l] ? 1 : std::clamp<std::int64_t>(room, 1, box.count[l]);
    room /= step[l];
  }
  Box part = box;
  for (std::size_t l = 0; l < loops_.size(); ++l) part.count[l] = std::min(step[l], box.count[l]);
  while (true) {
    tile(frame, part);
    std::size_t l = loops_.size();
    while (l-- > 0) {
      const std::int64_t end = box.first[l] + box.count[l];
      part.first[l] += part.count[l];
      if (part.first[l] < end) {
        part.count[l] = std::min(step[l], end - part.first[l]);
        break;
      }
      part.first[l] = box.first[l];
      part.count[l] = std::min(step[l], box.count[l]);
      if (l == 0) return;
    }
    if (loops_.empty()) return;
  }
}

// Sums of a few products, each of a strip and one number: all of them for some results at a time.
bool StripNest::is_window(const Box& box) const {
  const int unit = loops_[order_.back()].slot;
  const std::vector<int>& factors = values_.back().args;
  const std::int64_t x = values_[static_cast<std::size_t>(factors[0])].access.offset.factor(unit),
                     w = values_[static_cast<std::size_t>(factors[1])].access.offset.factor(unit);
  if (x + w != 1 || x * w != 0 || to_[0].offset.factor(unit) != 1) return false;
  std::int64_t products = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduces && (products *= box.count[l]) > most_products) return false;
  return true;
}

void StripNest::window(Frame& frame, const Box& box) const {
  const Access& to = to_[0];
  const std::vector<int>& factors = values_.back().args;
  const Access* x = &values_[static_cast<std::size_t>(factors[0])].access;
  const Access* w = &values_[static_cast<std::size_t>(factors[1])].access;
  if (x->offset.factor(loops_[order_.back()].slot) == 0) std::swap(x, w);
  // Where the factors of each product lie, from those of the first.
  std::int64_t x_from[most_products] = {}, w_from[most_products] = {};
  std::int64_t made = 1;
  for (std::size_t l = loops_.size(); l-- > 0;) {
    if (!loops_[l].reduces) continue;
    const std::int64_t x_step = x->offset.factor(loops_[l].slot), w_step = w->offset.factor(loops_[l].slot);
    for (std::int64_t i = made; i < made * box.count[l]; ++i) {
      x_from[i] = x_from[i % made] + i / made * x_step;
      w_from[i] = w_from[i % made] + i / made * w_step;
    }
    made *= box.count[l];
  }
  first(frame, box);
  const auto memory = [&](const Access& access) {
    return reinterpret_cast<float*>(frame.buffers[static_cast<std::size_t>(access.buffer.number)]);
  };
  std::int64_t bytes = size_of(DType::f32);
  for (const Linear& extent : to.buffer.shape) bytes *= extent.at(frame.loops);
  cpu::WeightedSum how{static_cast<int>(made), starts_, starts_ && bytes >= streamed_bytes};
  // What the next strips but one read first: their last factors, along the innermost loop between strips.
  std::int64_t step = 0;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (!loops_[l].reduces && l != order_.back()) step = x->offset.factor(loops_[l].slot);
  const std::int64_t ahead = x_from[made - 1] + 2 * step;
  StripArg args[2 * most_products];
  Strip strip;
  strip.rows = 1;
  strip.columns = strip.out_row_stride = box.count[order_.back()];
  strip.args = args;
  strip.extra = &how;
  do {
    const float* const xs = memory(*x) + x->offset.at(frame.loops);
    const float* const ws = memory(*w) + w->offset.at(frame.loops);
    for (std::size_t i = 0; i < static_cast<std::size_t>(made); ++i) {
      args[2 * i] = {xs + x_from[i], 0, 1};
      args[2 * i + 1] = {ws + w_from[i], 0, 0};
    }
    strip.out = memory(to) + to.offset.at(frame.loops);
    how.ahead = reinterpret_cast<std::uintptr_t>(xs) + static_cast<std::uintptr_t>(ahead) * sizeof(float);
    with_.table->weighted_sum(strip);
  } while (next(frame, box, loops_.size(), false));
}

// Strips that are reduced along where they lie, those of several results at once.
bool StripNest::lines(Frame& frame, const Box& box) const {
  const Access &x = values_[0].access, &to = to_[0];
  const std::size_t unit = order_.back();
  std::size_t row = loops_.size();
  std::int64_t others = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    if (!loops_[l].reduces) row = l;
    else if (l != unit) others *= box.count[l];
  }
  if (x.offset.factor(loops_[unit].slot) != 1 || (others > 1 && box.count[unit] < most_elements / 8)) return false;
  first(frame, box);
  StripArg arg{nullptr, row == loops_.size() ? 0 : x.offset.factor(loops_[row].slot), 1};
  cpu::ReduceStrip strip;
  strip.rows = row == loops_.size() ? 1 : box.count[row];
  strip.state_row_stride = row == loops_.size() ? 0 : to.offset.factor(loops_[row].slot);
  strip.args = &arg;
  const std::int64_t size = size_of(x.buffer.type);
  do {
    strip.state[0] = frame.buffers[static_cast<std::size_t>(to.buffer.number)] + to.offset.at(frame.loops) * size;
    const char* const from = frame.buffers[static_cast<std::size_t>(x.buffer.number)] + x.offset.at(frame.loops) * size;
    for (std::int64_t c = 0; c < box.count[unit]; c += most_elements) {
      arg.data = from + c * size;
      strip.columns = std::min(most_elements, box.count[unit] - c);
      along_function_(strip);
    }
  } while (next(frame, box, row, true));
  return true;
}

// Strips that are reduced across where they lie, a loop's all at once.
bool StripNest::rows(Frame& frame, const Box& box) const {
  const Access &x = values_[0].access, &to = to_[0];
  const std::size_t unit = order_.back();
  std::size_t row = loops_.size();
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduces) row = l;
  if (x.offset.factor(loops_[unit].slot) != 1 || to.offset.factor(loops_[unit].slot) != 1) return false;
  first(frame, box);
  StripArg arg{nullptr, row == loops_.size() ? 0 : x.offset.factor(loops_[row].slot), 1};
  cpu::ReduceStrip strip;
  strip.rows = row == loops_.size() ? 1 : box.count[row];
  strip.columns = box.count[unit];
  strip.args = &arg;
  do {
    arg.data =
        frame.buffers[static_cast<std::size_t>(x.buffer.number)] + x.offset.at(frame.loops) * size_of(x.buffer.type);
    strip.state[0] =
        frame.buffers[static_cast<std::size_t>(to.buffer.number)] + to.offset.at(frame.loops) * size_of(to.buffer.type);
    across_function_(strip);
  } while (next(frame, box, row, true));
  return true;
}

void StripNest::first(Frame& frame, const Box& box) const {
  for (std::size_t l = 0; l < loops_.size(); ++l) frame.loops[static_cast<std::size_t>(loops_[l].slot)] = box.first[l];
}

// The next iteration of the loops that are neither the last in a strip nor number `but`, and are
// reduced only if `reduced`.
bool StripNest::next(Frame& frame, const Box& box, std::size_t but, bool reduced) const {
  for (std::size_t l = loops_.size(); l-- > 0;) {
    if (l == order_.back() || l == but || (!reduced && loops_[l].reduces)) continue;
    std::int64_t& at = frame.loops[static_cast<std::size_t>(loops_[l].slot)];
    if (++at < box.first[l] + box.count[l]) return true;
    at = box.first[l];
  }
  return false;
}

void StripNest::tile(Frame& frame, const Box& box) const {
  std::int64_t elements = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    frame.loops[static_cast<std::size_t>(loops_[l].slot)] = box.first[l];
    elements *= box.count[l];
  }
  if (!scalar_conditions_.empty()) {
    Sizes values = *with_.sizes;
    for (const auto& [axis, slot] : scalar_variables_) values[axis] = frame.loops[static_cast<std::size_t>(slot)];
    for (const Expr& condition : scalar_conditions_)
      if (!evaluate(condition, values)) return;
  }
  thread_local std::vector<StripArg> values;
  values.resize(values_.size());
  std::int64_t reduced = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l) reduced *= loops_[l].reduces ? box.count[l] : 1;
  const bool multiplies = multiplies_ && !along_ && reduced == 1;  // update() does the last value's work
  compute(frame, box, elements, values_.size() - (multiplies ? 1 : 0), values);
  updates_ ? update(frame, box, elements, values) : store(frame, box, values);
}

// ---- values -------------------------------------------------------------------------------------

// The first `last` values.
void StripNest::compute(Frame& frame, const Box& box, std::int64_t elements, std::size_t last,
                        std::vector<StripArg>& values) const {
  StripArg args[4];
  for (std::size_t v = 0; v < last; ++v) {
    const Value& value = values_[v];
    if (value.kind == Value::Kind::constant) {
      values[v] = {value.literal, 0, 0};
      continue;
    }
    if (counted_ && static_cast<int>(v) == results_[0] && is_counted(box)) continue;
    char* const out = scratch(frame, value.slot);
    const std::int64_t count = value.uniform ? 1 : elements;
    switch (value.kind) {
      case Value::Kind::index: {
        auto* const to = reinterpret_cast<std::int64_t*>(out);
        std::int64_t done = 1;
        to[0] = value.linear.at(frame.loops);
        for (std::size_t o = order_.size(); o-- > 0;) {
          const std::size_t l = order_[o];
          const std::int64_t factor = value.linear.factor(loops_[l].slot);
          if (done == 1) {
            const std::int64_t first = to[0];
            for (std::int64_t r = 1; r < box.count[l]; ++r) to[r] = first + r * factor;
            done = box.count[l];
            continue;
          }
          for (std::int64_t r = 1; r < box.count[l]; ++r)
            for (std::int64_t e = 0; e < done; ++e) to[r * done + e] = to[e] + r * factor;
          done *= box.count[l];
        }
        values[v] = {out, 0, 1};
        break;
      }
      case Value::Kind::load: values[v] = loaded(frame, box, value, elements, out); break;
      case Value::Kind::gather:
        gather(frame, box, value, values, elements, out);
        values[v] = {out, 0, 1};
        break;
      default: {
        for (std::size_t i = 0; i < value.args.size(); ++i) args[i] = values[static_cast<std::size_t>(value.args[i])];
        Strip strip;
        strip.rows = 1;
        strip.columns = count;
        strip.out = out;
        strip.out_row_stride = count;
        strip.args = args;
        strip.extra = &value.random;
        if (value.kind == Value::Kind::rounded) cpu::cast_rounded(value.cast, strip);
        else value.function(strip);
        values[v] = {out, 0, value.uniform ? 0 : 1};
      }
    }
  }
}

StripArg StripNest::loaded(Frame& frame, const Box& box, const Value& value, std::int64_t elements, char* out) const {
  const Access& access = value.access;
  char* const base = frame.buffers[static_cast<std::size_t>(access.buffer.number)];
  if (access.guarded) {
    for (std::size_t d = 0; d < access.index.size(); ++d) {
      std::int64_t low = access.index[d].at(frame.loops), high = low;
      for (std::size_t l = 0; l < loops_.size(); ++l) {
        const std::int64_t change = access.index[d].factor(loops_[l].slot) * (box.count[l] - 1);
        (change < 0 ? low : high) += change;
      }
      if (low >= 0 && high < access.buffer.shape[d].at(frame.loops)) continue;
      gather(frame, box, value, {}, elements, out);
      return {out, 0, 1};
    }
  }
  // Memory that holds the strip as it is, or one element for all.
  const std::int64_t offset = access.offset.at(frame.loops), size = size_of(access.buffer.type);
  bool dense = true, same = true;
  std::int64_t expected = 1;
  for (std::size_t o = order_.size(); o-- > 0;) {
    const std::size_t l = order_[o];
    if (box.count[l] == 1) continue;
    const std::int64_t factor = access.offset.factor(loops_[l].slot);
    dense &= factor == expected;
    same &= factor == 0;
    expected *= box.count[l];
  }
  if (is_direct(access.buffer.type) && (dense || same)) return {base + offset * size, 0, same ? 0 : 1};
  if (same) {
    const StripArg arg{base + offset * size, 0, 1};
    Strip strip;
    strip.rows = strip.columns = strip.out_row_stride = 1;
    strip.out = out;
    strip.args = &arg;
    with_.table->load[static_cast<int>(access.buffer.type)](strip);
    return {out, 0, 0};
  }
  move(frame, box, access, out, false, true);
  return {out, 0, 1};
}

// Element by element: indices that are no sums of loops, or that leave the buffer where the value is
// not chosen.
void StripNest::gather(Frame& frame, const Box& box, const Value& value, const std::vector<StripArg>& values,
                       std::int64_t elements, char* out) const {
  const Access& access = value.access;
  const char* const base = frame.buffers[static_cast<std::size_t>(access.buffer.number)];
  const std::int64_t size = size_of(access.buffer.type);
  char* const raw = scratch(frame, slots_used_ - 1);
  std::vector<std::int64_t> extent, at(order_.size(), 0), low;
  for (std::size_t d = 0; d < access.index.size(); ++d) {
    extent.push_back(access.buffer.shape[d].at(frame.loops));
    if (access.index_values.empty()) low.push_back(access.index[d].at(frame.loops));
  }
  for (std::int64_t e = 0; e < elements; ++e) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < extent.size(); ++d) {
      std::int64_t i = 0;
      if (access.index_values.empty()) {
        i = low[d];
        for (std::size_t o = 0; o < order_.size(); ++o) i += at[o] * access.index[d].factor(loops_[order_[o]].slot);
      } else {
        const StripArg& arg = values[static_cast<std::size_t>(access.index_values[d])];
        i = static_cast<const std::int64_t*>(arg.data)[e * arg.column_stride];
      }
      if (!access.guarded && (i < 0 || i >= extent[d]))
        throw Error(ErrorCode::wrong_shape, "index " + std::to_string(i) + " leaves axis " + std::to_string(d) +
                                                " of " + quoted(access.buffer.name) + ", which has " +
                                                std::to_string(extent[d]));
      offset += std::clamp<std::int64_t>(i, 0, std::max<std::int64_t>(extent[d] - 1, 0)) * access.buffer.strides[d];
    }
    bool empty = false;
    for (const std::int64_t x : extent) empty |= x == 0;
    if (empty) std::memset(raw + e * size, 0, static_cast<std::size_t>(size));
    else std::memcpy(raw + e * size, base + offset * size, static_cast<std::size_t>(size));
    for (std::size_t o = order_.size(); o-- > 0;) {
      if (++at[o] < box.count[order_[o]]) break;
      at[o] = 0;
    }
  }
  const StripArg arg{raw, elements, 1};
  Strip strip;
  strip.rows = 1;
  strip.columns = strip.out_row_stride = elements;
  strip.out = out;
  strip.args = &arg;
  with_.table->load[static_cast<int>(access.buffer.type)](strip);
}

void StripNest::move(const Frame& frame, const Box& box, const Access& access, char* dense, bool store, bool all,
                     bool uniform) const {
  struct Dim {
    std::int64_t count, factor;
  };
  Dim dims[most_loops + 2];
  std::size_t n = 0;
  for (const std::size_t l : order_) {
    if ((!all && loops_[l].reduces) || box.count[l] == 1) continue;
    const Dim dim{box.count[l], access.offset.factor(loops_[l].slot)};
    if (n > 0 && dims[n - 1].factor == dim.factor * dim.count)
      dims[n - 1] = {dims[n - 1].count * dim.count, dim.factor};
    else dims[n++] = dim;
  }
  while (n < 2) {
    for (std::size_t i = n; i > 0; --i) dims[i] = dims[i - 1];
    dims[0] = {1, 0};
    ++n;
  }
  const Dim row = dims[n - 2], column = dims[n - 1];
  const std::int64_t size = size_of(access.buffer.type),
                     strip_size = cpu::strip_bytes(compute_type(access.buffer.type));
  char* const base = frame.buffers[static_cast<std::size_t>(access.buffer.number)];
  std::int64_t at[most_loops + 2] = {}, offset = access.offset.at(frame.loops);
  Strip strip;
  strip.rows = row.count;
  strip.columns = column.count;
  const int type = static_cast<int>(access.buffer.type);
  while (true) {
    if (store) {
      const StripArg arg{dense, uniform ? 0 : column.count, uniform ? 0 : 1};
      strip.args = &arg;
      strip.out = base + offset * size;
      strip.out_row_stride = row.factor;
      strip.out_column_stride = column.factor;
      with_.table->store[compute_index(compute_type(access.buffer.type))][type](strip);
    } else {
      const StripArg arg{base + offset * size, row.factor, column.factor};
      strip.args = &arg;
      strip.out = dense;
      strip.out_row_stride = column.count;
      with_.table->load[type](strip);
    }
    if (!uniform) dense += row.count * column.count * strip_size;
    std::size_t d = n - 2;
    for (; d > 0; --d) {
      offset += dims[d - 1].factor;
      if (++at[d - 1] < dims[d - 1].count) break;
      offset -= dims[d - 1].factor * dims[d - 1].count;
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// ---- results ------------------------------------------------------------------------------------

void StripNest::store(Frame& frame, const Box& box, const std::vector<StripArg>& values) const {
  for (std::size_t i = 0; i < to_.size(); ++i) {
    const StripArg& from = values[static_cast<std::size_t>(results_[i])];
    move(frame, box, to_[i], static_cast<char*>(const_cast<void*>(from.data)), true, true, from.column_stride == 0);
  }
}

void StripNest::update(Frame& frame, const Box& box, std::int64_t elements, std::vector<StripArg>& values) const {
  std::int64_t kept = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (!loops_[l].reduces) kept *= box.count[l];
  const std::int64_t reduced = elements / kept;
  const std::size_t k = types_.size();
  const bool multiplies = multiplies_ && !along_ && reduced == 1, counted = counted_ && is_counted(box);
  void *state[16] = {}, *from[16] = {};
  bool direct[16];
  for (std::size_t i = 0; i < k; ++i) {
    const StripArg& x = values[static_cast<std::size_t>(results_[i])];
    from[i] = const_cast<void*>(x.data);
    if (multiplies || (counted && i == 0)) {
    } else if (x.column_stride == 0 && elements > 1) {  // one value for all
      char* const dense = scratch(frame, slots_used_ - 2 - static_cast<int>(i));
      const std::int64_t size = cpu::strip_bytes(types_[i]);
      for (std::int64_t e = 0; e < elements; ++e) std::memcpy(dense + e * size, x.data, static_cast<std::size_t>(size));
      from[i] = dense;
    } else if (combiner_ && along_) {  // which folds them where they lie: not in the caller's memory
      from[i] = std::memcpy(scratch(frame, slots_used_ - 2 - static_cast<int>(i)), x.data,
                            static_cast<std::size_t>(elements * cpu::strip_bytes(types_[i])));
    }
    // The states where they lie, if they do so side by side.
    std::int64_t expected = 1;
    direct[i] = is_direct(types_[i]);
    for (std::size_t o = order_.size(); o-- > 0;) {
      const std::size_t l = order_[o];
      if (loops_[l].reduces || box.count[l] == 1) continue;
      direct[i] = direct[i] && to_[i].offset.factor(loops_[l].slot) == expected;
      expected *= box.count[l];
    }
    if (direct[i]) {
      state[i] = frame.buffers[static_cast<std::size_t>(to_[i].buffer.number)] +
                 to_[i].offset.at(frame.loops) * size_of(types_[i]);
    } else {
      state[i] = scratch(frame, slots_used_ - 2 - static_cast<int>(k + i));
      move(frame, box, to_[i], static_cast<char*>(state[i]), false, false);
    }
  }
  if (multiplies) multiply_add(state[0], elements, values);
  else if (counted) update_counted(frame, box, kept, reduced, state, {from[1], reduced, 1});
  else
    fold(state, from, along_ ? kept : reduced, along_ ? reduced : kept, along_,
         frame.scratch.data() + combiner_offset_);
  for (std::size_t i = 0; i < k; ++i)
    if (!direct[i]) move(frame, box, to_[i], static_cast<char*>(state[i]), true, false);
}

// Whether a strip's reduced elements are those of its last loop alone.
bool StripNest::is_counted(const Box& box) const {
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduces && l != order_.back() && box.count[l] > 1) return false;
  return true;
}

// argmax along a strip by the elements' numbers in it; then of its results by their indices.
void StripNest::update_counted(Frame& frame, const Box& box, std::int64_t kept, std::int64_t reduced, void** state,
                               const StripArg& values) const {
  static const std::vector<std::int64_t> numbers = [] {
    std::vector<std::int64_t> all(most_elements);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    return all;
  }();
  const Linear& index = values_[static_cast<std::size_t>(results_[0])].linear;
  const std::int64_t step = index.factor(loops_[order_.back()].slot), size = cpu::strip_bytes(types_[1]);
  std::int64_t place[2];  // of one row, and its value
  for (std::int64_t r = 0; r < kept; ++r) {
    // The row's first index: its number among the loops that are kept.
    std::int64_t first = index.at(frame.loops), rest = r;
    for (std::size_t o = order_.size(); o-- > 0;) {
      const std::size_t l = order_[o];
      if (loops_[l].reduces) continue;
      first += rest % box.count[l] * index.factor(loops_[l].slot);
      rest /= box.count[l];
    }
    place[0] = -1;
    std::memcpy(&place[1], identity_, static_cast<std::size_t>(size));
    cpu::ReduceStrip strip;
    strip.rows = 1;
    strip.state[0] = &place[1];
    strip.state[1] = &place[0];
    // A part whose extreme is none of the row's so far is not searched for its place.
    constexpr std::int64_t part = 512;
    for (std::int64_t c = 0; c < reduced; c += part) {
      const StripArg row[] = {{static_cast<const char*>(values.data) + (r * reduced + c) * size, reduced, 1},
                              {numbers.data() + c, 0, 1}};
      strip.columns = std::min(part, reduced - c);
      strip.args = row;
      along_function_(strip);
    }
    if (place[0] < 0) continue;
    place[0] = first + place[0] * step;
    const StripArg one[] = {{&place[1], 1, 1}, {&place[0], 1, 1}};
    strip.columns = 1;
    strip.args = one;
    strip.state[0] = static_cast<char*>(state[1]) + r * size;
    strip.state[1] = static_cast<std::int64_t*>(state[0]) + r;
    across_function_(strip);
  }
}

void StripNest::multiply_add(void* state, std::int64_t elements, const std::vector<StripArg>& values) const {
  const std::vector<int>& factors = values_.back().args;
  const StripArg args[] = {
      values[static_cast<std::size_t>(factors[0])], values[static_cast<std::size_t>(factors[1])], {state, 0, 1}};
  Strip strip;
  strip.rows = 1;
  strip.columns = strip.out_row_stride = elements;
  strip.out = state;
  strip.args = args;
  with_.table->ops[static_cast<int>(Op::fma)][compute_index(DType::f32)](strip);
}

void StripNest::fold(void** state, void** elements, std::int64_t rows, std::int64_t columns, bool along,
                     char* scratch) const {
  const std::size_t k = types_.size();
  if (!combiner_) {
    StripArg args[2];
    for (std::size_t i = 0; i < k; ++i) args[swaps_ ? 1 - i : i] = {elements[i], columns, 1};
    cpu::ReduceStrip strip;
    strip.rows = rows;
    strip.columns = columns;
    strip.args = args;
    for (std::size_t i = 0; i < k; ++i) strip.state[swaps_ ? 1 - i : i] = state[i];
    strip.state_row_stride = along ? 1 : 0;
    (along ? along_function_ : across_function_)(strip);
    return;
  }
  const auto at = [&](void* base, std::size_t i, std::int64_t e) {
    return static_cast<void*>(static_cast<char*>(base) + e * cpu::strip_bytes(types_[i]));
  };
  void *a[16], *b[16];
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t n = columns;
    if (along) {
      // The second half joins the first, until one is left.
      while (n > 1) {
        const std::int64_t half = n / 2;
        for (std::size_t i = 0; i < k; ++i) {
          a[i] = at(elements[i], i, r * columns);
          b[i] = at(elements[i], i, r * columns + n - half);
        }
        combiner_->combine(a, b, a, half, scratch);
        n -= half;
      }
    }
    for (std::size_t i = 0; i < k; ++i) {
      a[i] = at(state[i], i, along ? r : 0);
      b[i] = at(elements[i], i, r * columns);
    }
    combiner_->combine(a, b, a, n, scratch);
  }
}

}  // namespace postlude::inline v0::te
