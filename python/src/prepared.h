// A Plan with what calling it from Python takes, and the way from arrays to a bound Call.
#pragma once

#include "arrays.h"

#include "loop/main_loop.h"

#include <postlude/plan.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace postlude::inline v0::python {

struct Prepared {
  Plan plan;
  std::vector<Input> inputs;             // the main loop's
  std::vector<Plan::Slot> operands;      // without these
  std::vector<nb::object> operand_keys;  // their names, interned
  std::vector<nb::object> defaults;      // their numbers where none is given; empty objects where one must be
  std::vector<Plan::Slot> outputs;
  nb::object record;  // makes the result out of the outputs; None where the one output is the result

  // The outputs' shapes at the last problem size: shape_of speaks strings and vectors, and sizes seldom change. What
  // is given out stays: other threads may ask for other sizes while a framework makes arrays.
  using Shapes = std::vector<std::vector<std::int64_t>>;
  std::array<std::int64_t, 4> last_size{-1, -1, -1, -1};
  std::shared_ptr<const Shapes> last_shapes;
  std::shared_ptr<const Shapes> shapes(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k);
};

// An array that the caller wants an output written to: by name, or by position where `name` is empty. None where it has
// no owner.
struct Destination {
  std::string name;
  Array array;
};
[[nodiscard]] std::vector<Destination> read_destinations(nb::handle out);

// What one call is given. `main` are the main loop's inputs, `operands` are in Prepared::operands' order.
struct Inputs {
  std::vector<Array> main;
  const PackedOperand* packed = nullptr;  // in the place of the one that is packable
  std::vector<Array> operands;
  std::vector<Destination> out;
};

// Throws unknown_operand where a keyword is none of `keys`.
void refuse_unknown(std::span<const nb::object> keys, nb::handle keywords);

// Reads keyword operands in the order of `keys`; `defaults` (may be empty objects) stand in for missing ones. Throws
// missing_operand and unknown_operand, naming the epilogue's own.
[[nodiscard]] std::vector<Array> read_operands(std::span<const nb::object> keys, std::span<const nb::object> defaults,
                                               std::span<const std::optional<DType>> types, nb::handle keywords);

// A Call with everything it reads and writes kept alive.
struct ArrayCall {
  Call call;
  std::shared_ptr<Prepared> prepared;
  Inputs inputs;
  std::vector<Array> outputs;
  std::vector<Binding> bindings;
  std::shared_ptr<std::atomic_flag> running;  // two runs at once would share a workspace

  [[nodiscard]] void* stream() const;              // the framework's current one; null on a CPU
  void run(std::optional<std::uintptr_t> stream);  // on this one, or the framework's current
  [[nodiscard]] nb::object result() const;
};

// What a call of these inputs binds, its outputs made where out= names none; without the Call itself.
[[nodiscard]] ArrayCall arrange(std::shared_ptr<Prepared> prepared, Inputs inputs);
// That, and the Call.
[[nodiscard]] ArrayCall bind(std::shared_ptr<Prepared> prepared, Inputs inputs);

}  // namespace postlude::inline v0::python
