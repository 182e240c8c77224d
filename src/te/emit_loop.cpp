// How the loops of a thread run: guards that are known to hold are left out, results stay in
// registers. Elements that lie side by side: emit_wide.cpp.
#include "te/emitter.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::te {
namespace {

constexpr std::int64_t most_registers = 64, most_unrolled = 128;

bool has(const Expr& x, const AxisNode* axis) {
  bool found = false;
  visit(x, [&](const ExprNode& node) { found |= node.kind == ExprNode::Kind::axis && node.axis.get() == axis; });
  return found;
}

// A condition as rest >= 0, where `rest` falls by `step` with each iteration of a loop; at its worst
// and its best along the loops within.
struct Bound {
  Expr worst, best;
  std::int64_t step = 0;
};

std::optional<Bound> bound_of(const Expr& condition, const AxisNode* axis, const std::vector<const Statement*>& inner) {
  const std::vector<Expr> rests = at_least_zero(condition);
  if (rests.size() != 1) return {};
  Polynomial rest = polynomial(rests[0]);
  Bound bound;
  std::int64_t worst = 0, best = 0;
  const auto within = [&](const AxisNode* a) {
    return std::find_if(inner.begin(), inner.end(), [&](const Statement* s) { return s->axis.get() == a; });
  };
  for (auto term = rest.terms.begin(); term != rest.terms.end();) {
    const bool plain = term->atoms.size() == 1 && term->atoms[0]->kind == ExprNode::Kind::axis;
    if (plain && term->atoms[0]->axis.get() == axis) {
      if (term->factor > 0) return {};
      bound.step = -term->factor;
    } else if (const auto loop = plain ? within(term->atoms[0]->axis.get()) : inner.end(); loop != inner.end()) {
      const std::int64_t last = term->factor * (constant_extent(**loop) - 1);
      worst += std::min<std::int64_t>(last, 0);
      best += std::max<std::int64_t>(last, 0);
    } else {
      for (const Expr& atom : term->atoms) {
        if (axis && has(atom, axis)) return {};
        for (const Statement* s : inner)
          if (has(atom, s->axis.get())) return {};
      }
      ++term;
      continue;
    }
    term = rest.terms.erase(term);
  }
  bound.worst = expression(rest) + Expr(worst);
  bound.best = expression(rest) + Expr(best);
  return bound;
}

// Reads that every element makes, also where a condition chooses.
void certain_reads(const Expr& x, std::vector<const ExprNode*>& reads) {
  if (x->kind == ExprNode::Kind::read) {
    if (std::find(reads.begin(), reads.end(), x.node().get()) == reads.end()) reads.push_back(x.node().get());
    return;
  }
  if (x->kind != ExprNode::Kind::operation) return;
  for (std::size_t i = 0; i < (x->op == Op::where ? 1 : x->args.size()); ++i) certain_reads(x->args[i], reads);
}

// Whether indices name `extent` neighbours along an axis, from a multiple of it on.
bool side_by_side(const std::vector<Expr>& index, const AxisNode* axis, std::int64_t extent) {
  if (index.empty()) return false;
  for (std::size_t d = 0; d + 1 < index.size(); ++d)
    if (has(index[d], axis)) return false;
  const Polynomial last = polynomial(index.back());
  bool along = false;
  for (const Polynomial::Term& term : last.terms) {
    const bool plain = term.atoms.size() == 1 && term.atoms[0]->kind == ExprNode::Kind::axis &&
                       term.atoms[0]->axis.get() == axis && term.factor == 1;
    along |= plain;
    if (!plain && (term.factor % extent != 0 || std::any_of(term.atoms.begin(), term.atoms.end(),
                                                            [&](const Expr& atom) { return has(atom, axis); })))
      return false;
  }
  return along && last.constant % extent == 0;
}

bool can_store_together(DType type) {
  return type == DType::f32 || type == DType::i32 || type == DType::bf16 || type == DType::f16;
}

}  // namespace

std::int64_t constant_extent(const Statement& loop) {
  const Polynomial p = polynomial(loop.extent);
  return p.is_constant() ? p.constant : -1;
}

// ---- results in registers -----------------------------------------------------------------------

