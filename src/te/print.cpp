// Expressions and nests as text.
#include "te/nest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <variant>

namespace postlude::inline v0::te {
namespace {

// How tightly an operator binds; arguments that bind less have parentheses.
int precedence(const ExprNode& x) {
  if (x.kind != ExprNode::Kind::operation) return 10;
  switch (x.op) {
    case Op::mul:
    case Op::div:
    case Op::floordiv: return 7;
    case Op::add:
    case Op::sub: return 6;
    case Op::bit_and: return 4;
    case Op::bit_or: return 3;
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge: return 5;
    default: return 10;
  }
}

std::string literal(const Literal& value) {
  if (value.type == DType::boolean) return value.integer ? "true" : "false";
  if (value.type != DType::f32) return std::to_string(value.integer);
  if (std::isinf(value.real)) return value.real > 0 ? "inf" : "-inf";
  if (std::isnan(value.real)) return "nan";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value.real).ptr;
  std::string result(text, end);
  return result.find_first_of(".e") == result.npos ? result + ".0" : result;
}

std::string mark_text(const Mark& mark) {
  switch (mark.kind) {
    case Mark::Kind::serial: return "";
    case Mark::Kind::unroll: return " unroll";
    case Mark::Kind::vectorize: return " vectorize";
    case Mark::Kind::parallel: return " parallel";
    case Mark::Kind::bind: return " " + mark.thread->tag;
  }
  return "";
}

const char* scope_name(Buffer::Scope scope) {
  switch (scope) {
    case Buffer::Scope::shared: return "shared";
    case Buffer::Scope::local: return "local";
    default: return "global";
  }
}

// Of a nest's own names, where there is one.
class Printer {
 public:
  explicit Printer(const Nest* nest) : nest_(nest) {}
  std::string print(const Expr& x) const { return text({x}); }

  void write(const std::vector<Statement>& body, const std::string& indent, std::string& text) const {
    for (const Statement& s : body) {
      switch (s.kind) {
        case Statement::Kind::loop:
          text += indent + "for (" + name_of(s.axis) + ", 0, " + print(s.extent) + ")" + mark_text(s.mark) +
                  (s.joins ? " combined" : "") + " {\n";
          write(s.body, indent + "  ", text);
          text += indent + "}\n";
          break;
        case Statement::Kind::guard:
          text += indent + "if (" + print(s.condition) + ") {\n";
          write(s.body, indent + "  ", text);
          text += indent + "}\n";
          break;
        case Statement::Kind::allocate:
          text += indent + "allocate " + name_of(s.to[0]) + "[" + list(s.to[0]->shape) + "] " +
                  std::string(name(s.to[0]->type)) + " " + scope_name(s.to[0]->scope) + "\n";
          break;
        case Statement::Kind::synchronise: text += indent + "synchronise\n"; break;
        case Statement::Kind::store:
        case Statement::Kind::update: {
          std::vector<std::string> to;
          std::string left;
          for (const BufferPtr& buffer : s.to) {
            to.push_back(access(name_of(buffer), s.index));
            left += (left.empty() ? "" : ", ") + to.back();
          }
          text += indent + left + " = " + (s.kind == Statement::Kind::update ? combined(to, s) : stored(s)) + "\n";
          break;
        }
      }
    }
  }

 private:
  [[nodiscard]] std::string name_of(const AxisPtr& axis) const {
    if (axis->kind == AxisNode::Kind::thread && !nest_) return axis->name;  // its tag, or the call that makes it
    return nest_ ? nest_->name(axis) : readable(axis->name);
  }
  [[nodiscard]] std::string name_of(const BufferPtr& buffer) const {
    return nest_ ? nest_->name(buffer) : readable(buffer->name);
  }
  std::string list(const std::vector<Expr>& values) const { return text(listed(values)); }

  // What a store puts into its buffers, rounded where they hold another type than what is computed, or read.
  std::string stored(const Statement& s) const {
    std::string all;
    for (std::size_t i = 0; i < s.values.size(); ++i) {
      const Expr& x = s.values[i];
      const DType type = s.to[i]->type;
      const bool exact = x->type == type || (x->kind == ExprNode::Kind::read &&
                                             x->tensor->dtypes[static_cast<std::size_t>(x->component)] == type);
      all += (i ? ", " : "") + (exact ? print(x) : "cast(" + print(x) + ", " + std::string(v0::name(type)) + ")");
    }
    return all;
  }

  std::string access(const std::string& name, const std::vector<Expr>& index) const {
    return name + "[" + list(index) + "]";
  }

