#include "plan/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace postlude;
using postlude::plan::footprint;

namespace {

alignas(8) char memory[4096];

// The bytes that a view touches, one by one.
std::multiset<std::int64_t> bytes_of(const Tensor& tensor) {
  std::multiset<std::int64_t> bytes;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      offset += rest % tensor.shape[axis] * tensor.strides[axis];
      rest /= tensor.shape[axis];
    }
    const std::int64_t at = static_cast<char*>(tensor.data) - memory + offset * size_of(tensor.dtype);
    for (std::int64_t k = 0; k < size_of(tensor.dtype); ++k) bytes.insert(at + k);
  }
  return bytes;
}

Tensor random_view(std::mt19937& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Tensor tensor;
  tensor.dtype = pick(0, 1) != 0 ? f32 : s8;
  tensor.rank = static_cast<int>(pick(0, 3));
  tensor.data = memory + 2048 + 4 * pick(-40, 40);
  for (int axis = 0; axis < tensor.rank; ++axis) {
    tensor.shape[axis] = pick(0, 12) == 0 ? 0 : pick(1, 4);
    tensor.strides[axis] = pick(-9, 12);
  }
  return tensor;
}

TEST(Overlap, AgreesWithCountingBytes) {
  std::mt19937 random(7);
  int overlapping = 0;
  for (int i = 0; i < 20000; ++i) {
    const Tensor a = random_view(random), b = random_view(random);
    const auto x = bytes_of(a), y = bytes_of(b);
    const bool expected = std::any_of(x.begin(), x.end(), [&](std::int64_t byte) { return y.count(byte) > 0; });
    overlapping += expected ? 1 : 0;
    ASSERT_EQ(plan::overlap(footprint(a), footprint(b)), expected) << "case " << i;
    ASSERT_EQ(plan::overlap(footprint(b), footprint(a)), expected) << "case " << i;
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_LT(overlapping, 18000);
}

TEST(Overlap, ColumnsOfOneArrayAreApart) {
  // Two blocks of columns of a 100000 x 200000 array: decided without walking it.
  Tensor left(memory, f32, {100000, 1000}, {200000, 1});
  Tensor right(memory + 4 * 1000, f32, {100000, 1000}, {200000, 1});
  EXPECT_FALSE(plan::overlap(footprint(left), footprint(right)));
  right.data = memory + 4 * 999;
  EXPECT_TRUE(plan::overlap(footprint(left), footprint(right)));
}

TEST(Overlap, OfOneViewWithItself) {
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    const Tensor a = random_view(random);
    const auto bytes = bytes_of(a);
    const bool shared = std::set(bytes.begin(), bytes.end()).size() != bytes.size();
    // It may refuse a layout that only happens to be free of collisions, but must see every
    // collision.
    if (shared) { ASSERT_TRUE(plan::overlaps_itself(footprint(a))) << "case " << i; }
  }
  EXPECT_FALSE(plan::overlaps_itself(footprint(Tensor(memory, f32, {4, 8}))));
  EXPECT_FALSE(plan::overlaps_itself(footprint(Tensor(memory, f32, {4, 8}, {1, 4}))));
  EXPECT_FALSE(plan::overlaps_itself(footprint(Tensor(memory, f32, {1, 8}, {0, 1}))));
}

}  // namespace
