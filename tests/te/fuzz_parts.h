// What random loop programs of several kinds are made of.
#pragma once

#include "te/fuzz.h"
#include "te/schedule.h"

namespace postlude::fuzz_te {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed * 7919 + 13) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(below(static_cast<int>(items.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

// Another argument, of small integers; `any_float`: of NaN and infinities too.
void add_array(Program& p, Draw& draw, const te::Sizes& sizes, const te::Tensor& tensor, bool any_float = false);
void set_outputs(Program& p, Draw& draw, const te::Sizes& sizes, const std::vector<te::Tensor>& outputs);

// One step of a schedule, which is left out where it is refused as illegal.
template <class Action>
void step(Program& p, const std::string& text, const Action& action) {
  try {
    action();
    p.steps.push_back(text);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_schedule) throw;
  }
}

// fuzz_terms.cpp: a place along a loop, within a tensor of so many elements where a condition (or none) holds; `read`:
// a small number from memory.
struct Place {
  te::Expr index, extent, guard;
};
[[nodiscard]] Place drawn_place(Draw& draw, const te::Axis& axis, const te::Expr& read);
// A condition of up to 2^deep terms, of loops and of memory.
[[nodiscard]] te::Expr drawn_condition(Draw& draw, const te::Axes& axes, const std::vector<te::Expr>& reads, int deep);

// fuzz_tiles.cpp: products of matrices, and their schedules by tiles, copies in shared memory and registers.
[[nodiscard]] Program tiled_product(std::uint64_t seed, Draw& draw);
void schedule_tiles(Program& p, Draw& draw, Bindings bindings);

// fuzz_rows.cpp.
[[nodiscard]] Program stages_of_rows(std::uint64_t seed, Draw& draw);

}  // namespace postlude::fuzz_te
