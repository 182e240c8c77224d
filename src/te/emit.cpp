#include "te/emitter.h"
#include "te/interval.h"
#include "te/schedule.h"

#include <algorithm>
#include <cctype>

namespace postlude::inline v0::te {
namespace {

const char* const loops_text =
#include "cuda/device/loops.cu"
    ;

constexpr std::uint32_t deep = 64;          // an expression from which on its parts are not written by recursion
constexpr std::int64_t most_shared = 4096;  // elements of an array that a block shares

std::string storage(DType type) { return type == DType::boolean ? "bool" : std::string(name(type)); }

bool joins(const std::vector<Statement>& body) {
  return std::any_of(body.begin(), body.end(), [](const Statement& s) { return s.joins || joins(s.body); });
}

bool shares(const std::vector<Statement>& body) {
  return std::any_of(body.begin(), body.end(),
                     [](const Statement& s) { return s.kind == Statement::Kind::synchronise || shares(s.body); });
}

// Whether C++ would take it for an int: it has no variable and no element.
bool is_plain_number(const Expr& x) {
  bool found = false;
  visit(x,
        [&](const ExprNode& node) { found |= node.kind == ExprNode::Kind::axis || node.kind == ExprNode::Kind::read; });
  return !found;
}

// An index, which does not wrap, is computed by C++'s own operator; null: it is not.
const char* index_operator(const Expr& x) {
  if (x->type != DType::i64 || is_computed(x)) return nullptr;
  switch (x->op) {
    case Op::add: return "+";
    case Op::sub: return "-";
    case Op::mul: return "*";
    case Op::floordiv: break;
    default: return nullptr;
  }
  const Polynomial p = polynomial(x->args[0]);
  const bool natural =
      p.constant >= 0 && std::all_of(p.terms.begin(), p.terms.end(), [](const auto& term) {
        return term.factor > 0 && std::all_of(term.atoms.begin(), term.atoms.end(),
                                              [](const Expr& atom) { return atom->kind == ExprNode::Kind::axis; });
      });
  return natural ? "/" : nullptr;
}

}  // namespace

std::string spelled(const std::string& name) {
  std::string text;
  for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) ? "_" + text : text;
}

// Whether threads meet in it: then all of them run it, idle ones too.
bool meets(const std::vector<Statement>& body) { return joins(body) || shares(body); }

// Whether all that is stored in memory is within loops that are bound to an axis.
bool Emitter::stores_within(const std::vector<Statement>& body, std::size_t tag) const {
  return std::all_of(body.begin(), body.end(), [&](const Statement& s) {
    if (s.kind == Statement::Kind::loop && s.mark.kind == Mark::Kind::bind && tag_of(s) == tag) return true;
    const bool stores = s.kind == Statement::Kind::store || s.kind == Statement::Kind::update;
    if (stores && std::any_of(s.to.begin(), s.to.end(), [&](const BufferPtr& to) { return in_memory(to); }))
      return false;
    return stores_within(s.body, tag);
  });
}

void visit_statements(const std::vector<Statement>& body, const std::function<void(const Statement&)>& visitor) {
  for (const Statement& s : body) {
    visitor(s);
    visit_statements(s.body, visitor);
  }
}

std::string Emitter::offset(const BufferPtr& buffer, const std::vector<Expr>& at) {
  std::string text;
  if (buffer->argument >= 0) {
    for (std::size_t d = 0; d < at.size(); ++d) {
      const bool consecutive = d + 1 == at.size() && wide_ && chain_->units.count(buffer.get());
      text += (d ? " + (" : "(") + value(at[d]) + (consecutive ? ")" : ") * " + stride(buffer, d));
    }
  } else {
    for (std::size_t d = 0; d < at.size(); ++d)
      text = d == 0 ? value(at[d])
                    : fill("($before) * ($extent) + $at",
                           {{"before", text}, {"extent", value(buffer->shape[d])}, {"at", value(at[d])}});
  }
  return text.empty() ? "0" : text;
}

