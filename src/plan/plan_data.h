// What a Plan and a Call hold.
#pragma once

#include "lower/lower.h"
#include "plan/backends.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace postlude::inline v0 {

using lower::InPlace;  // sorted

namespace plan {

// One tensor that bind wants.
struct Expected {
  std::string name;
  enum class Role : std::uint8_t { input, operand, output } role = Role::operand;
  Axes axes;  // of {b, m, n}: b where a batch axis must be (outputs) or may be (the others, in a batched problem)
  DType dtype = DType::f32;
  Extent rows, columns;   // along m and n, but of an input
  std::size_t input = 0;  // its number among the main loop's
};

}  // namespace plan

// The Program of one set of in-place outputs, compiled.
struct Variant {
  InPlace in_place;
  std::shared_ptr<const lower::Program> program;
  std::shared_ptr<const Executable> executable;
};

struct PlanData {
  Graph graph;
  Problem problem;
  Target target;
  std::vector<std::pair<std::string, DType>> dtypes;  // CompileOptions::dtypes
  const plan::Backend* backend = nullptr;
  Variant base;                                             // nothing in place
  std::vector<plan::Expected> expected;                     // the main loop's inputs, operands, outputs
  std::unordered_map<std::string_view, std::size_t> place;  // in `expected`, by name

  // Variants for in-place outputs, compiled when first bound, kept for the plan's life.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<const Variant>> variants;

  [[nodiscard]] bool multiplies() const { return problem.loop().contraction().has_value(); }
};

// The Program that a plan runs where nothing is in place: whose phases explain() numbers.
[[nodiscard]] const lower::Program& program_of(const Plan& plan);

// How a plan is lowered with these outputs in place.
[[nodiscard]] lower::Options lower_options(const PlanData& plan, const InPlace& in_place = {});

// The variant for these in-place outputs: the base where its Program allows them as it is. Throws Error::overlap where
// no Program does.
[[nodiscard]] const Variant& variant_for(const PlanData& plan, const InPlace& in_place, std::int64_t batch);

struct CallData {
  std::shared_ptr<const PlanData> plan;
  std::shared_ptr<const void> packed;
  std::vector<std::uint64_t> values;  // scalars by value, where a CPU reads them
  std::unique_ptr<BoundCall> bound;   // null: every output is empty
};

// What pack() keeps alive: the layout belongs to a plan's kernels.
struct PackedData {
  std::shared_ptr<const PlanData> plan;
  std::shared_ptr<const void> data;
};

}  // namespace postlude::inline v0
