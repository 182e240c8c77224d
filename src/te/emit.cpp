#include "te/emit.h"

#include "cuda/emit/gemm_source.h"
#include "cuda/emit/ops.h"
#include "te/linear.h"

#include <algorithm>
#include <optional>
#include <set>

namespace postlude::inline v0::te {
namespace {

using cuda::device_type;
using cuda::str;

const char* const tags[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"};

constexpr std::int64_t most_shared = 4096;  // elements of an array that a block shares

std::string spelled(const std::string& name) {
  std::string text;
  for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) ? "_" + text : text;
}

std::string storage(DType type) { return type == DType::boolean ? "bool" : std::string(name(type)); }

bool joins(const std::vector<Statement>& body) {
  return std::any_of(body.begin(), body.end(), [](const Statement& s) { return s.joins || joins(s.body); });
}

bool shares(const std::vector<Statement>& body) {
  return std::any_of(body.begin(), body.end(),
                     [](const Statement& s) { return s.kind == Statement::Kind::synchronise || shares(s.body); });
}

// Whether threads meet in it: then all of them run it, idle ones too.
bool meets(const std::vector<Statement>& body) { return joins(body) || shares(body); }

// Whether C++ would take it for an int: it has no variable and no element.
bool is_plain_number(const Expr& x) {
  bool found = false;
  visit(x,
        [&](const ExprNode& node) { found |= node.kind == ExprNode::Kind::axis || node.kind == ExprNode::Kind::read; });
  return !found;
}

void visit_statements(const std::vector<Statement>& body, const std::function<void(const Statement&)>& visitor) {
  for (const Statement& s : body) {
    visitor(s);
    visit_statements(s.body, visitor);
  }
}

class Emitter {
 public:
  explicit Emitter(const Nest& nest) : nest_(nest) {}
  CudaSource run();

 private:
  struct Names {
    std::unordered_map<const void*, std::string> names;
    std::set<std::string> used;
    const std::string& of(const void* key, const std::string& wanted) {
      if (const auto found = names.find(key); found != names.end()) return found->second;
      std::string name = spelled(wanted);
      for (int i = 1; !used.insert(name).second; ++i) name = spelled(wanted) + "_" + str(i);
      return names.emplace(key, name).first->second;
    }
  };

