// What must hold for a case, whatever it is.
#pragma once

#include "fuzz/case.h"
#include "reference/reference.h"

#include <postlude/plan.h>

#include <functional>
#include <string>
#include <vector>

namespace postlude::fuzz {

// Runs the case's problem into the outputs of the tensors, twice with one call.
struct Runs {
  std::vector<std::vector<std::uint8_t>> first, second;  // the outputs' memory
};
using Runner = std::function<Runs(const Case&, Tensors&, const Target&)>;
[[nodiscard]] Runs run_plan(const Case& c, Tensors& tensors, const Target& target);

struct Checks {
  std::vector<std::string> isas;  // empty: all that the machine has
  std::vector<int> threads = {1, 2};
  bool metamorphic = true;  // commuted arguments, duplicated values, more rows
  bool round_trip = true;   // print -> parse -> the same graph
  Runner runner = run_plan;
  std::function<void(Tensors&)> prepare = [](Tensors&) {};  // puts elements of its own into the inputs
};

// Checks a case; returns "" or what went wrong. A case must give
//   - every output element as the reference has it, on every instruction set and thread count
//   - the same bits for every thread count, and for a second run
//   - nothing written outside of an output's elements (or of its memory: that is a fault)
//   - the same graph after print -> parse
//   - the same results, within the reference's bounds, with the arguments of commutative operations
//     exchanged, with shared values computed twice, and as the first rows of a larger problem
[[nodiscard]] std::string check(const Case& c, const Checks& checks = {});

// "" or the first output of the tensors that is not what it should be.
[[nodiscard]] std::string compare(const reference::Evaluation& expected, const Case& c, const Tensors& tensors,
                                  const std::string& where);

// How many of a case's output elements the reference leaves unchecked (anything is right).
struct Coverage {
  std::int64_t elements = 0, unchecked = 0, nan = 0, exact = 0;
};
[[nodiscard]] Coverage coverage(const Case& c);

[[nodiscard]] std::vector<std::string> machine_isas();

}  // namespace postlude::fuzz
