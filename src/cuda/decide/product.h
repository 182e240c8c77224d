// Which product on tensor cores a Program's first phase, or its accumulator alone, becomes: by which schedule, with
// what held, as which source.
#pragma once

#include "cuda/choose/fragment_plan.h"
#include "cuda/decide/decision.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// A product and the phase that runs on it, for one shape and memory.
struct Site {
  const lower::Program& program;
  int phase;
  KernelVariant variant;
  bool mma;
  std::vector<BufferPlace> places;
  Shape shape;
  std::int64_t columns;  // the phase's
  bool in_order;         // a small phase's output lies over an operand, which phases before it may read
  const Request& request;
  int multiprocessors = 132;
  Lines a_lines = Lines::aligned, b_lines = Lines::aligned;
  bool shares_a = false;  // all batches multiply one A
};

struct Product {
  Schedule schedule;
  FusedEpilogue epilogue;
  std::shared_ptr<const std::string> source;
};

// The product and what was thought of on the way; none where no schedule fits, or compiles well. Throws bad_schedule.
struct Chosen {
  std::optional<Product> product;
  std::vector<Considered> considered;
  std::string why;  // there is none
};
[[nodiscard]] Chosen choose_product(const Site& site, const Judge& judge);

// Microseconds of a pass behind a product of these rows and columns; of a turned one it has those that were given.
[[nodiscard]] double pass_behind(const Shape& shape, std::int64_t columns, bool turned, int bytes_column,
                                 int multiprocessors);

// Stages, of 128 of K each, after which an fp8 accumulator is added to one of f32 on Hopper (decision 0026); 0: none.
[[nodiscard]] int promotes(DType type);

// Whether tensor cores of `arch` multiply these types exactly enough.
[[nodiscard]] bool on_tensor_cores(DType a, DType b, const std::string& arch);

}  // namespace postlude::inline v0::cuda
