#include "cli/draw.h"

#include "core/convert.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace postlude::inline v0::cli {
namespace {

// splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014), by index: element i needs none of those before it.
std::uint64_t mixed(std::uint64_t key, std::uint64_t index) {
  std::uint64_t z = key + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mixed(hash, seed);
}

double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

Distribution Distribution::of(DType type) {
  if (is_float(type)) return normal(1);
  const core::IntegerRange range = core::integer_range(type);
  return uniform(std::max<std::int64_t>(range.min, type == DType::s8 ? range.min : -100),
                 std::min<std::int64_t>(range.max, type == DType::u8 ? range.max : 100) + 1);
}

Array draw(DType type, std::vector<std::int64_t> shape, const Distribution& distribution, std::uint64_t seed,
           std::string_view name) {
  Array array(type, std::move(shape));
  const std::uint64_t key = key_of(seed, name);
  const std::int64_t count = array.elements();
  void* data = array.bytes.data();
  if (distribution.integers) {
    const auto width = static_cast<std::uint64_t>(std::max<std::int64_t>(distribution.high - distribution.low, 1));
    for (std::int64_t i = 0; i < count; ++i) {
      core::store_integer(type, data, i, distribution.low + static_cast<std::int64_t>(mixed(key, i) % width));
    }
    return array;
  }
  for (std::int64_t i = 0; i < count; i += 2) {  // Box and Muller: two at a time
    const double radius = distribution.deviation * std::sqrt(-2 * std::log1p(-unit(mixed(key, i))));
    const double angle = 2 * std::numbers::pi * unit(mixed(key, i + 1));
    core::store_real(type, data, i, radius * std::cos(angle));
    if (i + 1 < count) core::store_real(type, data, i + 1, radius * std::sin(angle));
  }
  return array;
}

}  // namespace postlude::inline v0::cli
