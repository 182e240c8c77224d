// Small products, narrow ones among them: all of K and all columns at once (decision 0046).
#pragma once

#include "cpu/product/gemm.h"

namespace postlude::inline v0::cpu {

// How to multiply a small product, by a count of cycles; or Small::no, and then why.
struct SmallChoice {
  Small form = Small::no;
  std::int64_t dots = 0;  // of so many of the last columns
  const char* why = nullptr;
  bool joined = false;
};
[[nodiscard]] SmallChoice choose_small(const ProductShape& shape, const Kernels& kernels);

// Fills in a small product's Blocking.
void block_small(Blocking& blocking, const SmallChoice& choice, const ProductShape& shape);

void run_small(const Product& product, const Blocking& blocking, const RunOptions& options);

// What run_small calls where one thread has all of a product with a direct epilogue: the same each time, so that a call
// of a few nanoseconds need not find it again (decision 0303). All that it is given outlives it.
class SmallCalls {
 public:
  SmallCalls(const Product& product, const Blocking& blocking, const RunOptions& options);
  ~SmallCalls();
  void run() const;

 private:
  struct Recorded;
  std::unique_ptr<const Recorded> recorded_;
};

}  // namespace postlude::inline v0::cpu