// The first values of a result that `loops` reduce once, and else nobody reads or writes in them; none: it is not so.
std::optional<Emitter::Accumulators> Emitter::accumulators(const Statement& init, const Statement& loops) const {
  Accumulators result{.first = &init, .around = {}, .count = 1};
  auto& [first, around, count] = result;
  for (; first->kind != Statement::Kind::store; first = &first->body[0]) {
    const bool loop = first->kind == Statement::Kind::loop;
    if (first->body.size() != 1 || !(loop || first->kind == Statement::Kind::guard)) return {};
    if (!loop) continue;
    const std::int64_t extent = constant_extent(*first);
    if (first->mark.kind == Mark::Kind::bind || extent < 1 || (count *= extent) > most_registers) return {};
    around.push_back(first);
  }
  if (loops.kind != Statement::Kind::loop && loops.kind != Statement::Kind::guard) return {};
  const Statement& store = *first;
  const std::vector<BufferPtr>& to = store.to;
  if (std::any_of(to.begin(), to.end(), [&](const BufferPtr& b) { return registers_.count(b.get()) != 0; })) return {};
  int updates = 0;
  std::size_t found = 0;
  bool fits = true;
  const std::function<void(const Statement&)> check = [&](const Statement& s) {
    if (s.joins) fits = false;
    for (const Statement* loop : result.around)
      if (s.kind == Statement::Kind::loop && s.axis == loop->axis) {
        ++found;
        fits &= s.mark.kind != Mark::Kind::bind;
      }
    for (const Expr& x : s.values)
      visit(x, [&](const ExprNode& node) {
        if (node.kind == ExprNode::Kind::read) fits &= std::find(to.begin(), to.end(), nest_.of(node)) == to.end();
      });
    if (std::none_of(s.to.begin(), s.to.end(), [&](const BufferPtr& b) { return b == to[0]; })) return;
    ++updates;
    fits &= s.kind == Statement::Kind::update && s.to == to && s.index.size() == store.index.size();
    for (std::size_t d = 0; fits && d < s.index.size(); ++d) fits = equal(*s.index[d].node(), *store.index[d].node());
  };
  check(loops);
  visit_statements(loops.body, check);
  if (!fits || updates != 1 || found != around.size()) return {};
  return result;
}

// A result that is initialised, then reduced by the loops behind, stays in registers until they end:
// one, or as many as the constant loops have iterations in which it is initialised.
bool Emitter::reduce_in_registers(const Statement& init, const Statement& loops) {
  const std::optional<Accumulators> found = accumulators(init, loops);
  if (!found) return false;
  const auto& [first, around, count] = *found;
  const std::vector<BufferPtr>& to = first->to;
  std::string place, n = str(count);
  for (const Statement* loop : around) {
    const std::string i = variable(loop->axis);
    place = place.empty() ? i : "(" + place + ") * " + str(constant_extent(*loop)) + " + " + i;
    unrolled_.insert(loop->axis.get());
  }
  std::vector<std::string> names;
  Statement last = *first;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::string array = numbered(spelled(to[i]->name) + "_value"), type = device_type(compute_type(to[i]->type)),
                      identity = value(first->values[i]);
    names.push_back(place.empty() ? array : array + "[" + place + "]");
    if (place.empty()) {
      line("$type $value = $identity;", {{"type", type}, {"value", array}, {"identity", identity}});
    } else {
      line("$type $array[$n];", {{"type", type}, {"array", array}, {"n", n}});
      line("#pragma unroll");
      line("for (int e = 0; e < $n; ++e) $array[e] = $identity;", {{"n", n}, {"array", array}, {"identity", identity}});
    }
    registers_[to[i].get()] = {names.back(), counts_up(loops, to[0])};
  }
  statement(loops);
  for (std::size_t i = 0; i < to.size(); ++i) {
    registers_.erase(to[i].get());
    auto node = std::make_shared<OperationNode>();
    node->dtypes = {compute_type(to[i]->type)};
    locals_[node.get()] = names[i];
    last.values[i] = Tensor(node, 0).at({});
  }
  // The same loops and guards around what is stored.
  std::vector<const Statement*> path;
  for (const Statement* s = &init; s != first; s = &s->body[0]) path.push_back(s);
  for (auto s = path.rbegin(); s != path.rend(); ++s) {
    Statement outer = **s;
    outer.body.clear();
    outer.body.push_back(std::move(last));
    last = std::move(outer);
  }
  statement(last);
  return true;
}

// ---- loops --------------------------------------------------------------------------------------

