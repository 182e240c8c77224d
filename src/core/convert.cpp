#include "core/convert.h"

#include <cstring>
#include <vector>

namespace postlude::inline v0::core {

namespace {

template <class T>
T read(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T, class From>
void write(void* data, std::int64_t index, From from) {
  const auto value = static_cast<T>(from);
  std::memcpy(static_cast<char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

std::uint32_t read_bits(DType type, const void* data, std::int64_t index) {
  switch (size_of(type)) {
    case 1: return read<std::uint8_t>(data, index);
    case 2: return read<std::uint16_t>(data, index);
    default: return read<std::uint32_t>(data, index);
  }
}

std::vector<float> make_table(DType type) {
  std::vector<float> table(std::size_t{1} << (8 * size_of(type)));
  for (std::size_t bits = 0; bits < table.size(); ++bits) table[bits] = decode(type, static_cast<std::uint32_t>(bits));
  return table;
}

}  // namespace

const float* decode_table(DType type) {
  switch (type) {
    case DType::f16: {
      static const auto table = make_table(DType::f16);
      return table.data();
    }
    case DType::bf16: {
      static const auto table = make_table(DType::bf16);
      return table.data();
    }
    case DType::e4m3: {
      static const auto table = make_table(DType::e4m3);
      return table.data();
    }
    case DType::e5m2: {
      static const auto table = make_table(DType::e5m2);
      return table.data();
    }
    default: return nullptr;
  }
}

std::int64_t to_integer(DType type, double x, Round round, double u) {
  if (type == DType::boolean) return x != 0;  // NaN is not equal to 0
  if (std::isnan(x)) return 0;
  double rounded = x;
  switch (round) {
    case Round::nearest_even: rounded = std::nearbyint(x); break;
    case Round::toward_zero: rounded = std::trunc(x); break;
    case Round::up: rounded = std::ceil(x); break;
    case Round::down: rounded = std::floor(x); break;
    case Round::stochastic: {
      const double toward = std::trunc(x);
      rounded = u < std::abs(x - toward) ? toward + std::copysign(1.0, x) : toward;
      break;
    }
  }
  const IntegerRange range = integer_range(type);
  // 2^63 is a double; the largest i64 is not.
  if (rounded >= static_cast<double>(range.max)) return range.max;
  if (rounded <= static_cast<double>(range.min)) return range.min;
  return static_cast<std::int64_t>(rounded);
}

double load_real(DType type, const void* data, std::int64_t index) {
  if (is_float(type)) return decode(type, read_bits(type, data, index));
  return static_cast<double>(load_integer(type, data, index));
}

std::int64_t load_integer(DType type, const void* data, std::int64_t index) {
  switch (type) {
    case DType::s8: return read<std::int8_t>(data, index);
    case DType::u8: return read<std::uint8_t>(data, index);
    case DType::i32: return read<std::int32_t>(data, index);
    case DType::boolean: return read<std::uint8_t>(data, index) != 0;
    default: return read<std::int64_t>(data, index);
  }
}

void store_real(DType type, void* data, std::int64_t index, double x, Round round, double u) {
  if (!is_float(type)) return store_integer(type, data, index, to_integer(type, x, round, u));
  const std::uint32_t bits = encode(type, x, round, u);
  switch (size_of(type)) {
    case 1: return write<std::uint8_t>(data, index, bits);
    case 2: return write<std::uint16_t>(data, index, bits);
    default: return write<std::uint32_t>(data, index, bits);
  }
}

void store_integer(DType type, void* data, std::int64_t index, std::int64_t x) {
  if (is_float(type)) return store_real(type, data, index, static_cast<float>(x));
  const std::int64_t value = to_integer(type, x);
  switch (type) {
    case DType::s8: return write<std::int8_t>(data, index, value);
    case DType::i32: return write<std::int32_t>(data, index, value);
    case DType::i64: return write<std::int64_t>(data, index, value);
    default: return write<std::uint8_t>(data, index, value);
  }
}

}  // namespace postlude::inline v0::core
