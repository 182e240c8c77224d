// Random reductions and random legal schedules, for every backend.
#pragma once

#include "te/run.h"

#include <postlude/te.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace postlude::fuzz_te {

struct Array {
  te::Tensor tensor;
  std::vector<std::int64_t> shape, strides;  // in elements
  std::int64_t first = 0;                    // element of the data
  std::vector<std::byte> data;
  [[nodiscard]] Tensor view();
  [[nodiscard]] std::int64_t place(std::int64_t number) const;  // of the element of this number, in rows
};

// A program of one to three stages over small integers, with its arrays.
struct Program {
  std::uint64_t seed = 0;
  std::vector<te::Tensor> stages;      // in order
  std::vector<te::Tensor> reductions;  // of these
  std::vector<te::Tensor> arguments;
  std::vector<Array> arrays;  // of the arguments
  int outputs_from = 0;
  bool is_tiled = false;  // a product, whose schedule is by tiles
  bool in_order = false;  // its reducer does not commute: a schedule's nest says what it gives
  bool has_nan = false;   // so too, of NaN alone
  te::AxisPtr many_rows;  // a schedule is chosen as for so many that each has a block
  te::Schedule schedule;
  std::vector<std::string> steps;  // of the schedule, as text
};

enum class Bindings { none, threads };

[[nodiscard]] Program generate(std::uint64_t seed);
// Up to ten random steps; what is refused as illegal is left out.
void schedule(Program& program, Bindings bindings);
// The schedule that is chosen where nobody writes one.
void choose(Program& program, const Target& target);
// The outputs by their definition, element by element, or, where order matters, by the nest of the schedule that the
// program has: what arrays of the outputs should hold, as doubles.
[[nodiscard]] std::vector<std::vector<double>> expected(Program& program);
// "" or where an output differs.
[[nodiscard]] std::string difference(const Program& program, const std::vector<std::vector<double>>& expected);

}  // namespace postlude::fuzz_te