void Emitter::write(const std::vector<Statement>& body) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    // What nobody meets in is run by the threads that are not idle.
    std::vector<Statement> one{body[i]};
    const bool guard =
        all_run_ && !meets(one) && body[i].kind != Statement::Kind::allocate &&
        !(body[i].kind == Statement::Kind::store && !body[i].to.empty() && registers_.count(body[i].to[0].get()));
    const bool pair = i + 1 < body.size() && !meets({body[i + 1]});
    if (guard) {
      open("if (active)");
      all_run_ = false;
    }
    if (pair && (!all_run_) && reduce_in_registers(body[i], body[i + 1])) ++i;
    else statement(body[i]);
    if (guard) {
      close();
      all_run_ = true;
    }
  }
}

void Emitter::statement(const Statement& s) {
  switch (s.kind) {
    case Statement::Kind::loop: loop(s); break;
    case Statement::Kind::guard: {
      if (meets(s.body))
        throw Error(ErrorCode::bad_schedule,
                    "threads would meet behind a condition that not all of them pass: " + print(s.condition),
                    "Divide the loop without a rest, or compute what they share further out.");
      std::vector<Expr> parts;
      split_and(s.condition, parts);
      Expr left;
      for (const Expr& part : parts) {
        const bool holds =
            std::any_of(known_.begin(), known_.end(), [&](const Expr& x) { return x.node() == part.node(); });
        if (!holds) left = both(left, part);
      }
      if (left.empty()) return write(s.body);
      const Condition condition = apart(left);
      std::string text = condition.others.empty() ? "" : value(condition.others);
      if (!condition.computed.empty()) text += (text.empty() ? "" : " && ") + value(condition.computed);
      open("if (" + text + ")");
      write(s.body);
      close();
      break;
    }
    case Statement::Kind::allocate: allocate(s); break;
    case Statement::Kind::store: store(s); break;
    case Statement::Kind::update: update(s); break;
    case Statement::Kind::synchronise: line("__syncthreads();"); break;
  }
}

bool Emitter::is_unrolled(const Statement& s) const {
  return constant_extent(s) > 0 && (s.mark.kind == Mark::Kind::unroll || s.mark.kind == Mark::Kind::vectorize ||
                                    unrolled_.count(s.axis.get()) != 0);
}

void Emitter::serial(const Statement& s, const std::string& begin, const std::string& end, int unroll) {
  const std::string i = variable(s.axis);
  if (is_unrolled(s)) line("#pragma unroll");
  else if (unroll > 0) line("#pragma unroll " + str(unroll));
  const bool outside = bound_only_;
  bound_only_ = false;
  open("for (i64 $i = $begin; $i < $end; ++$i)", {{"i", i}, {"begin", begin}, {"end", end}});
  write(s.body);
  close();
  bound_only_ = outside;
}

std::optional<Emitter::Chain> Emitter::chain_of(const Statement& s) const {
  Chain chain;
  std::int64_t iterations = 1;
  const auto unrolls = [&](const Statement& loop) {
    chain.inner.push_back(&loop);
    return is_unrolled(loop) && (iterations *= constant_extent(loop)) <= most_unrolled;
  };
  if (is_unrolled(s) && !unrolls(s)) return {};
  for (const Statement* at = &s; !chain.statement;) {
    if (at->body.size() != 1) return {};
    at = &at->body[0];
    switch (at->kind) {
      case Statement::Kind::loop:
        if (at->mark.kind == Mark::Kind::bind || !unrolls(*at)) return {};
        break;
      case Statement::Kind::guard: split_and(at->condition, chain.conditions); break;
      case Statement::Kind::store:
      case Statement::Kind::update: chain.statement = at; break;
      default: return {};
    }
  }
  return chain;
}