std::string Emitter::load(const BufferPtr& buffer, const std::vector<Expr>& at) {
  if (const auto found = registers_.find(buffer.get()); found != registers_.end()) return found->second.name;
  if (in_memory(buffer))
    return fill("${load}_$type(p.$buffer, $at)", {{"load", written_.count(buffer.get()) ? "load" : "fetch"},
                                                  {"type", storage(buffer->type)},
                                                  {"buffer", buffer_name(buffer)},
                                                  {"at", offset(buffer, at)}});
  return buffer_name(buffer) + "[" + offset(buffer, at) + "]";
}

// What no loop around runs over computes the same everywhere: one thread writes it to memory, one of each block to what
// the block shares.
std::string Emitter::alone(const BufferPtr& buffer) const {
  static const char* const first[] = {"blockIdx.x == 0", "blockIdx.y == 0", "blockIdx.z == 0",
                                      "thread_x == 0",   "thread_y == 0",   "thread_z == 0"};
  const bool memory = in_memory(buffer);
  std::string alone;
  for (std::size_t tag = memory ? 0 : 3; tag < 6 && (memory || buffer->scope == Buffer::Scope::shared); ++tag)
    if (!(tag < 3 ? now_.grid[tag] : now_.block[tag - 3]).empty() && !over_.count(tag))
      alone += (alone.empty() ? "if (" : " && ") + std::string(first[tag]);
  return alone.empty() ? alone : alone + ") ";
}

void Emitter::put(const BufferPtr& buffer, const std::vector<Expr>& at, const std::string& value, DType type) {
  if (const auto found = registers_.find(buffer.get()); found != registers_.end())
    return line(found->second.name + " = " + value + ";");
  if (const auto found = collected_.find(buffer.get()); found != collected_.end())
    return line(found->second + " = " + value + ";");
  const std::string alone = this->alone(buffer);
  if (in_memory(buffer))
    return line("${alone}store_$type(p.$buffer, $at, $value);", {{"alone", alone},
                                                                 {"type", storage(buffer->type)},
                                                                 {"buffer", buffer_name(buffer)},
                                                                 {"at", offset(buffer, at)},
                                                                 {"value", value}});
  line("$alone$buffer[$at] = $value;", {{"alone", alone},
                                        {"buffer", buffer_name(buffer)},
                                        {"at", offset(buffer, at)},
                                        {"value", cuda::rounded(value, type, buffer->type)}});
}

// What it is made of is written first, and kept until the last that uses it.
std::string Emitter::value(const Expr& x) {
  if (const auto found = made_.find(x.node().get()); found != made_.end()) {
    if (--found->second.uses > 0) return found->second.text;
    return std::move(made_.extract(found).mapped().text);
  }
  if (!made_.empty() || x->depth < deep) return text(x);
  const std::vector<const Expr*> inner = parts(x);
  for (const Expr* const each : inner)
    for (const Expr& arg : (*each)->args) ++made_[arg.node().get()].uses;
  for (const Expr* const each : inner)
    if (each != &x) made_[each->node().get()].text = text(*each);
  std::string all = text(x);
  made_.clear();
  return all;
}

