// The cheapest epilogues, which gemm's kernels do in registers (microkernel.h: Direct): nothing, a
// scale, a bias along N, an added tile, bounds; into an f32 output.
#pragma once

#include "cpu/layout.h"
#include "cpu/product/microkernel.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <limits>
#include <optional>
#include <span>

namespace postlude::inline v0::cpu {

// The values of a phase from which a Direct is made at run time (-1: absent).
struct DirectForm {
  lower::BufferId out = -1, bias = -1, add = -1;
  std::optional<float> alpha;       // a constant
  lower::BufferId alpha_from = -1;  // or a scalar operand
  lower::BufferId beta_from = -1;   // of `add`, a scalar operand
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();

  // Whether a Direct depends on what operands hold.
  [[nodiscard]] bool reads_scalars() const { return alpha_from >= 0 || beta_from >= 0; }
  [[nodiscard]] Direct at(std::span<const Bound> buffers, std::int64_t batch) const;
};

// The form of a phase that is such an epilogue with these buffers: f32 accumulators, one piece, the
// identity of columns.
[[nodiscard]] std::optional<DirectForm> direct_form(const lower::Program& program, const lower::Phase& phase,
                                                    std::span<const Placed> buffers);

// A phase of which one f32 output is such an epilogue, and whose other results are of what that output holds: a
// statistic of it, or another type. `rest` is the phase behind it, whose accumulators are the output's elements.
struct DirectHead {
  DirectForm form;
  lower::Phase rest;
};
// Whether it is but a sum over rows of what the output holds.
[[nodiscard]] bool is_column_sum(const lower::Phase& rest);
[[nodiscard]] std::optional<DirectHead> direct_head(const lower::Program& program, const lower::Phase& phase,
                                                    std::span<const Placed> buffers);

}  // namespace postlude::inline v0::cpu
