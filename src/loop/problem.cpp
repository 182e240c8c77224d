#include <postlude/problem.h>

#include "loop/main_loop.h"

namespace postlude::inline v0 {

DType accumulator_type(const Problem& problem) { return problem.loop().facts().accumulator; }
DType default_operand_type(const Problem& problem) { return problem.loop().facts().operand; }
DType default_output_type(const Problem& problem) { return problem.loop().facts().output; }
bool is_batched(const Problem& problem) { return problem.loop().batched(); }

}  // namespace postlude::inline v0