  void kernel(std::size_t first, std::size_t last);
  void write(const std::vector<Statement>& body);
  void statement(const Statement& s);
  void loop(const Statement& s);
  void shared_among_all(const Statement& s);
  void allocate(const Statement& s);
  void store(const Statement& s);
  void update(const Statement& s);
  void join_threads(const Statement& s);
  void join_blocks(const Statement& s);
  bool reduce_in_registers(const Statement& init, const Statement& loops);
  std::vector<std::string> combined(const ReducerNode& reducer, const std::vector<std::string>& a,
                                    const std::vector<std::string>& b, const std::vector<DType>& types);
  std::string value(const Expr& x);
  std::string index(const Expr& x) { return value(x); }
  std::string offset(const BufferPtr& buffer, const std::vector<Expr>& at);
  std::string load(const BufferPtr& buffer, const std::vector<Expr>& at, DType type);
  void put(const BufferPtr& buffer, const std::vector<Expr>& at, const std::string& value, DType type);
  std::string variable(const AxisPtr& axis) { return names_.of(axis.get(), axis->name); }
  std::string buffer_name(const BufferPtr& buffer) { return names_.of(buffer.get(), buffer->name); }
  void line(const std::string& text) { code_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + text + "\n"; }
  // A block of code that only threads that are not idle run.
  void open(const std::string& head) {
    line(head.empty() ? "{" : head + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }
  [[nodiscard]] bool in_memory(const BufferPtr& buffer) const {
    return buffer->argument >= 0 || globals_.count(buffer.get()) != 0;
  }

  const Nest& nest_;
  CudaSource out_;
  Names names_;
  cuda::Functions functions_;
  std::set<const Buffer*> globals_;
  std::map<const Buffer*, std::string> registers_;
  std::unordered_map<const OperationNode*, std::string> parameters_;  // of a combiner
  KernelSource now_;
  std::string code_, shared_;
  int depth_ = 1, temporaries_ = 0;
  bool all_run_ = false;  // idle threads stand here too
  bool bound_only_ = true;
  std::size_t numbered_ = 0;    // 1 + the axis along which blocks have joined
  std::set<std::size_t> over_;  // the axes of blocks and threads that a loop around runs over
};

std::string Emitter::offset(const BufferPtr& buffer, const std::vector<Expr>& at) {
  std::string text;
  if (buffer->argument >= 0) {
    for (std::size_t d = 0; d < at.size(); ++d)
      text += (d ? " + " : "") +
              ("(" + index(at[d]) + ") * p." + buffer_name(buffer) + "_stride" + str(static_cast<int>(d)));
  } else {
    for (std::size_t d = 0; d < at.size(); ++d)
      text = d == 0 ? index(at[d]) : "(" + text + ") * (" + index(buffer->shape[d]) + ") + " + index(at[d]);
  }
  return text.empty() ? "0" : text;
}

std::string Emitter::load(const BufferPtr& buffer, const std::vector<Expr>& at, DType) {
  if (const auto found = registers_.find(buffer.get()); found != registers_.end()) return found->second;
  if (in_memory(buffer))
    return "load_" + storage(buffer->type) + "(p." + buffer_name(buffer) + ", " + offset(buffer, at) + ")";
  return buffer_name(buffer) + "[" + offset(buffer, at) + "]";
}

void Emitter::put(const BufferPtr& buffer, const std::vector<Expr>& at, const std::string& value, DType type) {
  if (const auto found = registers_.find(buffer.get()); found != registers_.end())
    return line(found->second + " = " + value + ";");
  // What no loop around runs over computes the same everywhere: one thread writes it to memory.
  static const char* const first[] = {"blockIdx.x == 0", "blockIdx.y == 0", "blockIdx.z == 0",
                                      "thread_x == 0",   "thread_y == 0",   "thread_z == 0"};
  std::string alone;
  for (std::size_t tag = 0; tag < 6 && (in_memory(buffer) || buffer->scope == Buffer::Scope::shared); ++tag)
    if (!(tag < 3 ? now_.grid[tag] : now_.block[tag - 3]).empty() && !over_.count(tag))
      alone += (alone.empty() ? "if (" : " && ") + std::string(first[tag]);
  if (!alone.empty()) alone += ") ";
  if (in_memory(buffer))
    return line(alone + "store_" + storage(buffer->type) + "(p." + buffer_name(buffer) + ", " + offset(buffer, at) +
                ", " + value + ");");
  line(alone + buffer_name(buffer) + "[" + offset(buffer, at) + "] = " + cuda::rounded(value, type, buffer->type) +
       ";");
}

std::string Emitter::value(const Expr& x) {
  switch (x->kind) {
    case ExprNode::Kind::constant:
      if (x->type == DType::i64 && x->value.integer >= 0 && x->value.integer < (1 << 30)) return str(x->value.integer);
      return cuda::device_literal(x->value, x->type);
    case ExprNode::Kind::axis:
      return x->axis->kind == AxisNode::Kind::size ? "p." + names_.of(x->axis.get(), x->axis->name) : variable(x->axis);
    case ExprNode::Kind::read: {
      if (const auto found = parameters_.find(x->tensor.get()); found != parameters_.end()) return found->second;
      return load(nest_.of(*x.node()), x->args, x->type);
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
    return (x->type == DType::i64 ? "i64(" : "(") + args[0] + " ? " + args[1] + " : " + args[2] + ")";
  if (x->type == DType::i64 && !reads(x)) {  // indices, which do not wrap
    if (x->op == Op::add) return "(" + args[0] + " + " + args[1] + ")";
    if (x->op == Op::sub) return "(" + args[0] + " - " + args[1] + ")";
    if (x->op == Op::mul) return "(" + args[0] + " * " + args[1] + ")";
    const Polynomial p = x->op == Op::floordiv ? polynomial(x->args[0]) : Polynomial{};
    const bool natural =
        x->op == Op::floordiv && p.constant >= 0 && std::all_of(p.terms.begin(), p.terms.end(), [](const auto& term) {
          return term.factor > 0 && std::all_of(term.atoms.begin(), term.atoms.end(),
                                                [](const Expr& atom) { return atom->kind == ExprNode::Kind::axis; });
        });
    if (natural) return "(" + args[0] + " / " + args[1] + ")";
  }
  // `c ? int : long` and the like are joined by casts that the expression has.
  lower::Instruction instruction;
  instruction.op = x->op;
  instruction.type = x->type;
  instruction.dtype = x->dtype;
  instruction.round = x->round;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (types[i] == DType::i64 && is_plain_number(x->args[i])) args[i] = "i64(" + args[i] + ")";
  return cuda::expression(instruction, args, types, {}, functions_);
}

// combine(a, b) as statements; the names of the results.
std::vector<std::string> Emitter::combined(const ReducerNode& reducer, const std::vector<std::string>& a,
                                           const std::vector<std::string>& b, const std::vector<DType>& types) {
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
    results.push_back("t" + str(temporaries_++));
    const Expr result = reducer.combine(sides[0], sides[1]).at(i);
    line("const " + device_type(types[i]) + " " + results.back() + " = " + value(converted(result, types[i])) + ";");
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
    shared_ += "  __shared__ " + type + " " + buffer_name(buffer) + "[" + str(elements) + "];\n";
  else if (buffer->shape.empty()) {
    registers_[buffer.get()] = buffer_name(buffer);
    line(type + " " + buffer_name(buffer) + ";");
  } else {
    line(type + " " + buffer_name(buffer) + "[" + str(elements) + "];");
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
    a.push_back(load(s.to[i], s.index, types.back()));
    b.push_back("t" + str(temporaries_++));
    line("const " + device_type(types.back()) + " " + b.back() + " = " + value(s.values[i]) + ";");
  }
  const std::vector<std::string> result = combined(*s.reducer, a, b, types);
  for (std::size_t i = 0; i < s.to.size(); ++i) put(s.to[i], s.index, result[i], types[i]);
  close();
}

// A result that is initialised, then reduced by the loops behind, stays in registers until they end.
bool Emitter::reduce_in_registers(const Statement& init, const Statement& loops) {
  if (init.kind != Statement::Kind::store ||
      (loops.kind != Statement::Kind::loop && loops.kind != Statement::Kind::guard))
    return false;
  if (std::any_of(init.to.begin(), init.to.end(), [&](const BufferPtr& b) { return registers_.count(b.get()) != 0; }))
    return false;
  int updates = 0;
  bool fits = true;
  visit_statements(loops.body, [&](const Statement& s) {
    if (s.joins) fits = false;
    const bool touches = std::any_of(s.to.begin(), s.to.end(), [&](const BufferPtr& b) { return b == init.to[0]; });
    for (const Expr& x : s.values)
      visit(x, [&](const ExprNode& node) {
        if (node.kind != ExprNode::Kind::read) return;
        const BufferPtr& from = nest_.of(node);
        fits &= std::find(init.to.begin(), init.to.end(), from) == init.to.end();
      });
    if (!touches) return;
    ++updates;
    fits &= s.kind == Statement::Kind::update && s.to == init.to && s.index.size() == init.index.size();
    for (std::size_t d = 0; fits && d < s.index.size(); ++d) fits = equal(*s.index[d].node(), *init.index[d].node());
  });
  if (!fits || updates != 1) return false;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < init.to.size(); ++i) {
    names.push_back(spelled(init.to[i]->name) + "_value" + str(temporaries_++));
    line(device_type(compute_type(init.to[i]->type)) + " " + names.back() + " = " + value(init.values[i]) + ";");
    registers_[init.to[i].get()] = names.back();
  }
  statement(loops);
  for (std::size_t i = 0; i < init.to.size(); ++i) {
    registers_.erase(init.to[i].get());
    put(init.to[i], init.index, names[i], compute_type(init.to[i]->type));
  }
  return true;
}

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
    case Statement::Kind::guard:
      if (meets(s.body))
        throw Error(ErrorCode::bad_schedule,
                    "threads would meet behind a condition that not all of them pass: " + print(s.condition),
                    "Divide the loop without a rest, or compute what they share further out.");
      open("if (" + value(s.condition) + ")");
      write(s.body);
      close();
      break;
    case Statement::Kind::allocate: allocate(s); break;
    case Statement::Kind::store: store(s); break;
    case Statement::Kind::update: update(s); break;
    case Statement::Kind::synchronise: line("__syncthreads();"); break;
  }
}

void Emitter::loop(const Statement& s) {
  const std::string i = variable(s.axis), extent = value(s.extent);
  if (s.mark.kind != Mark::Kind::bind || now_.shared_loop.node()) {
    // Several loops of one axis (an initialisation and its reduction) stand beside each other.
    bool innermost = s.axis->kind == AxisNode::Kind::reduce;
    visit_statements(s.body, [&](const Statement& x) { innermost &= x.kind != Statement::Kind::loop; });
    if (s.mark.kind == Mark::Kind::unroll || s.mark.kind == Mark::Kind::vectorize) line("#pragma unroll");
    else if (innermost) line("#pragma unroll 4");  // so many loads are under way
    const bool outside = bound_only_;
    bound_only_ = false;
    open("for (i64 " + i + " = 0; " + i + " < " + extent + "; ++" + i + ")");
    write(s.body);
    close();
    bound_only_ = outside;
    return;
  }
  const auto tag =
      static_cast<std::size_t>(std::find(std::begin(tags), std::end(tags), s.mark.thread->tag) - std::begin(tags));
  const bool block = tag < 3;
  if (block && s.axis->kind == AxisNode::Kind::data && now_.joins_blocks && s.body.size() == 1 &&
      s.body[0].kind == Statement::Kind::guard && numbered_ == tag + 1) {
    // Behind the join one block is left: it runs the loop that stores for all.
    open("for (i64 " + i + " = 0; " + i + " < " + extent + "; ++" + i + ")");
    write(s.body);
    return close();
  }
  const char* const ids[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z", "thread_x", "thread_y", "thread_z"};
  open("");
  const bool fresh = over_.insert(tag).second;
  line("const i64 " + i + " = " + ids[tag] + ";");
  // Grids and blocks are as long as the loop, but where that is nothing; threads of idle lanes are not active.
  const bool certain = s.extent->kind == ExprNode::Kind::constant && s.extent->value.integer > 0;
  const bool met = s.joins || meets(s.body);
  if (!certain && !met) open("if (" + i + " < " + extent + ")");
  if (s.joins && meets(s.body))
    throw Error(ErrorCode::bad_schedule,
                "threads that reduce " + quoted(s.axis->name) + " together would meet within that loop",
                "Compute what they share further out.");
  if (s.joins) {
    // The body is of one thread alone.
    if (all_run_ || !certain) {
      open(certain    ? "if (active)"
           : all_run_ ? "if (active && " + i + " < " + extent + ")"
                      : "if (" + i + " < " + extent + ")");
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
  if (!certain && !met) close();
  close();
  if (fresh) over_.erase(tag);
  if (!s.joins) return;
  block ? join_blocks(s) : join_threads(s);
}

// Combines registers across the threads along the loop's axis; all of them get the result.
void Emitter::join_threads(const Statement& s) {
  std::vector<BufferPtr> partial;
  visit_statements(s.body, [&](const Statement& x) {
    if (x.kind == Statement::Kind::update && x.to[0]->name.ends_with(".red")) partial = x.to;
  });
  std::vector<DType> types;
  std::vector<std::string> values;
  for (const BufferPtr& buffer : partial) {
    types.push_back(buffer->type);
    values.push_back(registers_.at(buffer.get()));
  }
  const std::string tag = s.mark.thread->tag;
  const std::int64_t extent = s.extent->kind == ExprNode::Kind::constant ? s.extent->value.integer : 0;
  const bool shuffles = tag == "threadIdx.x" && extent > 0 && extent <= 32 && (extent & (extent - 1)) == 0;
  if (shuffles) {
    for (std::int64_t step = extent / 2; step > 0; step /= 2) {
      open("");
      std::vector<std::string> other;
      for (std::size_t i = 0; i < types.size(); ++i) {
        other.push_back("t" + str(temporaries_++));
        const bool boolean = types[i] == DType::boolean;
        line("const " + device_type(types[i]) + " " + other.back() + " = __shfl_down_sync(~0u, " +
             (boolean ? "int(" + values[i] + ")" : values[i]) + ", " + str(step) + ", " + str(extent) + ")" +
             (boolean ? " != 0" : "") + ";");
      }
      const std::vector<std::string> joined = combined(*s.reducer, values, other, types);
      for (std::size_t i = 0; i < types.size(); ++i) line(values[i] + " = " + joined[i] + ";");
      close();
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      const bool boolean = types[i] == DType::boolean;
      line(values[i] + " = __shfl_sync(~0u, " + (boolean ? "int(" + values[i] + ")" : values[i]) + ", lane_id() / " +
           str(extent) + " * " + str(extent) + ")" + (boolean ? " != 0" : "") + ";");
    }
    return;
  }
  // Through shared memory, halving; each thread's neighbours along the axis are `step` apart.
  const std::string step = tag == "threadIdx.x" ? "1" : tag == "threadIdx.y" ? "threads_x" : "threads_x * threads_y";
  const std::string at = tag == "threadIdx.x" ? "thread_x" : tag == "threadIdx.y" ? "thread_y" : "thread_z";
  std::vector<std::string> memory;
  for (std::size_t i = 0; i < types.size(); ++i) {
    memory.push_back("meeting" + str(temporaries_++));
    shared_ += "  __shared__ " + device_type(types[i]) + " " + memory[i] + "[1024];\n";
    line(memory[i] + "[thread] = " + values[i] + ";");
  }
  line("__syncthreads();");
  open("for (i64 left = " + value(s.extent) + "; left > 1; left = (left + 1) / 2)");
  line("const i64 half = (left + 1) / 2;");
  open("if (active && " + at + " + half < left)");
  std::vector<std::string> a, b;
  for (const std::string& m : memory) {
    a.push_back(m + "[thread]");
    b.push_back(m + "[thread + half * (" + step + ")]");
  }
  const std::vector<std::string> joined = combined(*s.reducer, a, b, types);
  for (std::size_t i = 0; i < types.size(); ++i) line(memory[i] + "[thread] = " + joined[i] + ";");
  close();
  line("__syncthreads();");
  close();
  for (std::size_t i = 0; i < types.size(); ++i)
    line("if (active) " + values[i] + " = " + memory[i] + "[thread - " + at + " * (" + step + ")];");
  line("__syncthreads();");
}

// The last block to come takes the partial results of all in the order of their numbers.
void Emitter::join_blocks(const Statement& s) {
  if (!bound_only_)
    throw Error(ErrorCode::bad_schedule,
                "bind: " + quoted(s.axis->name) + " is reduced by blocks within a loop that is not bound",
                "Bind the loops around it, or bind it to threads.");
  std::vector<BufferPtr> partial;
  visit_statements(s.body, [&](const Statement& x) {
    if (x.kind == Statement::Kind::update && x.to[0]->name.ends_with(".red")) partial = x.to;
  });
  const auto tag =
      static_cast<std::size_t>(std::find(std::begin(tags), std::end(tags), s.mark.thread->tag) - std::begin(tags));
  if (now_.joins_blocks)
    throw Error(ErrorCode::bad_schedule,
                "bind: " + quoted(s.axis->name) + " is the second loop of its kernel that blocks reduce");
  now_.joins_blocks = true;
  numbered_ = tag + 1;
  over_.insert(tag);  // one block is left
  const std::string number = str(static_cast<std::int64_t>(out_.joining++));
  const char* const grid[] = {"gridDim.x", "gridDim.y", "gridDim.z"};
  const char* const block[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};
  std::string other = "0";
  for (std::size_t d = 0; d < 3; ++d)
    if (d != tag) other = "(" + other + ") * " + grid[d] + " + " + block[d];
  line("const i64 other = " + other + ", blocks = " + grid[tag] + ";");
  std::vector<DType> types;
  std::vector<std::string> values;
  std::int64_t bytes = 0;
  for (const BufferPtr& buffer : partial) {
    types.push_back(buffer->type);
    values.push_back(registers_.at(buffer.get()));
    bytes += 8;
  }
  if (bytes > join_bytes) throw Error(ErrorCode::unsupported, "blocks join at most 8 values together");
  const auto place = [&](const std::string& which, std::size_t i) {
    return "((((other * blocks + " + which + ") * threads + thread) * " + str(static_cast<std::int64_t>(types.size())) +
           " + " + str(static_cast<std::int64_t>(i)) + ") * 8)";
  };
  const auto memory = [&](DType type) { return type == DType::boolean ? std::string("u8") : device_type(type); };
  for (std::size_t i = 0; i < types.size(); ++i)
    line("*(" + memory(types[i]) + "*)(p.partial" + number + " + " + place(block[tag], i) + ") = " + values[i] + ";");
  shared_ += "  __shared__ u32 is_last;\n";
  line("__syncthreads();");
  open("if (thread == 0)");
  line("__threadfence();");
  line("u32* const counter = (u32*)p.counters" + number + " + other;");
  line("is_last = arrive_and_count(counter) == u32(blocks) - 1;");
  line("if (is_last) *counter = 0;");
  line("__threadfence();");
  close();
  line("__syncthreads();");
  line("if (!is_last) return;");
  open("for (i64 from = 0; from < blocks; ++from)");
  std::vector<std::string> b;
  for (std::size_t i = 0; i < types.size(); ++i) {
    b.push_back("t" + str(temporaries_++));
    line("const " + device_type(types[i]) + " " + b.back() + " = __ldcg((const " + memory(types[i]) + "*)(p.partial" +
         number + " + " + place("from", i) + "))" + (types[i] == DType::boolean ? " != 0" : "") + ";");
  }
  open("if (from == 0)");
  for (std::size_t i = 0; i < types.size(); ++i) line(values[i] + " = " + b[i] + ";");
  close();
  open("else");
  const std::vector<std::string> joined = combined(*s.reducer, values, b, types);
  for (std::size_t i = 0; i < types.size(); ++i) line(values[i] + " = " + joined[i] + ";");
  close();
  close();
}

// A loop that all threads of the grid share.
void Emitter::shared_among_all(const Statement& s) {
  const std::string i = variable(s.axis);
  now_.shared_loop = s.extent;
  open("for (i64 " + i + " = blockIdx.x * " + str(auto_threads) + "ll + threadIdx.x; " + i + " < " + value(s.extent) +
       "; " + i + " += gridDim.x * " + str(auto_threads) + "ll)");
  write(s.body);
  close();
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
  bound_only_ = true;
  now_.name = "kernel" + str(static_cast<std::int64_t>(out_.kernels.size()));
  bool binds = false;
  visit_statements(body, [&](const Statement& s) {
    if (s.kind != Statement::Kind::loop || s.mark.kind != Mark::Kind::bind) return;
    binds = true;
    const auto tag =
        static_cast<std::size_t>(std::find(std::begin(tags), std::end(tags), s.mark.thread->tag) - std::begin(tags));
    Expr& extent = tag < 3 ? now_.grid[tag] : now_.block[tag - 3];
    if (extent.empty()) extent = s.extent;
    now_.joins[tag] |= s.joins;
  });
  const bool one =
      body.size() == 1 && body[0].kind == Statement::Kind::loop && body[0].axis->kind == AxisNode::Kind::data;
  std::string head;
  if (!binds && one) {
    all_run_ = false;
    shared_among_all(body[0]);
  } else {
    all_run_ = meets(body);
    const auto size = [&](int d) {
      return now_.block[d].empty() ? std::string("1") : "max(i64(" + value(now_.block[d]) + "), 1ll)";
    };
    head = "  const i64 thread = threadIdx.x, threads_x = " + size(0) + ", threads_y = " + size(1) +
           ", threads_z = " + size(2) +
           ";\n"
           "  const i64 thread_x = thread % threads_x, thread_y = thread / threads_x % threads_y, thread_z = thread / "
           "(threads_x * threads_y);\n"
           "  const i64 threads = (threads_x * threads_y * threads_z + 31) / 32 * 32;\n"
           "  const bool active = thread < threads_x * threads_y * threads_z;\n";
    if (!all_run_) head += "  if (!active) return;\n";
    write(body);
  }
  const std::string launch =
      now_.shared_loop.node() ? "__launch_bounds__(" + str(auto_threads) + ") " : "__launch_bounds__(1024) ";
  out_.text += "extern \"C\" __global__ void " + launch + now_.name + "(const __grid_constant__ Params p) {\n" +
               shared_ + head + code_ + "}\n";
  out_.kernels.push_back(now_);
}

CudaSource Emitter::run() {
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
      fields += "  i64 " + buffer_name(argument) + "_stride" + str(static_cast<std::int64_t>(d)) + ";\n";
  for (const AxisPtr& size : out_.sizes) fields += "  i64 " + names_.of(size.get(), size->name) + ";\n";
  for (const char* taken : {"p", "thread", "threads", "active", "other", "blocks", "left", "half", "from", "counter",
                            "is_last", "thread_x", "thread_y", "thread_z", "threads_x", "threads_y", "threads_z"})
    names_.used.insert(taken);
  for (const auto& [first, last] : nest_.stages) kernel(first, last);
  for (std::size_t i = 0; i < out_.joining; ++i)
    fields +=
        "  i64 partial" + str(static_cast<std::int64_t>(i)) + ", counters" + str(static_cast<std::int64_t>(i)) + ";\n";
  out_.text = "#pragma nv_diag_suppress 177\n" + cuda::base_source() + "\n// The nest:\n//\n" +
              [&] {
                std::string nest = "// " + print(nest_), commented;
                for (const char c : nest) commented += c == '\n' ? std::string("\n// ") : std::string(1, c);
                return commented;
              }() +
              "\nstruct Params {\n" + fields + "};\n\n" + functions_.text() + out_.text;
  return std::move(out_);
}

}  // namespace

CudaSource emit(const Nest& nest) { return Emitter(nest).run(); }

}  // namespace postlude::inline v0::te