std::string Emitter::text(const Expr& x) {
  switch (x->kind) {
    case ExprNode::Kind::constant:
      if (x->type == DType::i64 && x->value.integer > -(1 << 30) && x->value.integer < 1 << 30)
        return x->value.integer < 0 ? "(" + str(x->value.integer) + ")" : str(x->value.integer);
      return cuda::device_literal(x->value, x->type);
    case ExprNode::Kind::axis:
      return x->axis->kind == AxisNode::Kind::size ? "p." + variable(x->axis) : variable(x->axis);
    case ExprNode::Kind::read: {
      if (const auto found = parameters_.find(x->tensor.get()); found != parameters_.end()) return found->second;
      if (const auto found = locals_.find(x->tensor.get()); found != locals_.end()) return found->second;
      if (const auto found = fetched_.find(x.node().get()); found != fetched_.end()) return found->second;
      const BufferPtr& buffer = nest_.of(*x.node());
      std::vector<Expr> index = x->args;
      for (std::size_t d = 0; d < index.size(); ++d)  // a CPU refuses what is read from memory and leaves
        if (!is_bounded(index[d]))
          index[d] = operation(Op::max, {operation(Op::min, {index[d], buffer->shape[d] - Expr(1)}), Expr(0)});
      return load(buffer, index);
    }
    case ExprNode::Kind::operation: break;
    case ExprNode::Kind::reduce: throw Error(ErrorCode::internal, "a reduction within a value");
  }
  std::vector<std::string> args;
  std::vector<DType> types;
  for (const Expr& arg : x->args) {
    args.push_back(value(arg));
    types.push_back(arg->type);
  }
  if (x->op == Op::where)  // reads what it chooses
    return fill(
        "$type($condition ? $one : $other)",
        {{"type", x->type == DType::i64 ? "i64" : ""}, {"condition", args[0]}, {"one", args[1]}, {"other", args[2]}});
  if (const char* const sign = index_operator(x))
    return fill("($a $sign $b)", {{"a", args[0]}, {"sign", sign}, {"b", args[1]}});
  // `c ? int : long` and the like are joined by casts that the expression has.
  lower::Instruction instruction;
  instruction.op = x->op;
  instruction.type = x->type;
  instruction.dtype = x->dtype;
  instruction.round = x->round;
  instruction.seed = x->seed;
  instruction.random_stream = x->random_stream;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (types[i] == DType::i64 && is_plain_number(x->args[i])) args[i] = "i64(" + args[i] + ")";
  cuda::Place place;
  if (x->op == Op::random) {
    place = {"0", "(int)" + args[0], "(int)" + args[1], {}};
    instruction.axes = tile_axes;
  } else if (x->op == Op::cast && args.size() == 2) {
    place.random = args[1];
  }
  return cuda::expression(instruction, args, types, place, functions_);
}

std::string Emitter::temporary(DType type, const std::string& value) {
  const std::string name = numbered("t");
  line("const $type $name = $value;", {{"type", device_type(type)}, {"name", name}, {"value", value}});
  return name;
}

// combine(a, b) as statements; the names of the results.
std::vector<std::string> Emitter::combined(const ReducerNode& reducer, const std::vector<std::string>& a,
                                           const std::vector<std::string>& b, const std::vector<DType>& types,
                                           bool in_order) {
  if (reducer.known == Known::argmax || reducer.known == Known::argmin) {
    const std::string chosen = numbered("t");
    line("const bool $chosen = $takes<$largest>($a, $a_index, $b$b_index);",
         {{"chosen", chosen},
          {"takes", in_order ? "exceeds" : "takes"},
          {"largest", reducer.known == Known::argmax ? "true" : "false"},
          {"a", a[1]},
          {"a_index", a[0]},
          {"b", b[1]},
          {"b_index", in_order ? "" : ", " + b[0]}});
    std::vector<std::string> results;
    for (std::size_t i = 0; i < 2; ++i)
      results.push_back(temporary(types[i], fill("$chosen ? $b : $a", {{"chosen", chosen}, {"b", b[i]}, {"a", a[i]}})));
    return results;
  }
  std::vector<Expr> sides[2];
  for (int side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      auto node = std::make_shared<OperationNode>();
      node->dtypes = {types[i]};
      sides[side].push_back(Tensor(node, 0).at({}));
      parameters_[node.get()] = (side == 0 ? a : b)[i];
    }
  }
  std::vector<std::string> results;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Expr result = reducer.combine(sides[0], sides[1]).at(i);
    results.push_back(temporary(types[i], value(converted(result, types[i]))));
  }
  parameters_.clear();
  return results;
}