// Which elements lie side by side along the innermost loop, and where that is so.
void Emitter::find_wide(Chain& chain) {
  if (chain.inner.empty()) return;
  const Statement& loop = *chain.inner.back();
  const AxisNode* const axis = loop.axis.get();
  const std::int64_t extent = constant_extent(loop);
  std::set<std::string> conditions;
  const auto fits = [&](const BufferPtr& buffer, const std::vector<Expr>& index) {
    const std::int64_t bytes = extent * size_of(buffer->type), unit = std::min<std::int64_t>(bytes, 16);
    if (extent < 2 || !in_memory(buffer) || (bytes != 4 && bytes != 8 && (bytes % 16 != 0 || bytes > 64)) ||
        !side_by_side(index, axis, unit / size_of(buffer->type)))
      return false;
    const std::string elements = str(unit / size_of(buffer->type));
    if (buffer->argument < 0) {
      if (index.size() > 1) conditions.insert(count(buffer->shape.back()) + " % " + elements + " == 0");
      return true;
    }
    conditions.insert(fill("p.$buffer % $unit == 0", {{"buffer", buffer_name(buffer)}, {"unit", str(unit)}}));
    for (std::size_t d = 0; d < index.size(); ++d)
      conditions.insert(stride(buffer, d) + (d + 1 == index.size() ? " == 1" : " % " + elements + " == 0"));
    return true;
  };
  std::vector<const ExprNode*> reads;
  for (const Expr& x : chain.statement->values) certain_reads(x, reads);
  for (const ExprNode* read : reads) {
    if (parameters_.count(read->tensor.get()) || locals_.count(read->tensor.get())) continue;
    const BufferPtr& buffer = nest_.of(*read);
    if (!written_.count(buffer.get()) && fits(buffer, read->args)) chain.reads.push_back(read);
  }
  const Statement& s = *chain.statement;
  chain.stores =
      s.kind == Statement::Kind::store && std::all_of(s.to.begin(), s.to.end(), [&](const BufferPtr& to) {
        return !registers_.count(to.get()) && can_store_together(to->type) && alone(to).empty() && fits(to, s.index);
      });
  // Addresses of what unrolled loops read along memory are then constants apart.
  const auto unit = [&](const BufferPtr& buffer, const std::vector<Expr>& index) {
    if (buffer->argument < 0 || index.empty()) return;
    const bool moves = std::any_of(chain.inner.begin(), chain.inner.end(),
                                   [&](const Statement* inner) { return has(index.back(), inner->axis.get()); });
    if (!moves || !chain.units.insert(buffer.get()).second) return;
    conditions.insert(stride(buffer, index.size() - 1) + " == 1");
  };
  for (const ExprNode* read : reads)
    if (!parameters_.count(read->tensor.get()) && !locals_.count(read->tensor.get())) unit(nest_.of(*read), read->args);
  if (s.kind == Statement::Kind::store)
    for (const BufferPtr& to : s.to) unit(to, s.index);
  if (chain.reads.empty() && !chain.stores && chain.units.empty()) return;
  for (const std::string& condition : conditions) chain.wide += (chain.wide.empty() ? "" : " && ") + condition;
  if (chain.wide.empty()) chain.wide = "true";
}

// A loop whose guards all hold up to some iteration runs without them until there. Where elements
// lie side by side, and their addresses are multiples of what is read at once, they are read so.
bool Emitter::divide(const Statement& s) {
  if (chain_) return false;
  std::optional<Chain> chain = chain_of(s);
  if (!chain) return false;
  if (is_unrolled(s)) {
    divide_unrolled(s, *chain);
    return true;
  }
  std::vector<Expr> holding;
  std::vector<Bound> bounds;
  for (const Expr& condition : chain->conditions)
    if (const auto bound = bound_of(condition, s.axis.get(), chain->inner)) {
      holding.push_back(condition);
      bounds.push_back(*bound);
    }
  if (holding.size() == chain->conditions.size()) find_wide(*chain);
  if (bounds.empty() && chain->wide.empty()) return false;
  std::int64_t elements = 1;
  for (const Statement* loop : chain->inner) elements *= constant_extent(*loop);
  // Other loops keep more of what is under way, and more registers: they are slower so.
  const bool batched = chain->statement->kind == Statement::Kind::update && chain->inner.size() == 1 &&
                       holding.size() == chain->conditions.size() && elements <= 16 && !chain->reads.empty();
  const int unroll = static_cast<int>(std::clamp<std::int64_t>(16 / elements, 1, 8));
  std::string full = count(s.extent), end = full;
  for (const Bound& bound : bounds) {
    const auto limited = [&](const std::string& so_far, const Expr& rest) {
      const std::string runs =
          bound.step == 0 ? fill("($rest < 0 ? 0ll : $extent)", {{"rest", value(rest)}, {"extent", count(s.extent)}})
                          : fill("iterations($rest, $step)", {{"rest", count(rest)}, {"step", str(bound.step)}});
      return fill("min($so_far, $runs)", {{"so_far", so_far}, {"runs", runs}});
    };
    full = limited(full, bound.worst);
    end = limited(end, bound.best);
  }
  open("");
  line("const i64 full = " + full + ";");
  if (end != full) line("const i64 end = " + end + ";");
  known_ = holding;
  chain_ = &*chain;
  const auto run = [&] {
    batched&& wide_ ? batches(s, unroll) : serial(s, "0", "full", wide_ || !batched ? unroll : 1);
  };
  if (!chain->wide.empty()) {
    open("if (" + chain->wide + ")");
    wide_ = true;
    run();
    wide_ = false;
    close();
    open("else");
    run();
    close();
  } else {
    run();
  }
  known_.clear();
  if (end != full) serial(s, "max(full, 0ll)", "end", 1);
  chain_ = nullptr;
  close();
  return true;
}

