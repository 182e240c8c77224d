R"cuda(
// Kernels that are always right: any strides, any shape. The accumulator lies in a workspace; phases in which every row is
// a matter of that row alone share one kernel (emit/rows.h); of any other each reduction is one, and all its stores.

struct Params : PassSizes {
  i64 word[WORDS];  // per buffer address and strides of b, m, n; then the accumulator's four, partials, counters
};

DEVICE void publish_and_count(u32* counter, u32 expected, u32* flag) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const bool last = arrive_and_count(counter) == expected - 1;
    if (last) *counter = 0;
    *flag = last;
  }
  __syncthreads();
}
)cuda"
