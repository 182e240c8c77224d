R"cuda(
// How K of a matrix is counted along axes.
DEVICE i64 k_offset(const Counting& count, i64 stride, int k) {
  if (!count.size[3]) return k * stride;
  i64 offset = 0;
  #pragma unroll
  for (int i = 3; i >= 0; --i) {
    const int outer = k / count.size[i];
    offset += (k - outer * count.size[i]) * count.stride[i];
    k = outer;
  }
  return offset;
}

DEVICE bool k_exists(const Counting& count, int k) {
  bool exists = true;
  #pragma unroll
  for (int i = 3; i >= 0 && count.size[3]; --i) {
    const int outer = k / count.size[i];
    const int inner = k - outer * count.size[i];
    exists &= inner >= count.begin[i] && inner < count.valid[i];
    k = outer;
  }
  return exists;
}
)cuda"
