// A tree's rows as a Graph, and how its operands and outputs follow from what is null.
#pragma once

#include <postlude/evt/evt.h>

#include <string>
#include <vector>

namespace postlude::inline v0::evt::detail {

// An operand, parameter or output, in the order of Arguments.
struct Slot {
  enum class Role : std::uint8_t { operand, parameter, store, reduction } role = Role::operand;
  std::string name{};  // in the graph; empty: not in it
  Axes axes{};         // of an operand: {} where one element stands for all
  DType dtype = f32;
  bool may_be_null = true;
  // Of a reduction: how it combines, its identity's dtype, how many elements make one result (0: all).
  Family family = Family::sum;
  DType compute = f32;
  std::int32_t group = 0;
  [[nodiscard]] bool is_output() const { return role == Role::store || role == Role::reduction; }
};

// What decides a graph beyond its tree.
struct Form {
  enum Use : std::uint8_t {
    as_declared,
    one_element,   // an operand whose only element stands for all
    absent,        // an output that is not wanted
    across_batch,  // a reduction over all batches
  };
  DType accumulator = f32;
  bool source = true;                // whether C is read
  std::optional<DType> bias{};       // of a row that is added to the accumulator
  std::vector<Use> uses{};           // of slots; empty: as declared
  std::vector<double> identities{};  // of slots; empty: 0
};

struct Built {
  Graph graph;
  std::vector<Slot> slots;
};

[[nodiscard]] Built build(const Description& description, const Form& form);

// How many things Arguments give for a row.
[[nodiscard]] std::size_t given_count(const Row& row);
// What Arguments gave, with that of a person's own nodes in the place of their Arguments.
[[nodiscard]] std::vector<Given> expand(const Description& description, const Giving& giving);

}  // namespace postlude::inline v0::evt::detail
