// The loop nest that a schedule means: what is printed, what a CPU runs and a GPU's code is made
// from. Its order is the order of the reductions.
#pragma once

#include "te/schedule.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace postlude::inline v0::te {

struct Buffer {
  enum class Scope : std::uint8_t { argument, global, shared, local };
  std::string name;
  DType type = DType::f32;
  std::vector<Expr> shape;
  Scope scope = Scope::global;
  int argument = -1;  // its place among the module's arguments
};
using BufferPtr = std::shared_ptr<const Buffer>;

inline constexpr std::size_t most_loops = 32;  // around one statement

// Values read tensors; Nest::buffers says where their elements are. synchronise: the threads of a
// block wait for each other.
struct Statement {
  enum class Kind : std::uint8_t { loop, guard, allocate, store, update, synchronise };
  Kind kind = Kind::loop;
  AxisPtr axis{};               // loop: counts from 0 to
  Expr extent{};                // this
  Mark mark{};                  // loop
  bool joins = false;           // loop bound to blocks or threads over a reduced axis: their results are combined
  Expr condition{};             // guard
  std::vector<BufferPtr> to{};  // allocate: one; store, update: a component each
  std::vector<Expr> index{};    // store, update
  std::vector<Expr> values{};   // store; update: what to = combine(to, values) takes
  ReducerPtr reducer{};         // update; loop that joins
  std::vector<Statement> body{};
};

// What chooses the threads that store. One of them must satisfy it, or nothing is stored.
struct StorePredicate {
  Expr condition{};  // of the threads' loop and sizes
  AxisPtr threads{};
  std::string stage{}, text{}, tag{};
};
// Refuses one that no thread satisfies.
void refuse_no_thread(const StorePredicate& predicate, Sizes sizes);

struct Nest {
  std::vector<Statement> body;
  std::vector<StorePredicate> predicates;                   // that sizes decide
  std::vector<std::pair<std::size_t, std::size_t>> stages;  // of `body`: what each stage at the root is
  std::vector<BufferPtr> arguments;
  std::vector<Tensor> tensors;  // of the arguments
  std::map<std::pair<const OperationNode*, int>, BufferPtr> buffers;
  std::unordered_map<const void*, std::string> names;  // of axes and buffers, where their own is another's
  [[nodiscard]] const BufferPtr& of(const ExprNode& read) const {
    return buffers.at({read.tensor.get(), read.component});
  }
  [[nodiscard]] const std::string& name(const AxisPtr& axis) const { return named(axis.get(), axis->name); }
  [[nodiscard]] const std::string& name(const BufferPtr& buffer) const { return named(buffer.get(), buffer->name); }

 private:
  [[nodiscard]] const std::string& named(const void* key, const std::string& own) const {
    const auto found = names.find(key);
    return found == names.end() ? own : found->second;
  }
};

[[nodiscard]] Nest make_nest(const ScheduleNode& schedule, const std::vector<Tensor>& arguments);
// Fills Nest::names, so that a nest can be read as it is printed: a tensor, a size or an open loop is the only one of
// its name.
void name_apart(Nest& nest);
// A name that can be read in the text of a nest: of letters, digits, dots and underscores.
[[nodiscard]] std::string readable(std::string name);
[[nodiscard]] std::string print(const Nest& nest);

}  // namespace postlude::inline v0::te