  // An expression in pieces, which are text or are expressions themselves: those are left until the ones before them
  // are written, however deep they lie.
  using Piece = std::variant<std::string, Expr>;
  using Pieces = std::vector<Piece>;
  std::string text(Pieces left) const {
    std::string all;
    std::reverse(left.begin(), left.end());
    while (!left.empty()) {
      const Piece now = std::move(left.back());
      left.pop_back();
      if (const auto* const text = std::get_if<std::string>(&now)) {
        all += *text;
      } else if (!std::get<Expr>(now).empty()) {
        Pieces inner = pieces(std::get<Expr>(now));
        left.insert(left.end(), std::make_move_iterator(inner.rbegin()), std::make_move_iterator(inner.rend()));
      }
    }
    return all;
  }
  static Pieces joined(std::initializer_list<Pieces> parts) {
    Pieces all;
    for (const Pieces& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  static Pieces listed(const std::vector<Expr>& values) {
    Pieces all;
    for (const Expr& x : values) {
      if (!all.empty()) all.emplace_back(", ");
      all.emplace_back(x);
    }
    return all;
  }
  static Pieces wrapped(const Expr& x, int least) {
    return precedence(*x.node()) < least ? Pieces{"(", x, ")"} : Pieces{x};
  }

  Pieces pieces(const Expr& x) const {
    switch (x->kind) {
      case ExprNode::Kind::constant: return {literal(x->value)};
      case ExprNode::Kind::axis: return {name_of(x->axis)};
      case ExprNode::Kind::operation: return pieces_of_operation(x);
      case ExprNode::Kind::read: {
        const OperationNode& op = *x->tensor;
        const std::string name =
            nest_ ? nest_->name(nest_->of(*x.node()))
                  : readable(op.name) + (op.dtypes.size() > 1 ? "." + std::to_string(x->component) : "");
        return joined({{name + "["}, listed(x->args), {"]"}});
      }
      case ExprNode::Kind::reduce: {
        const Reduction& r = *x->reduction;
        const bool several = r.sources.size() > 1;
        std::string axes;
        for (const AxisPtr& axis : r.axes) axes += (axes.empty() ? "" : ", ") + name_of(axis);
        return joined({{readable(r.reducer->name) + (several ? "((" : "(")},
                       listed(r.sources),
                       {(several ? "), axis=[" : ", axis=[") + axes + "]"},
                       r.where.empty() ? Pieces{} : Pieces{", where=", r.where},
                       {several ? ")[" + std::to_string(x->component) + "]" : ")"}});
      }
    }
    return {};
  }

  static Pieces pieces_of_operation(const Expr& x) {
    const std::string spelling(info(x->op).spelling);
    if (x->op == Op::floordiv && x->type == DType::i64) return quotient(x->args[0], x->args[1]);
    if (x->op == Op::cast) return joined({{"cast("}, listed(x->args), {", " + std::string(name(x->dtype)) + ")"}});
    if (x->op == Op::random) return joined({{"random(" + std::to_string(x->seed) + ", "}, listed(x->args), {")"}});
    if (const int at = precedence(*x.node()); at < 10)
      return joined(
          {wrapped(x->args[0], at), {at == 7 ? spelling : " " + spelling + " "}, wrapped(x->args[1], at + 1)});
    if (x->op == Op::neg || x->op == Op::bit_not) return joined({{spelling}, wrapped(x->args[0], 8)});
    return joined({{std::string(info(x->op).id) + "("}, listed(x->args), {")"}});
  }

  // ceildiv(n, 16) for (n + 15) // 16.
  static Pieces quotient(const Expr& a, const Expr& b) {
    if (b->kind == ExprNode::Kind::constant && a->kind == ExprNode::Kind::operation && a->op == Op::add) {
      const Expr& last = a->args[1];
      if (last->kind == ExprNode::Kind::constant && last->value.integer == b->value.integer - 1)
        return {"ceildiv(", a->args[0], ", ", b, ")"};
    }
    return {"floordiv(", a, ", ", b, ")"};
  }

  std::string combined(const std::vector<std::string>& to, const Statement& update) const {
    const std::vector<Expr>& values = update.values;
    switch (update.reducer->known) {
      case Known::sum: return to[0] + " + " + text(wrapped(values[0], 7));
      case Known::prod: return to[0] + "*" + text(wrapped(values[0], 8));
      case Known::any: return to[0] + " | " + text(wrapped(values[0], 4));
      case Known::all: return to[0] + " & " + text(wrapped(values[0], 5));
      default: break;
    }
    std::string state;
    for (const std::string& x : to) state += (state.empty() ? "" : ", ") + x;
    if (to.size() > 1) return readable(update.reducer->name) + "((" + state + "), (" + list(values) + "))";
    return readable(update.reducer->name) + "(" + state + ", " + list(values) + ")";
  }

  const Nest* nest_;
};

}  // namespace

std::string print(const Expr& x) { return Printer(nullptr).print(x); }

std::string print(const Nest& nest) {
  std::string text;
  Printer(&nest).write(nest.body, "", text);
  return text;
}

}  // namespace postlude::inline v0::te
