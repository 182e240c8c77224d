// A tensor map as the fake driver writes it and the host's copy engine (tests/cuda/host/shim.h)
// reads it.
#pragma once

struct alignas(64) FakeTensorMap {
  unsigned long long base, strides[4];  // bytes, of all dimensions but the first
  unsigned dimensions, element_bytes, swizzle_bytes, sizes[5], box[5];
  short lower[3], upper[3];  // of an image, whose box is channels and pixels: along columns, rows, depth
  unsigned char step[3], image;
};
static_assert(sizeof(FakeTensorMap) == 128, "the driver's");