// The same for unrolled loops alone: all of their elements at once, or one by one.
void Emitter::divide_unrolled(const Statement& s, const Chain& whole) {
  Chain chain = whole;
  std::vector<Expr> holding;
  std::string all;
  for (const Expr& condition : chain.conditions)
    if (const auto bound = bound_of(condition, nullptr, chain.inner)) {
      holding.push_back(condition);
      all += (all.empty() ? "" : " && ") + value(bound->worst) + " >= 0";
    }
  if (holding.size() == chain.conditions.size()) find_wide(chain);
  const std::string extent = count(s.extent);
  chain_ = &chain;
  if (!all.empty()) open("if (" + all + ")");
  known_ = holding;
  if (!chain.wide.empty()) {
    open("if (" + chain.wide + ")");
    wide_ = true;
    if (&s == chain.inner.back()) innermost(s);
    else serial(s, "0", extent, 0);
    wide_ = false;
    close();
    open("else");
    serial(s, "0", extent, 0);
    close();
  } else {
    serial(s, "0", extent, 0);
  }
  known_.clear();
  if (!all.empty()) {
    close();
    open("else");
    serial(s, "0", extent, 0);
    close();
  }
  chain_ = nullptr;
}

void Emitter::loop(const Statement& s) {
  if (s.mark.kind == Mark::Kind::bind && !now_.shared_loop.node()) return bound(s);
  if (wide_ && &s == chain_->inner.back()) return innermost(s);
  if (divide(s)) return;
  // Several loops of one axis (an initialisation and its reduction) stand beside each other.
  bool last = s.axis->kind == AxisNode::Kind::reduce && !chain_;
  visit_statements(s.body, [&](const Statement& x) { last &= x.kind != Statement::Kind::loop; });
  serial(s, "0", value(s.extent), last ? 4 : 0);  // so many loads are under way
}

// A loop that is bound: its variable is the index of a block or thread.
void Emitter::bound(const Statement& s) {
  const std::string i = variable(s.axis), extent = value(s.extent);
  const std::size_t tag = tag_of(s);
  const bool block = tag < 3;
  if (block && s.axis->kind == AxisNode::Kind::data && now_.joins_blocks && s.body.size() == 1 &&
      s.body[0].kind == Statement::Kind::guard && numbered_ == tag + 1) {
    // Behind the join one block is left: it runs the loop that stores for all.
    open("for (i64 $i = 0; $i < $extent; ++$i)", {{"i", i}, {"extent", extent}});
    write(s.body);
    return close();
  }
  const char* const ids[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z", "thread_x", "thread_y", "thread_z"};
  open("");
  const bool fresh = over_.insert(tag).second;
  line("const i64 $i = $id;", {{"i", i}, {"id", ids[tag]}});
  // Grids and blocks are as long as the loop, but where that is nothing; threads of idle lanes are not active.
  const bool certain = s.extent->kind == ExprNode::Kind::constant && s.extent->value.integer > 0;
  const bool met = s.joins || meets(s.body);
  const std::string exists = fill("$i < $extent", {{"i", i}, {"extent", extent}});
  // All threads take the same way to where they meet.
  if (!certain && !s.joins) open("if ($condition)", {{"condition", met ? "0 < " + extent : exists}});
  if (s.joins && meets(s.body))
    throw Error(ErrorCode::bad_schedule,
                "threads that reduce " + quoted(s.axis->name) + " together would meet within that loop",
                "Compute what they share further out.");
  if (s.joins) {
    // The body is of one thread alone.
    if (all_run_ || !certain) {
      open("if ($condition)", {{"condition", certain ? "active" : all_run_ ? "active && " + exists : exists}});
      const bool all = all_run_;
      all_run_ = false;
      write(s.body);
      all_run_ = all;
      close();
    } else {
      write(s.body);
    }
  } else {
    write(s.body);
  }
  if (!certain && !s.joins) close();
  close();
  if (fresh) over_.erase(tag);
  if (!s.joins) return;
  block ? join_blocks(s) : join_threads(s);
}

}  // namespace postlude::inline v0::te