void Emitter::allocate(const Statement& s) {
  const BufferPtr& buffer = s.to[0];
  std::int64_t elements = 1;
  for (const Expr& extent : buffer->shape) {
    const Polynomial p = polynomial(extent);
    if (!p.is_constant())
      throw Error(
          ErrorCode::unsupported, "the size of " + quoted(buffer->name) + " within a kernel is " + print(extent),
          "A GPU's threads hold arrays of constant size: compute it at the root, or split with constant factors.");
    elements *= p.constant;
  }
  const std::string type = device_type(compute_type(buffer->type));
  if (buffer->scope == Buffer::Scope::shared && elements > most_shared)
    throw Error(ErrorCode::unsupported,
                quoted(buffer->name) + " has " + std::to_string(elements) + " elements in shared memory",
                "There are " + std::to_string(most_shared) + " at most: split with smaller factors.");
  if (buffer->scope == Buffer::Scope::shared)
    shared_ += fill("  __shared__ $type $buffer[$elements];\n",
                    {{"type", type}, {"buffer", buffer_name(buffer)}, {"elements", str(elements)}});
  else if (buffer->shape.empty()) {
    registers_[buffer.get()].name = buffer_name(buffer);
    line(type + " " + buffer_name(buffer) + ";");
  } else {
    line("$type $buffer[$elements];", {{"type", type}, {"buffer", buffer_name(buffer)}, {"elements", str(elements)}});
  }
}

void Emitter::store(const Statement& s) {
  for (std::size_t i = 0; i < s.to.size(); ++i) {
    Expr x = s.values[i];
    if (x->type != compute_type(s.to[i]->type)) x = converted(x, compute_type(s.to[i]->type));
    put(s.to[i], s.index, value(x), x->type);
  }
}

void Emitter::update(const Statement& s) {
  std::vector<DType> types;
  std::vector<std::string> a, b;
  open("");
  for (std::size_t i = 0; i < s.to.size(); ++i) {
    types.push_back(s.values[i]->type);
    a.push_back(load(s.to[i], s.index));
    b.push_back(temporary(types.back(), value(s.values[i])));
  }
  const std::vector<std::string> result = combined(*s.reducer, a, b, types, in_order(s));
  for (std::size_t i = 0; i < s.to.size(); ++i) put(s.to[i], s.index, result[i], types[i]);
  close();
}

// Whether an update is argmax's, and its first value, the index, grows from each iteration to the next: then an equal
// element never comes before what is there.
bool Emitter::counts_up(const Statement& loops, const BufferPtr& to) const {
  std::vector<const Statement*> reduced;
  const Statement* s = &loops;
  for (; s->kind != Statement::Kind::update; s = &s->body[0]) {
    if (s->body.size() != 1 || (s->kind != Statement::Kind::loop && s->kind != Statement::Kind::guard)) return false;
    if (s->kind == Statement::Kind::loop && s->axis->kind == AxisNode::Kind::reduce) reduced.push_back(s);
  }
  if (s->reducer->known != Known::argmax && s->reducer->known != Known::argmin) return false;
  if (s->to[0] != to || s->values[0]->type != DType::i64 || te::is_computed(s->values[0])) return false;
  const Polynomial index = polynomial(s->values[0]);
  std::int64_t span = 0;  // how far the loops within take it
  for (auto loop = reduced.rbegin(); loop != reduced.rend(); ++loop) {
    std::int64_t step = 0;
    for (const Polynomial::Term& term : index.terms) {
      const bool alone = term.atoms.size() == 1 && term.atoms[0]->kind == ExprNode::Kind::axis;
      if (alone && term.atoms[0]->axis == (*loop)->axis) step = term.factor;
      else if (!alone) return false;
    }
    const Polynomial extent = polynomial((*loop)->extent);
    if (step <= span || (!extent.is_constant() && std::next(loop) != reduced.rend())) return false;
    span += step * (extent.constant - 1);
  }
  return true;
}

bool Emitter::in_order(const Statement& update) const {
  const auto found = registers_.find(update.to[0].get());
  return found != registers_.end() && found->second.in_order;
}

