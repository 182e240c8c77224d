R"cuda(
// An accumulator from parts of it: 32 elements a block, each warp adds an eighth of the parts in their order.
extern "C" __global__ void __launch_bounds__(256) postlude_fold(const __grid_constant__ Folded p) {
  follow_previous_launch();
  __shared__ ACC sums[8][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 at = blockIdx.x * 32ll + lane;
  ACC sum = 0;
  if (at < p.elements) {
    const int end = int(i64(p.parts) * (warp + 1) / 8);
    #pragma unroll 8
    for (int part = int(i64(p.parts) * warp / 8); part < end; ++part) sum += ((const ACC*)p.from)[part * p.elements + at];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp || at >= p.elements) return;
  #pragma unroll
  for (int other = 1; other < 8; ++other) sum += sums[other][lane];
  ((ACC*)p.to)[at] = sum;
}
)cuda"
