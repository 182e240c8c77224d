// Names of what a nest has. Stages are described apart, so that the loops of two that meet in one nest may well be
// called alike, and two tensors too.
#include "te/nest.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace postlude::inline v0::te {
namespace {

class Naming {
 public:
  explicit Naming(Nest& nest) : nest_(nest) {}
  void run() {
    for (const BufferPtr& argument : nest_.arguments) of_all(argument.get(), argument->name);
    for (const BufferPtr& argument : nest_.arguments)
      for (const Expr& extent : argument->shape) sizes(extent);
    collect(nest_.body);
    for (const AxisPtr& axis : loops_) of_loop(axis);
  }

 private:
  using Axes = std::set<const AxisNode*>;

  // Its own, as it can be read, or with the first number that is free.
  template <class IsTaken>
  const std::string& of(const void* key, const std::string& own, const IsTaken& is_taken) {
    const std::string wanted = readable(own);
    std::string name = wanted;
    for (int i = 1; is_taken(name); ++i) name = wanted + "_" + std::to_string(i);
    if (name != own) nest_.names[key] = name;
    return named_[key] = name;
  }
  void of_all(const void* key, const std::string& wanted) {
    if (named_.count(key)) return;
    taken_.insert(of(key, wanted, [&](const std::string& name) { return taken_.count(name) != 0; }));
  }
  // A loop that stands in another one or around it has another name than that, wherever they meet.
  void of_loop(const AxisPtr& axis) {
    const Axes& others = met_[axis.get()];
    of(axis.get(), axis->name, [&](const std::string& name) {
      return taken_.count(name) != 0 || std::any_of(others.begin(), others.end(), [&](const AxisNode* other) {
               const auto found = named_.find(other);
               return found != named_.end() && found->second == name;
             });
    });
  }
  void sizes(const Expr& x) {
    if (x.empty()) return;
    visit(x, [&](const ExprNode& node) {
      if (node.kind == ExprNode::Kind::axis && node.axis->kind == AxisNode::Kind::size)
        of_all(node.axis.get(), node.axis->name);
    });
  }
  void collect(const std::vector<Statement>& body) {
    for (const Statement& s : body) {
      sizes(s.extent);
      sizes(s.condition);
      for (const auto* list : {&s.index, &s.values})
        for (const Expr& x : *list) sizes(x);
      if (s.kind == Statement::Kind::allocate) of_all(s.to[0].get(), s.to[0]->name);
      if (s.kind != Statement::Kind::loop) {
        collect(s.body);
        continue;
      }
      if (!met_.count(s.axis.get())) loops_.push_back(s.axis);
      Axes& others = met_[s.axis.get()];
      for (const AxisNode* outer : open_) {
        others.insert(outer);
        met_[outer].insert(s.axis.get());
      }
      open_.push_back(s.axis.get());
      collect(s.body);
      open_.pop_back();
    }
  }

  Nest& nest_;
  std::unordered_map<const void*, std::string> named_;
  std::set<std::string> taken_{"inf", "nan", "true",     "false",         // by literals
                               "for", "if",  "allocate", "synchronise"};  // by a nest's words; by tensors and sizes
  std::vector<AxisPtr> loops_;                                            // in the order in which a nest opens them
  std::map<const AxisNode*, Axes> met_;                                   // which of them stand in one another
  std::vector<const AxisNode*> open_;
};

}  // namespace

void name_apart(Nest& nest) { Naming(nest).run(); }

std::string readable(std::string name) {
  const auto is_part = [](char c) {  // letters that are no ASCII stay
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || static_cast<unsigned char>(c) >= 0x80;
  };
  for (char& c : name)
    if (!is_part(c)) c = '_';
  return name.empty() || name[0] == '.' || std::isdigit(static_cast<unsigned char>(name[0])) ? "_" + name : name;
}

}  // namespace postlude::inline v0::te
