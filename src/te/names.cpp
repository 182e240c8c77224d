// Names of what a nest has. Stages are described apart, so that the loops of two that meet in one nest may well be
// called alike, and two tensors too.
#include "te/nest.h"

#include <algorithm>
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

  // `wanted`, or with the first number that is free.
  template <class IsTaken>
  const std::string& of(const void* key, const std::string& wanted, const IsTaken& is_taken) {
    std::string name = wanted;
    for (int i = 1; is_taken(name); ++i) name = wanted + "_" + std::to_string(i);
    if (name != wanted) nest_.names[key] = name;
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
  std::set<std::string> taken_{"inf", "nan", "true", "false"};  // by literals, tensors and sizes
  std::vector<AxisPtr> loops_;                                  // in the order in which a nest opens them
  std::map<const AxisNode*, Axes> met_;                         // which of them stand in one another
  std::vector<const AxisNode*> open_;
};

}  // namespace

void name_apart(Nest& nest) { Naming(nest).run(); }

}  // namespace postlude::inline v0::te