// A loop that all threads of the grid share.
void Emitter::shared_among_all(const Statement& s) {
  const std::string i = variable(s.axis);
  now_.shared_loop = s.extent;
  open("for (i64 $i = blockIdx.x * ${threads}ll + threadIdx.x; $i < $extent; $i += gridDim.x * ${threads}ll)",
       {{"i", i}, {"threads", str(auto_threads)}, {"extent", value(s.extent)}});
  write(s.body);
  close();
}

namespace {

// Refuses a loop whose threads are too many for a block, as far as their numbers are constant.
void check_threads(const KernelSource& kernel, const Statement& s) {
  std::int64_t threads = 1;
  for (const Expr& extent : kernel.block)
    if (!extent.empty() && polynomial(extent).is_constant() && threads <= 1024)
      threads *= std::max<std::int64_t>(polynomial(extent).constant, 1);
  if (threads > 1024)
    refuse("bind: " + quoted(s.axis->name) + " of " + print(s.extent) + ", which " + s.mark.thread->tag +
               " runs, makes blocks of " + std::to_string(threads) + " threads",
           "A block has 1024 at most: split the loop.");
}

}  // namespace

void Emitter::count_reads(const Statement& s) {
  std::set<const Buffer*> read;
  for (const Expr& x : s.values)
    visit(x, [&](const ExprNode& node) {
      if (node.kind == ExprNode::Kind::read) read.insert(nest_.of(node).get());
    });
  for (const Buffer* const buffer : read) ++readers_[buffer];
}

void Emitter::kernel(std::size_t first, std::size_t last) {
  std::vector<Statement> body;
  for (std::size_t i = first; i < last; ++i) {
    const Statement& s = nest_.body[i];
    if (s.kind == Statement::Kind::allocate && s.to[0]->scope == Buffer::Scope::global) continue;
    body.push_back(s);
  }
  if (body.empty()) return;
  now_ = {};
  code_.clear();
  shared_.clear();
  registers_.clear();
  numbered_ = 0;
  over_.clear();
  written_.clear();
  readers_.clear();
  bound_only_ = true;
  now_.name = "kernel" + str(static_cast<std::int64_t>(out_.kernels.size()));
  bool binds = false, joins[6] = {};
  visit_statements(body, [&](const Statement& s) {
    for (const BufferPtr& to : s.to) written_.insert(to.get());
    count_reads(s);
    if (s.kind != Statement::Kind::loop || s.mark.kind != Mark::Kind::bind) return;
    binds = true;
    const std::size_t tag = tag_of(s);
    Expr& extent = tag < 3 ? now_.grid[tag] : now_.block[tag - 3];
    if (extent.empty()) extent = s.extent;
    joins[tag] |= s.joins;
    if (tag >= 3) check_threads(now_, s);
  });
  for (std::size_t tag = 0; tag < 6; ++tag) now_.empties[tag] = !joins[tag] && stores_within(body, tag);
  const bool one =
      body.size() == 1 && body[0].kind == Statement::Kind::loop && body[0].axis->kind == AxisNode::Kind::data;
  std::string head;
  if (!binds && one && !meets(body)) {  // where threads would share memory, one runs alone
    all_run_ = false;
    shared_among_all(body[0]);
  } else {
    all_run_ = meets(body);
    const auto size = [&](int d) {
      return now_.block[d].empty() ? std::string("1") : "max(i64(" + value(now_.block[d]) + "), 1ll)";
    };
    head = fill(R"(  const i64 thread = threadIdx.x, threads_x = $x, threads_y = $y, threads_z = $z;
  const i64 thread_x = thread % threads_x, thread_y = thread / threads_x % threads_y, thread_z = thread / (threads_x * threads_y);
  const i64 threads = (threads_x * threads_y * threads_z + 31) / 32 * 32;
  const bool active = thread < threads_x * threads_y * threads_z;
)",
                {{"x", size(0)}, {"y", size(1)}, {"z", size(2)}});
    if (!all_run_) head += "  if (!active) return;\n";
    write(body);
  }
  std::int64_t threads = now_.shared_loop.node() ? auto_threads : 1;
  for (const Expr& extent : now_.block) {
    if (extent.empty()) continue;
    const Polynomial p = polynomial(extent);
    threads = p.is_constant() && threads <= 1024 ? threads * std::max<std::int64_t>(p.constant, 1) : 1025;
  }
  std::string follow = "  follow_previous_launch();\n";
  for (const BufferPtr& buffer : written_before_)
    follow += fill("  p.$buffer = settled(p.$buffer);\n", {{"buffer", buffer_name(buffer)}});
  visit_statements(body, [&](const Statement& s) {
    for (const BufferPtr& to : s.to)
      if (in_memory(to) && std::find(written_before_.begin(), written_before_.end(), to) == written_before_.end())
        written_before_.push_back(to);
  });
  out_.text +=
      fill(R"(extern "C" __global__ void __launch_bounds__($threads) $kernel(const __grid_constant__ Params given) {
$shared  Params p = given;
$follow$head$code}
)",
           {{"threads", str(std::min<std::int64_t>((threads + 31) / 32 * 32, 1024))},
            {"kernel", now_.name},
            {"shared", shared_},
            {"follow", follow},
            {"head", head},
            {"code", code_}});
  out_.kernels.push_back(now_);
}

