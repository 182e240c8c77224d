// A main loop of the tests alone: acc[m, n] = sum over k of A[I[m], k] * B[k, n]. An index of no row of A gives zeros.
#pragma once

#include <postlude/problem.h>

#include <memory>

namespace postlude_test {

struct GatheredRows {
  postlude::DType a = postlude::DType::f32, b = postlude::DType::f32;
  bool batched = false;
};
[[nodiscard]] std::shared_ptr<const postlude::MainLoop> main_loop(const GatheredRows& gathered);

}  // namespace postlude_test