CudaSource Emitter::run() {
  static const std::set<std::string> reserved = reserved_names(cuda::base_source() + loops_text);
  names_.used = reserved;
  for (std::size_t i = 0; i < nest_.stages.size(); ++i) names_.used.insert({"partial" + str(i), "counters" + str(i)});
  // Parameters: names first, so that no loop takes one.
  std::string fields;
  for (const BufferPtr& argument : nest_.arguments) fields += "  i64 " + buffer_name(argument) + ";\n";
  std::set<const AxisNode*> known;
  const auto sizes = [&](const Expr& x) {
    if (x.empty()) return;
    visit(x, [&](const ExprNode& node) {
      if (node.kind == ExprNode::Kind::axis && node.axis->kind == AxisNode::Kind::size &&
          known.insert(node.axis.get()).second)
        out_.sizes.push_back(node.axis);
    });
  };
  for (const BufferPtr& argument : nest_.arguments)
    for (const Expr& extent : argument->shape) sizes(extent);
  for (std::size_t stage = 0; stage < nest_.stages.size(); ++stage)
    for (std::size_t i = nest_.stages[stage].first; i < nest_.stages[stage].second; ++i) {
      const Statement& s = nest_.body[i];
      if (s.kind != Statement::Kind::allocate || s.to[0]->scope != Buffer::Scope::global) continue;
      globals_.insert(s.to[0].get());
      out_.globals.push_back(s.to[0]);
      fields += "  i64 " + buffer_name(s.to[0]) + ";\n";
    }
  for (const BufferPtr& argument : nest_.arguments)
    for (std::size_t d = 0; d < argument->shape.size(); ++d)
      fields += fill("  i64 ${buffer}_stride$axis;\n", {{"buffer", buffer_name(argument)}, {"axis", str(d)}});
  for (const AxisPtr& size : out_.sizes) fields += "  i64 " + variable(size) + ";\n";
  for (const auto& [first, last] : nest_.stages) kernel(first, last);
  for (std::size_t i = 0; i < out_.joining; ++i) fields += fill("  i64 partial$i, counters$i;\n", {{"i", str(i)}});
  out_.text = "#pragma nv_diag_suppress 177\n" + cuda::base_source() + loops_text + "\n// The nest:\n//\n" +
              [&] {
                std::string nest = "// " + print(nest_), commented;
                for (const char c : nest) commented += c == '\n' ? std::string("\n// ") : std::string(1, c);
                return commented;
              }() +
              "\nstruct Params {\n" + fields + "};\n\n" + functions_.text() + out_.text;
  return std::move(out_);
}

CudaSource emit(const Nest& nest) { return Emitter(nest).run(); }

}  // namespace postlude::inline v0::te
