// The matrix product on every instruction set that this machine has: all types, layouts and block
// orders against a double loop. It is longer than most because all of them go through one set of
// operands and one expectation.
#include "cpu/product/gemm.h"
#include "core/divide.h"
#include "cpu/product/small.h"
#include "stopwatch.h"

#include <postlude/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace postlude::inline v0::cpu {
namespace {

using Int = std::int64_t;

// ---- numbers ------------------------------------------------------------------------------------

struct Format {
  int exponent_bits, mantissa_bits;
};
Format format_of(DType type) {
  switch (type) {
    case DType::f16: return {5, 10};
    case DType::bf16: return {8, 7};
    case DType::e4m3: return {4, 3};
    case DType::e5m2: return {5, 2};
    default: return {8, 23};
  }
}

// The value of a float type's code, by definition. Infinities and NaN are not asked for.
double decode(DType type, std::uint32_t code) {
  if (type == DType::s8) return static_cast<std::int8_t>(code);
  if (type == DType::u8) return static_cast<std::uint8_t>(code);
  const Format f = format_of(type);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const double mantissa = static_cast<double>(code & ((1u << f.mantissa_bits) - 1)) / (1u << f.mantissa_bits);
  const double sign = code >> (f.exponent_bits + f.mantissa_bits) & 1 ? -1.0 : 1.0;
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1.0 + mantissa, exponent - bias));
}

// The code of a small integer.
std::uint32_t encode(DType type, int value) {
  if (type == DType::s8 || type == DType::u8) return static_cast<std::uint8_t>(value);
  if (value == 0) return 0;
  const Format f = format_of(type);
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<std::uint32_t>((2 * fraction - 1) * (1u << f.mantissa_bits));
  return static_cast<std::uint32_t>(value < 0) << (f.exponent_bits + f.mantissa_bits) |
         static_cast<std::uint32_t>(exponent - 1 + bias) << f.mantissa_bits | mantissa;
}

enum class Data { small_integers, any };

std::uint32_t draw(DType type, Data data, std::mt19937& random) {
  if (type == DType::s8 || type == DType::u8) return random() & 0xff;
  if (data == Data::small_integers) return encode(type, static_cast<int>(random() % 9) - 4);
  // Numbers of moderate size, denormal ones of the small formats among them.
  const Format f = format_of(type);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const std::uint32_t exponent = static_cast<std::uint32_t>(
      std::max(0, bias - 8) + static_cast<int>(random() % static_cast<unsigned>(std::min(bias, 8) + 3)));
  const std::uint32_t mantissa = static_cast<std::uint32_t>(random()) & ((1u << f.mantissa_bits) - 1);
  const std::uint32_t sign = random() & 1;
  return sign << (f.exponent_bits + f.mantissa_bits) | exponent << f.mantissa_bits | mantissa;
}

// ---- operands -----------------------------------------------------------------------------------

enum class Strides { rows, columns, both_odd, negative, zero_rows, zero_columns, dense };  // dense: no gap between rows
constexpr Strides all_strides[] = {Strides::rows,     Strides::columns,   Strides::both_odd,
                                   Strides::negative, Strides::zero_rows, Strides::zero_columns};

// Storage that ends right behind the last element, so that a sanitizer sees what is read too much.
struct Operand {
  std::unique_ptr<char[]> bytes;
  Matrix matrix;
  std::vector<double> values;  // row by row

  Operand(Int rows, Int columns, DType type, Strides strides, Data data, std::mt19937& random)
      : Operand(rows, columns, type, strides, random, [&] { return draw(type, data, random); }) {}

  template <class Draw>
  Operand(Int rows, Int columns, DType type, Strides strides, std::mt19937& random, Draw draw_code) {
    Int row = 0, column = 0, first = 0;
    switch (strides) {
      case Strides::rows: row = columns + static_cast<Int>(random() % 3), column = 1; break;
      case Strides::columns: row = 1, column = rows + static_cast<Int>(random() % 3); break;
      case Strides::both_odd: row = 3 * columns + 1, column = 3; break;
      case Strides::negative: row = -(2 * columns + 1), column = -2; break;
      case Strides::zero_rows: row = 0, column = 1; break;
      case Strides::zero_columns: row = 1, column = 0; break;
      case Strides::dense: row = columns, column = 1; break;
    }
    if (rows > 0 && columns > 0) first = std::max<Int>(0, -(row * (rows - 1) + column * (columns - 1)));
    const Int last =
        std::max<Int>(0, first + row * std::max<Int>(rows - 1, 0) + column * std::max<Int>(columns - 1, 0));
    const Int size = size_of(type);
    const Int count = rows > 0 && columns > 0 ? std::max(last, first) + 1 : 0;
    bytes.reset(new char[static_cast<std::size_t>(count * size)]);
    for (Int i = 0; i < count; ++i) {
      const std::uint32_t code = draw_code();
      std::memcpy(bytes.get() + i * size, &code, static_cast<std::size_t>(size));
    }
    matrix = {bytes.get() + first * size, type, row, column};
    for (Int i = 0; i < rows; ++i) {
      for (Int j = 0; j < columns; ++j) {
        std::uint32_t code = 0;
        std::memcpy(&code, bytes.get() + (first + i * row + j * column) * size, static_cast<std::size_t>(size));
        values.push_back(type == DType::f32 ? static_cast<double>(std::bit_cast<float>(code)) : decode(type, code));
      }
    }
  }
};

struct Scratch {
  std::vector<std::byte> bytes;
  RunOptions options;

  Scratch(const Blocking& blocking, int threads) {
    const std::size_t stride = (blocking.thread_bytes + 63) / 64 * 64;
    const std::size_t shared = (blocking.shared_bytes + 63) / 64 * 64;
    bytes.assign(stride * static_cast<std::size_t>(threads) + shared + 64, std::byte{0xff});  // NaN in every type
    auto* base = bytes.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) % 64;
    options.threads = threads;
    options.shared_scratch = base;
    options.thread_scratch = base + shared;
    options.thread_scratch_stride = stride;
  }
};

// Every element's 32 bits, in the product's own order, and how often it came.
struct Collected {
  const Product& product;
  const Blocking& blocking;
  std::vector<std::uint32_t> bits;
  std::vector<std::atomic<int>> visits;

  Collected(const Product& p, const Blocking& b)
      : product(p),
        blocking(b),
        bits(static_cast<std::size_t>(p.m * p.n)),
        visits(static_cast<std::size_t>(p.m * p.n)) {}

  static void consume(void* context, const FinishedBlock& block) {
    auto& self = *static_cast<Collected*>(context);
    EXPECT_EQ(block.row0 % self.blocking.group_rows, 0);
    EXPECT_LE(block.rows, self.blocking.group_rows);
    for (int piece = 0; piece < self.product.pieces.count; ++piece) {
      for (Int i = 0; i < block.rows; ++i) {
        for (Int j = 0; j < block.columns; ++j) {
          const Int column = column_of(self.product.pieces, self.product.n, piece, block.column0 + j);
          const auto at = static_cast<std::size_t>((block.row0 + i) * self.product.n + column);
          auto* acc = static_cast<std::uint32_t*>(block.acc) + i * block.acc_row + piece * block.piece_stride + j;
          self.bits[at] = *acc;
          *acc = 0xffffffff;  // it is the consumer's now
          ++self.visits[at];
        }
      }
    }
  }
};

std::vector<std::uint32_t> product_bits(const Product& product, const Blocking& blocking, int threads) {
  Scratch scratch(blocking, threads);
  Collected collected(product, blocking);
  scratch.options.consumer = {Collected::consume, &collected};
  run(product, blocking, scratch.options);
  for (std::size_t i = 0; i < collected.visits.size(); ++i) {
    if (collected.visits[i] != 1) {
      ADD_FAILURE() << "element " << i << " came " << collected.visits[i] << " times";
      break;
    }
  }
  return collected.bits;
}

double value_of(const Product& product, std::uint32_t bits) {
  return is_float(product.a.dtype) ? static_cast<double>(std::bit_cast<float>(bits))
                                   : static_cast<double>(static_cast<std::int32_t>(bits));
}

// The double loop: exact for integers; for floats with a bound on what any order of summation may
// lose.
struct Expected {
  std::vector<double> sums, bounds;

  Expected(const Product& p, const Operand& a, const Operand& b, Data data)
      : sums(static_cast<std::size_t>(p.m * p.n)), bounds(sums.size()) {
    const bool exact = data == Data::small_integers || !is_float(p.a.dtype);
    for (Int i = 0; i < p.m; ++i) {
      for (Int k = 0; k < p.k; ++k) {
        const double left = a.values[static_cast<std::size_t>(i * p.k + k)];
        const double* const right = b.values.data() + k * p.n;
        for (Int j = 0; j < p.n; ++j) {
          const double term = left * right[j];
          sums[static_cast<std::size_t>(i * p.n + j)] += term;
          if (!exact)
            bounds[static_cast<std::size_t>(i * p.n + j)] += std::abs(term) * static_cast<double>(p.k + 2) * 0x1p-24;
        }
      }
    }
  }
};

void expect_product(const Product& p, const Expected& expected, const std::vector<std::uint32_t>& bits) {
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const double got = value_of(p, bits[i]);
    ASSERT_LE(std::abs(got - expected.sums[i]), expected.bounds[i])
        << "row " << static_cast<Int>(i) / p.n << ", column " << static_cast<Int>(i) % p.n << ": " << got << " for "
        << expected.sums[i];
  }
}

std::string describe(const Product& p, Strides a, Strides b) {
  return std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k) + ", " +
         std::string(name(p.a.dtype)) + " by " + std::string(name(p.b.dtype)) + ", strides " +
         std::to_string(static_cast<int>(a)) + " and " + std::to_string(static_cast<int>(b));
}

class GemmTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > machine_isa()) GTEST_SKIP() << "this machine has no " << name(GetParam());
  }
  Isa isa() const { return GetParam(); }

  // Checks one small product in f32 in the form that is asked for.
  void check_form(const SmallChoice& form, Int m, Int n, Int k, Strides strides_a, Strides strides_b, Data data) {
    std::mt19937 random(static_cast<unsigned>(m * 7 + n * 11 + k * 13));
    const Operand a(m, k, DType::f32, strides_a, data, random);
    const Operand b(k, n, DType::f32, strides_b, data, random);
    const Product product{m, n, k, a.matrix, b.matrix, nullptr, {}};
    SCOPED_TRACE(describe(product, strides_a, strides_b));
    Blocking blocking;
    blocking.isa = isa();
    block_small(blocking, form, shape_of(product));
    const std::vector<std::uint32_t> bits = product_bits(product, blocking, 1);
    expect_product(product, Expected(product, a, b, data), bits);
    EXPECT_EQ(bits, product_bits(product, blocking, 2)) << "2 threads";
  }

  // Checks one product: its values, the same bits on any number of threads and packed, and whole
  // rows.
  void check(Int m, Int n, Int k, DType type_a, DType type_b, Strides strides_a, Strides strides_b, Data data,
             Pieces pieces = {}) {
    std::mt19937 random(static_cast<unsigned>(m * 7 + n * 11 + k * 13 + static_cast<int>(type_a)));
    const Operand a(m, k, type_a, strides_a, data, random);
    const Operand b(k, n, type_b, strides_b, data, random);
    Product product{m, n, k, a.matrix, b.matrix, nullptr, pieces};
    SCOPED_TRACE(describe(product, strides_a, strides_b));

    const Expected expected(product, a, b, data);
    for (const bool whole_rows : {false, true}) {
      const Blocking blocking = choose_blocking(shape_of(product), isa(), whole_rows);
      const std::vector<std::uint32_t> bits = product_bits(product, blocking, 1);
      expect_product(product, expected, bits);
      if (testing::Test::HasFatalFailure()) return;
      // Small products take two or three threads in turns: forking is most of the time of these
      // tests.
      for (const int threads : {2, 3}) {
        if (m * n > 4096 || threads == 2 + (m + n + k) % 2) {
          EXPECT_EQ(bits, product_bits(product, blocking, threads)) << threads << " threads";
        }
      }

      const int pack_threads = m * n > 4096 ? 2 : 1;
      const PackedB packed = pack_b(product, isa(), pack_threads);
      Product with_packed = product;
      with_packed.packed_b = &packed;
      with_packed.b.data = nullptr;
      const Blocking packed_blocking = choose_blocking(shape_of(with_packed), isa(), whole_rows);
      const std::vector<std::uint32_t> packed_bits = product_bits(with_packed, packed_blocking, pack_threads);
      expect_product(product, expected, packed_bits);
      if (!blocking.thin && blocking.small == Small::no && packed_blocking.k_block == blocking.k_block) {
        EXPECT_EQ(bits, packed_bits) << "packed";
      }
    }
  }
};

constexpr DType float_types[] = {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2};
constexpr DType integer_types[] = {DType::s8, DType::u8};

TEST_P(GemmTest, EveryTypeAndLayoutIsExactOnIntegers) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2, DType::s8, DType::u8}) {
    for (const Strides a : all_strides) {
      for (const Strides b : all_strides) {
        check(29, 71, 37, type, type, a, b, Data::small_integers);
        check(5, 37, 70, type, type, a, b, Data::small_integers);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GemmTest, RandomNumbersAreWithinTheBound) {
  for (const DType type : float_types) {
    for (const Strides strides : {Strides::rows, Strides::columns, Strides::both_odd}) {
      check(50, 67, 131, type, type, strides, strides, Data::any);
      check(7, 67, 131, type, type, strides, strides, Data::any);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(GemmTest, TypesMix) {
  for (const DType a : float_types) {
    for (const DType b : float_types) check(26, 40, 33, a, b, Strides::rows, Strides::columns, Data::small_integers);
  }
  for (const DType a : integer_types) {
    for (const DType b : integer_types) {
      for (const Strides strides : all_strides) {
        check(26, 83, 130, a, b, strides, Strides::columns, Data::any);
        check(26, 83, 130, a, b, Strides::columns, strides, Data::any);
      }
    }
  }
}

TEST_P(GemmTest, SizesAroundTheTiles) {
  const Int ms[] = {0, 1, 2, 5, 6, 7, 8, 15, 16, 17, 23, 24, 25, 47, 48, 49, 97};
  const Int ns[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 47, 49, 63, 64, 65, 127, 129, 257};
  const Int ks[] = {0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 64, 129};
  std::mt19937 random(1);
  for (const DType type : {DType::f32, DType::bf16, DType::s8}) {
    for (const Int m : ms) {
      for (const Int n : ns) {
        const Int k = ks[random() % std::size(ks)];
        const Strides a = random() % 2 ? Strides::rows : Strides::columns;
        const Strides b = random() % 2 ? Strides::rows : Strides::columns;
        check(m, n, k, type, type, a, b, Data::small_integers);
        if (HasFatalFailure()) return;
      }
    }
    for (const Int k : ks) check(31, 33, k, type, type, Strides::rows, Strides::rows, Data::small_integers);
  }
}

TEST_P(GemmTest, SeveralBlocksOfEachKind) {
  for (const DType type : {DType::f32, DType::f16, DType::s8, DType::u8}) {
    const Int deep = is_float(type) ? 1000 : 4000;
    check(53, 601, deep, type, type, Strides::rows, Strides::columns, Data::small_integers);
    check(101, 300, deep, type, type, Strides::columns, Strides::rows, Data::small_integers);
  }
  check(3, 1201, 5000, DType::f32, DType::f32, Strides::rows, Strides::rows, Data::small_integers);
  // A product of few rows with B contiguous in K is turned.
  check(40, 601, 2500, DType::f32, DType::f32, Strides::rows, Strides::columns, Data::small_integers);
  check(33, 300, 2100, DType::bf16, DType::bf16, Strides::columns, Strides::columns, Data::small_integers);
  check(150, 601, 2300, DType::bf16, DType::bf16, Strides::rows, Strides::both_odd, Data::any);
  check(101, 450, 1100, DType::f16, DType::f32, Strides::both_odd, Strides::columns, Data::any);
  // Rows behind a small B, enough to be finished by one thread each.
  check(250, 1500, 150, DType::f32, DType::f32, Strides::rows, Strides::columns, Data::small_integers);
  check(250, 1500, 150, DType::bf16, DType::bf16, Strides::rows, Strides::rows, Data::small_integers, {2, 0});
  check(200, 300, 1500, DType::s8, DType::u8, Strides::columns, Strides::columns, Data::any);
  check(3, 601, 5000, DType::bf16, DType::bf16, Strides::rows, Strides::columns, Data::small_integers);
}

// Rows of A whole pages apart, and a B whose rows are a panel as they lie.
TEST_P(GemmTest, NarrowProducts) {
  for (const Int n : {10, 16, 32, 48, 64, 80}) {
    for (const Int k : {512, 1024, 1500})
      check(53, n, k, DType::f32, DType::f32, Strides::dense, Strides::dense, Data::any);
  }
  check(210, 64, 600, DType::f32, DType::f32, Strides::rows, Strides::dense, Data::any);
  check(20, 32, 9000, DType::f32, DType::f32, Strides::rows, Strides::dense, Data::any);
  check(53, 32, 100, DType::f32, DType::f32, Strides::rows, Strides::dense, Data::any, {2, 0});
  check(53, 32, 100, DType::bf16, DType::f32, Strides::rows, Strides::dense, Data::any);
}

// Rows of 9 to 16 columns, in tiles of every height, and B in lines as it lies, packed and copied.
TEST_P(GemmTest, NarrowRowsReadLines) {
  for (const Int m : {5, 7, 8, 10, 12, 15, 17, 96, 107}) {
    for (const Int n : {9, 12, 15, 16}) {
      for (const Int k : {15, 16, 17, 34, 99}) {
        for (const Strides b : {Strides::rows, Strides::dense, Strides::columns})
          check(m, n, k, DType::f32, DType::f32, Strides::rows, b, m % 2 ? Data::any : Data::small_integers);
      }
    }
  }
  for (const Int k : {512, 1024, 1025})
    check(203, 13, k, DType::f32, DType::f32, Strides::dense, Strides::dense, Data::any);
  check(120, 13, 50, DType::f32, DType::f32, Strides::columns, Strides::rows, Data::any);
}

// Small products are multiplied at once, in the form that takes fewest cycles.
TEST_P(GemmTest, SmallProductsAreMultipliedAtOnce) {
  struct Case {
    Int m, n, k;
    bool b_by_k;
    Small form;
    bool some_dots, all_dots;
  };
  const Case cases[] = {
      {40, 70, 30, false, Small::as_it_lies, false, false},  {40, 70, 30, true, Small::packed, false, false},
      {3, 300, 2, true, Small::packed, false, false},        {300, 6, 2, false, Small::as_it_lies, false, false},
      {300, 2, 700, false, Small::as_it_lies, true, true},   {1000, 5, 515, true, Small::as_it_lies, true, true},
      {150, 9, 2000, true, Small::as_it_lies, true, true},   {200, 65, 400, false, Small::as_it_lies, true, false},
      {200, 65, 400, true, Small::packed, true, false},      {50, 33, 3, true, Small::packed, false, false},
      {50, 33, 4, true, Small::packed, false, false},        {60, 3, 300, false, Small::as_it_lies, true, true},
      {60, 4, 301, false, Small::as_it_lies, true, true},    {200, 48, 2100, false, Small::as_it_lies, false, false},
      {200, 35, 2100, true, Small::packed, true, false},     {60, 9, 1907, true, Small::as_it_lies, true, true},
      {40, 5, 3300, false, Small::as_it_lies, true, true},   {7, 62, 300, false, Small::as_it_lies, false, false},
      {20, 80, 210, false, Small::as_it_lies, false, false}, {31, 43, 99, false, Small::as_it_lies, false, false},
      {24, 1, 1, false, Small::as_it_lies, false, false},    {1, 2, 6, false, Small::as_it_lies, false, false},
      {8, 6, 11, true, Small::as_it_lies, true, true}};
  for (const Case& c : cases) {
    const Strides b = c.b_by_k ? Strides::columns : Strides::rows;
    ProductShape shape{.m = c.m, .n = c.n, .k = c.k};
    shape.a_k_major = true, shape.b_k_major = c.b_by_k, shape.b_n_major = !c.b_by_k;
    const Blocking blocking = choose_blocking(shape, isa());
    EXPECT_NE(blocking.small, Small::no) << c.m << " x " << c.n << " x " << c.k;
    if (isa() >= Isa::avx512) {
      EXPECT_EQ(blocking.small, c.form) << c.m << " x " << c.n << " x " << c.k;
      EXPECT_EQ(blocking.dots > 0, c.some_dots) << c.m << " x " << c.n << " x " << c.k;
      EXPECT_EQ(blocking.dots == c.n, c.all_dots) << c.m << " x " << c.n << " x " << c.k;
    }
    for (const Strides a : {Strides::rows, Strides::dense}) {
      check(c.m, c.n, c.k, DType::f32, DType::f32, a, b, Data::any);
      check(c.m, c.n, c.k, DType::f32, DType::f32, a, b, Data::small_integers);
    }
  }
  // Rows of C that are one row: every width and K, and rests of rows.
  Int joined = 0;
  for (Int n = 2; n < 16; ++n) {
    for (Int k = 1; k <= 9; ++k) {
      for (const Int m : {48 + n, 331 - k}) {
        const bool b_by_k = (n + k) % 2 == 0;
        ProductShape shape{.m = m, .n = n, .k = k};
        shape.a_k_major = true, shape.b_k_major = b_by_k && k > 1, shape.b_n_major = !shape.b_k_major;
        joined += choose_blocking(shape, isa()).joined;
        for (const Strides a : {Strides::rows, Strides::dense})
          check(m, n, k, DType::f32, DType::f32, a, b_by_k ? Strides::columns : Strides::rows, Data::any);
      }
    }
  }
  EXPECT_TRUE(isa() == Isa::portable ? joined == 0 : joined > (isa() == Isa::avx2 ? 8 : 40)) << joined;
  // A row of B has its columns one after another, whatever its stride.
  check(40, 70, 1, DType::f32, DType::f32, Strides::rows, Strides::columns, Data::any);
  // A of any strides.
  check(40, 70, 30, DType::f32, DType::f32, Strides::both_odd, Strides::rows, Data::any);
  check(40, 5, 300, DType::f32, DType::f32, Strides::columns, Strides::columns, Data::any);
  if (isa() == Isa::portable) return;
  // Vectors of rows: every number of columns, rests of rows and of four steps, and groups of rows with a few left.
  for (const Strides b : {Strides::rows, Strides::columns}) {
    for (const Int n : {1, 2, 3, 4, 5, 6, 7}) {
      for (const Int m : {3, 16, 33, 55, 1012}) {
        for (const Int k : {1, 2, 3, 4, 9, 14, 39}) {
          for (const Strides a : {Strides::rows, Strides::dense})
            check_form({Small::upright}, m, n, k, a, b, m % 2 ? Data::any : Data::small_integers);
        }
      }
    }
  }
  // Vectors of columns: every number of rows, and rests of columns and of four steps.
  for (Int m = 1; m <= 9; ++m) {
    for (const Int n : {3, 16, 33, 55, 1012}) {
      for (const Int k : {4, 5, 9, 14, 39}) {
        for (const Strides a : {Strides::rows, Strides::dense})
          check_form({Small::crossed}, m, n, k, a, Strides::columns, k % 2 ? Data::any : Data::small_integers);
      }
    }
  }
}

// A row's tile, and so its chains of sums, do not depend on how many rows a thread has.
TEST_P(GemmTest, SmallProductsHaveTheSameBitsOnAnyThreads) {
  std::mt19937 random(13);
  for (const auto& [m, n, k] : {std::tuple<Int, Int, Int>{60, 76, 512},
                                {60, 15, 512},
                                {300, 14, 100},
                                {203, 11, 1030},
                                {228, 76, 512},
                                {131, 100, 300},
                                {203, 250, 90},
                                {101, 1031, 30},
                                {52, 29, 333},
                                {331, 5, 3},
                                {1009, 7, 2},
                                {300, 71, 2},
                                {131, 402, 5},
                                {6, 1045, 40},
                                {2, 2053, 70},
                                {47, 1100, 200}}) {
    const Operand a(m, k, DType::f32, Strides::dense, Data::any, random);
    const Operand b(k, n, DType::f32, Strides::rows, Data::any, random);
    const Product product{m, n, k, a.matrix, b.matrix, nullptr, {}};
    const Blocking blocking = choose_blocking(shape_of(product), isa());
    std::vector<float> alone;
    for (const int threads : {1, 2, 3, 5, 9}) {
      std::vector<float> out(static_cast<std::size_t>(m * n));
      Direct direct;
      direct.out = out.data(), direct.row_stride = n;
      Scratch scratch(blocking, threads);
      scratch.options.direct = &direct;
      run(product, blocking, scratch.options);
      if (threads == 1) alone = out;
      EXPECT_EQ(std::memcmp(alone.data(), out.data(), out.size() * sizeof(float)), 0)
          << m << " x " << n << " x " << k << ", " << threads << " threads";
    }
  }
}

// A call that is recorded has the bits of one that finds its kernels, where a product is one tile and where it is more.
TEST_P(GemmTest, RecordedSmallProductsHaveTheSameBits) {
  std::mt19937 random(31);
  const std::vector<float> bias(80, 0.5f);
  for (Int m = 1; m <= 26; ++m) {
    for (const Int n : {1, 5, 8, 9, 16, 17, 32, 33, 48, 49, 64, 65}) {
      for (const Int k : {1, 3, 4, 7, 40}) {
        for (const Strides along : {Strides::rows, Strides::columns}) {
          const Operand a(m, k, DType::f32, Strides::dense, Data::any, random);
          const Operand b(k, n, DType::f32, along, Data::any, random);
          const Product product{m, n, k, a.matrix, b.matrix, nullptr, {}};
          const Blocking blocking = choose_blocking(shape_of(product), isa());
          if (blocking.small == Small::no) continue;
          Scratch scratch(blocking, 1);
          std::vector<float> found(static_cast<std::size_t>(m * n), 7.0f), recorded = found;
          Direct direct;
          direct.row_stride = n;
          if (m % 2 == 0) direct.bias = bias.data(), direct.lo = 0;
          scratch.options.direct = &direct;
          direct.out = found.data();
          run(product, blocking, scratch.options);
          direct.out = recorded.data();
          SmallCalls(product, blocking, scratch.options).run();
          ASSERT_EQ(std::memcmp(found.data(), recorded.data(), found.size() * sizeof(float)), 0)
              << describe(product, Strides::dense, along);
        }
      }
    }
  }
}

// Rows of a short K are stored a line of C at a time, wherever C begins, with nothing before it or behind it.
TEST_P(GemmTest, RowsOfAShortKAreStoredByLines) {
  std::mt19937 random(14);
  Int lined = 0;
  for (const auto& [m, n] : {std::pair<Int, Int>{301, 41},
                             {205, 66},
                             {140, 101},
                             {99, 130},
                             {97, 152},
                             {53, 1101},
                             {51, 4001},
                             {21, 705},
                             {23, 4001}}) {
    for (Int k = 1; k <= 7; ++k) {
      const bool b_by_k = (n + k) % 2 == 0;
      const Operand a(m, k, DType::f32, k % 3 ? Strides::dense : Strides::both_odd, Data::any, random);
      const Operand b(k, n, DType::f32, b_by_k ? Strides::columns : Strides::rows, Data::any, random);
      const Product product{m, n, k, a.matrix, b.matrix, nullptr, {}};
      const Blocking blocking = choose_blocking(shape_of(product), isa());
      lined += blocking.joined;
      const Expected expected(product, a, b, Data::any);
      std::vector<std::uint32_t> alone;
      for (const int first : {0, 1, 9, 15}) {
        std::vector<std::uint32_t> out(static_cast<std::size_t>(m * n + 32), 0x7fc01234);
        Direct direct;
        direct.out = reinterpret_cast<float*>(out.data() + first), direct.row_stride = n;
        Scratch scratch(blocking, 1 + first % 4);
        scratch.options.direct = &direct;
        run(product, blocking, scratch.options);
        const auto begin = out.begin() + first, end = begin + m * n;
        EXPECT_EQ(std::count(out.begin(), begin, 0x7fc01234u), first);
        EXPECT_EQ(std::count(end, out.end(), 0x7fc01234u), 32 - first);
        const std::vector<std::uint32_t> bits(begin, end);
        if (first == 0) alone = bits, expect_product(product, expected, bits);
        EXPECT_EQ(bits, alone) << m << " x " << n << " x " << k << " from " << first;
      }
    }
  }
  EXPECT_TRUE(isa() < Isa::avx512 ? lined == 0 : lined > 25) << lined;
}

// Rows of a short K go along all columns, a few at a time: the same sums as blocks that are handed on, on any threads.
TEST_P(GemmTest, RowsOfAShortKGoAlongAllColumns) {
  std::mt19937 random(15);
  for (const auto& [m, n] : {std::pair<Int, Int>{1, 1477},
                             {2, 100},
                             {5, 300},
                             {7, 130},
                             {13, 157},
                             {50, 64},
                             {67, 400},
                             {301, 80},
                             {22, 1301}}) {
    for (Int k = 1; k <= 9; ++k) {
      const Operand a(m, k, DType::f32, k % 3 ? Strides::dense : Strides::both_odd, Data::any, random);
      const Operand b(k, n, DType::f32, (n + k) % 4 == 0 ? Strides::columns : Strides::rows, Data::any, random);
      const Operand bias(1, n, DType::f32, Strides::dense, Data::any, random);
      const Product product{m, n, k, a.matrix, b.matrix, nullptr, {}};
      const Blocking blocking = choose_blocking(shape_of(product), isa());
      const Expected expected(product, a, b, Data::any);
      const std::vector<std::uint32_t> blocks = product_bits(product, blocking, 1);
      expect_product(product, expected, blocks);
      for (const int threads : {1, 3}) {
        for (const bool plain : {true, false}) {
          std::vector<std::uint32_t> out(static_cast<std::size_t>(m * n + 1), 0x7fc01234), wanted = blocks;
          Direct direct;
          direct.out = reinterpret_cast<float*>(out.data()), direct.row_stride = n;
          if (!plain) {
            direct.bias = static_cast<const float*>(bias.matrix.data), direct.lo = 0;
            for (std::size_t i = 0; i < blocks.size(); ++i) {
              const float sum = std::bit_cast<float>(blocks[i]) + direct.bias[i % static_cast<std::size_t>(n)];
              wanted[i] = std::bit_cast<std::uint32_t>(sum > 0 ? sum : 0.0f);
            }
          }
          Scratch scratch(blocking, threads);
          scratch.options.direct = &direct;
          run(product, blocking, scratch.options);
          EXPECT_EQ(out.back(), 0x7fc01234u);
          out.pop_back();
          EXPECT_EQ(out, wanted) << m << " x " << n << " x " << k << ", " << threads << " threads, plain " << plain;
        }
      }
    }
  }
}

// Rows of A that follow one another are parted for rows of C that are one row, also where they are few.
TEST_P(GemmTest, CloseRowsAreJoined) {
  Int joined = 0, apart = 0;
  for (Int n = 1; n < 16; ++n) {
    for (Int k = 1; k <= 8; ++k) {
      for (const Int m : {30 + n % 3, 96 + k, 331 - k}) {
        ProductShape shape{.m = m, .n = n, .k = k};
        shape.a_k_major = shape.b_n_major = true;
        apart += choose_blocking(shape, isa()).joined;
        shape.a_close = true;
        joined += choose_blocking(shape, isa()).joined;
        check(m, n, k, DType::f32, DType::f32, Strides::dense, Strides::rows, m % 2 ? Data::any : Data::small_integers);
      }
    }
  }
  EXPECT_TRUE(isa() < Isa::avx512 ? joined == apart : joined > 100 && joined != apart) << joined << " and " << apart;
}

TEST_P(GemmTest, LongSumsAreSplit) {
  for (const Int m : {Int{2}, Int{30}}) {
    const ProductShape shape{.m = m, .n = 33, .k = 20011};
    EXPECT_GT(choose_blocking(shape, isa()).splits, 1);
    for (const Strides strides : {Strides::rows, Strides::columns}) {
      check(m, 33, 20011, DType::f32, DType::f32, strides, strides, Data::small_integers);
      check(m, 33, 20011, DType::f32, DType::f32, strides, strides, Data::any);
    }
  }
  check(30, 33, 60000, DType::s8, DType::s8, Strides::rows, Strides::columns, Data::any);
}

TEST_P(GemmTest, PiecesArriveTogether) {
  for (const DType type : {DType::f32, DType::bf16, DType::s8}) {
    for (const Strides b : {Strides::rows, Strides::columns, Strides::both_odd}) {
      for (const Int m : {Int{5}, Int{29}}) {
        check(m, 144, 40, type, type, Strides::rows, b, Data::small_integers, {2, 0});   // halves
        check(m, 144, 40, type, type, Strides::rows, b, Data::small_integers, {2, 2});   // even and odd
        check(m, 144, 40, type, type, Strides::rows, b, Data::small_integers, {2, 48});  // halves of heads
        check(m, 144, 40, type, type, Strides::rows, b, Data::small_integers, {3, 9});
        check(m, 1290, 400, type, type, Strides::rows, b, Data::small_integers, {3, 0});
        check(m, 1288, 900, type, type, Strides::rows, b, Data::small_integers, {2, 14});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GemmTest, DirectStoresAreTheBlocksWithTheirEpilogue) {
  std::mt19937 random(5);
  struct Case {
    Int m, n, k;
  };
  for (const Case& c : {Case{29, 71, 37}, Case{5, 71, 37},   Case{50, 300, 900}, Case{20, 33, 9000}, Case{25, 16, 0},
                        Case{90, 3, 400}, Case{90, 33, 400}, Case{30, 9, 3},     Case{20, 150, 90},  Case{70, 1, 5},
                        Case{53, 3, 14},  Case{40, 2, 24},   Case{90, 4, 30},    Case{90, 7, 3},     Case{55, 3, 1},
                        Case{131, 5, 8},  Case{4, 19, 126},  Case{14, 23, 300},  Case{5, 703, 9},    Case{29, 1053, 91},
                        Case{200, 71, 2}, Case{56, 301, 4},  Case{176, 150, 6}}) {
    const Operand a(c.m, c.k, DType::f32, Strides::rows, Data::any, random);
    const Operand b(c.k, c.n, DType::f32, Strides::columns, Data::any, random);
    const Product product{c.m, c.n, c.k, a.matrix, b.matrix, nullptr, {}};
    const Blocking blocking = choose_blocking(shape_of(product), isa());
    const std::vector<std::uint32_t> acc = product_bits(product, blocking, 1);
    std::vector<float> bias(static_cast<std::size_t>(c.n)), add(static_cast<std::size_t>(c.m * c.n));
    for (float& x : bias) x = static_cast<float>(static_cast<int>(random() % 9) - 4);
    for (float& x : add) x = static_cast<float>(static_cast<int>(random() % 9) - 4) / 4;
    bias[0] = NAN;

    // 1 bias, 2 add, 4 scale and bounds, 8 add with beta, 16 beta = 0 and nothing there to read, 32 bounds alone.
    for (int parts = 0; parts < 40; ++parts) {
      if (parts >= 8 && parts < 32 && ((parts & 3) != 2 || parts >= 24)) continue;
      for (const bool in_place : {false, true}) {
        std::vector<float> out = add;
        Direct direct;
        direct.out = out.data();
        direct.row_stride = c.n;
        if (parts & 1) direct.bias = bias.data();
        if (parts & 2) {
          direct.add = in_place ? out.data() : add.data();
          direct.add_row_stride = c.n;
        }
        if (parts >= 8 && parts < 32) {
          direct.has_beta = true;
          direct.beta = parts & 8 ? 0.5f : 0.0f;  // of values that it keeps exact
          if (parts & 16) direct.add = nullptr;   // would crash if it were read
        }
        if (parts & 36)
          direct.alpha = parts & 32 ? 1.0f : 0.5f, direct.lo = 0.0f, direct.hi = parts & 4 ? 3.0f : INFINITY;
        Scratch scratch(blocking, 2);
        scratch.options.direct = &direct;
        run(product, blocking, scratch.options);
        for (Int i = 0; i < c.m; ++i) {
          for (Int j = 0; j < c.n; ++j) {
            const auto at = static_cast<std::size_t>(i * c.n + j);
            float x = std::bit_cast<float>(acc[at]) * direct.alpha;  // a power of two: exact
            if (direct.bias) x += bias[static_cast<std::size_t>(j)];
            if (direct.add && !(parts & 16)) x += parts & 8 ? direct.beta * add[at] : add[at];
            if (parts & 16) x += 0.0f;
            if (parts & 36 && !std::isnan(x)) x = x > 0 ? std::min(x, direct.hi) : 0.0f;
            if (std::isnan(x)) {
              ASSERT_TRUE(std::isnan(out[at])) << i << ", " << j << ", parts " << parts;
            } else {
              ASSERT_EQ(std::bit_cast<std::uint32_t>(out[at]), std::bit_cast<std::uint32_t>(x))
                  << i << ", " << j << ", parts " << parts;
            }
          }
        }
      }
    }
  }
}

// A product that rounds to -0 is below a bound of +0, whatever adds it.
TEST_P(GemmTest, ABoundOfZeroBeatsMinusZero) {
  const Int m = 53, n = 70;
  std::vector<float> a(static_cast<std::size_t>(m), -1e-30f), b(static_cast<std::size_t>(n), 1e-30f);
  std::vector<float> minus(static_cast<std::size_t>(m * n), -0.0f);
  const Product product{m, n, 1, {a.data(), DType::f32, 1, 1}, {b.data(), DType::f32, n, 1}, nullptr, {}};
  const Blocking blocking = choose_blocking(shape_of(product), isa());
  for (const float alpha : {1.0f, 0.5f}) {
    for (int parts = 0; parts < 4; ++parts) {
      std::vector<float> out(minus.size(), 1.0f);
      Direct direct;
      direct.out = out.data();
      direct.row_stride = direct.add_row_stride = n;
      direct.alpha = alpha;
      direct.lo = 0;
      if (parts & 1) direct.bias = minus.data();
      if (parts & 2) direct.add = minus.data();
      Scratch scratch(blocking, 1);
      scratch.options.direct = &direct;
      run(product, blocking, scratch.options);
      for (const float x : out) ASSERT_EQ(std::bit_cast<std::uint32_t>(x), 0u) << alpha << ", parts " << parts;
    }
  }
}

TEST_P(GemmTest, DirectWritesNothingElse) {
  std::mt19937 random(6);
  const Operand a(7, 20, DType::f32, Strides::rows, Data::any, random);
  const Operand b(20, 21, DType::f32, Strides::rows, Data::any, random);
  for (const Int m : {Int{7}, Int{3}}) {
    const Product product{m, 21, 20, a.matrix, b.matrix, nullptr, {}};
    const Blocking blocking = choose_blocking(shape_of(product), isa());
    std::vector<float> out(7 * 40, 12345.0f);
    Direct direct;
    direct.out = out.data() + 1;
    direct.row_stride = 40;
    Scratch scratch(blocking, 1);
    scratch.options.direct = &direct;
    run(product, blocking, scratch.options);
    for (Int i = 0; i < 7; ++i) {
      for (Int j = 0; j < 40; ++j) {
        const bool inside = i < m && j >= 1 && j < 22;
        EXPECT_EQ(out[static_cast<std::size_t>(i * 40 + j)] == 12345.0f, !inside) << i << ", " << j;
      }
    }
  }
}

TEST_P(GemmTest, NonFiniteNumbersStayInTheirRowsAndColumns) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Int m : {Int{4}, Int{30}}) {
      for (const Strides strides : {Strides::rows, Strides::columns}) {
        std::mt19937 random(7);
        Operand a(m, 21, type, strides, Data::small_integers, random);
        Operand b(21, 19, type, strides, Data::small_integers, random);
        auto put = [&](Operand& o, Int row, Int column, float x) {
          const Int at = row * o.matrix.row_stride + column * o.matrix.column_stride;
          const std::uint32_t code = std::bit_cast<std::uint32_t>(x) >> (type == DType::bf16 ? 16 : 0);
          std::memcpy(o.bytes.get() + at * size_of(type), &code, static_cast<std::size_t>(size_of(type)));
        };
        put(a, 2, 20, INFINITY);
        put(b, 5, 18, NAN);
        const Product product{m, 19, 21, a.matrix, b.matrix, nullptr, {}};
        const auto bits = product_bits(product, choose_blocking(shape_of(product), isa()), 1);
        for (Int i = 0; i < m; ++i) {
          for (Int j = 0; j < 19; ++j) {
            const float x = std::bit_cast<float>(bits[static_cast<std::size_t>(i * 19 + j)]);
            EXPECT_EQ(std::isfinite(x), i != 2 && j != 18) << i << ", " << j << ": " << x;
          }
        }
      }
    }
  }
}

// bf16 instructions take denormal operands and denormal sums for zero; results must not show it.
TEST_P(GemmTest, DenormalNumbersCount) {
  const Int n = 70, k = 41;
  std::mt19937 random(8);
  struct Exponents {
    std::uint32_t a, b;  // the least, biased; 0: denormal numbers only
  };
  for (const Exponents least :
       {Exponents{0, 0}, {0, 127}, {0, 250}, {250, 0}, {1, 138}, {70, 60}, {71, 69}, {71, 71}}) {
    for (const Int m : {Int{5}, Int{31}}) {
      for (const Strides strides : {Strides::rows, Strides::columns}) {
        const auto codes_from = [&](std::uint32_t exponent) {
          return [&random, exponent] {
            const auto sign = static_cast<std::uint32_t>(random() & 1) << 15;
            if (random() % 4 == 0) return sign;
            const auto above = exponent == 0 ? 0 : static_cast<std::uint32_t>(random() % 3);
            return sign | (exponent + above) << 7 | static_cast<std::uint32_t>(random() & 0x7f);
          };
        };
        const Operand a(m, k, DType::bf16, strides, random, codes_from(least.a));
        const Operand b(k, n, DType::bf16, strides, random, codes_from(least.b));
        Product product{m, n, k, a.matrix, b.matrix, nullptr, {}};
        SCOPED_TRACE(describe(product, strides, strides) + ", exponents from " + std::to_string(least.a) + " and " +
                     std::to_string(least.b));
        Expected expected(product, a, b, Data::any);
        for (double& bound : expected.bounds) bound += static_cast<double>(k) * 0x1p-149;
        expect_product(product, expected, product_bits(product, choose_blocking(shape_of(product), isa()), 2));
        const PackedB packed = pack_b(product, isa(), 1);
        product.packed_b = &packed;
        expect_product(product, expected, product_bits(product, choose_blocking(shape_of(product), isa()), 2));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// (1 + 1/128)^2 - 1 * (1 + 2/128) is 2^-14: the least unit that the products of two exponents have.
TEST_P(GemmTest, WhatIsLeftOfACancellationMayBeDenormal) {
  const auto bf16 = [](float x, int exponent) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(std::ldexp(x, exponent)) >> 16);
  };
  for (int both = -125; both <= -105; ++both) {
    const int of_a = both / 2, of_b = both - of_a;
    std::vector<std::uint16_t> a;
    for (int i = 0; i < 17; ++i) {
      a.push_back(bf16(1 + 0x1p-7f, of_a));
      a.push_back(bf16(-1, of_a));
    }
    const std::uint16_t b[] = {bf16(1 + 0x1p-7f, of_b), bf16(1 + 0x1p-6f, of_b)};
    const Product product{17, 1, 2, {a.data(), DType::bf16, 2, 1}, {b, DType::bf16, 1, 1}, nullptr, {}};
    for (const std::uint32_t bits : product_bits(product, choose_blocking(shape_of(product), isa()), 1)) {
      EXPECT_EQ(std::bit_cast<float>(bits), std::ldexp(1.0f, both - 14));
    }
  }
}

TEST_P(GemmTest, ADenormalNumberChangesNoOtherColumn) {
  std::mt19937 random(9);
  const Operand a(130, 1100, DType::bf16, Strides::rows, Data::any, random);
  const Operand b(1100, 300, DType::bf16, Strides::columns, Data::any, random);
  const Product product{130, 300, 1100, a.matrix, b.matrix, nullptr, {}};
  const Blocking blocking = choose_blocking(shape_of(product), isa());
  const auto before = product_bits(product, blocking, 2);
  const std::uint16_t denormal = 3;
  std::memcpy(b.bytes.get() + b.matrix.column_stride * 2 * 299, &denormal, 2);
  const auto after = product_bits(product, blocking, 2);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i % 300 != 299) { ASSERT_EQ(before[i], after[i]) << i / 300 << ", " << i % 300; }
  }
}

TEST_P(GemmTest, EveryCodeOfASmallFloatIsConverted) {
  for (const DType type : {DType::e4m3, DType::e5m2, DType::f16, DType::bf16}) {
    const Int count = size_of(type) == 1 ? 256 : 65536;
    std::vector<std::uint16_t> wide(static_cast<std::size_t>(count));
    std::vector<std::uint8_t> narrow(static_cast<std::size_t>(count));
    for (Int i = 0; i < count; ++i) {
      wide[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i);
      narrow[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
    }
    const void* codes = size_of(type) == 1 ? static_cast<const void*>(narrow.data()) : wide.data();
    const float one = 1.0f;
    const std::uint32_t own_one = encode(type, 1);
    const Product product{1, count, 1, {&one, DType::f32, 1, 1}, {codes, type, count, 1}, nullptr, {}};
    const Product other{count, 1, 1, {codes, type, 1, 1}, {&one, DType::f32, 1, 1}, nullptr, {}};
    const Product own{count, 1, 1, {codes, type, 1, 1}, {&own_one, type, 1, 1}, nullptr, {}};
    for (const Product* p : {&product, &other, &own}) {
      const auto bits = product_bits(*p, choose_blocking(shape_of(*p), isa()), 1);
      const Format f = format_of(type);
      for (Int i = 0; i < count; ++i) {
        const float got = std::bit_cast<float>(bits[static_cast<std::size_t>(i)]);
        const Int exponents = (Int{1} << f.exponent_bits) - 1, mantissas = (Int{1} << f.mantissa_bits) - 1;
        const Int exponent = i >> f.mantissa_bits & exponents, mantissa = i & mantissas;
        const bool negative = i >> (f.exponent_bits + f.mantissa_bits);
        const bool nan = type == DType::e4m3 ? exponent == exponents && mantissa == mantissas
                                             : exponent == exponents && mantissa != 0;
        if (nan) {
          ASSERT_TRUE(std::isnan(got)) << name(type) << " code " << i;
        } else if (exponent == exponents && type != DType::e4m3) {
          ASSERT_EQ(got, negative ? -INFINITY : INFINITY) << name(type) << " code " << i;
        } else {
          ASSERT_EQ(got, static_cast<float>(decode(type, static_cast<std::uint32_t>(i))))
              << name(type) << " code " << i;
        }
      }
    }
  }
}

// Few rows: several strips together, B out of memory, and rows of A that lie whole pages apart.
TEST_P(GemmTest, WideThinProducts) {
  for (const Strides b : {Strides::rows, Strides::columns, Strides::both_odd}) {
    check(2, 4700, 900, DType::f32, DType::f32, Strides::dense, b, Data::any);
    check(9, 1601, 1024, DType::f32, DType::bf16, Strides::dense, b, Data::small_integers);
    check(3, 5400, 40, DType::f32, DType::f32, Strides::rows, b, Data::small_integers, {2, 0});
  }
}

// Up to 24 rows by a B contiguous in N: tiles of every height and width, several k blocks; and one row or column, whose
// dot products are made eight at a time.
TEST_P(GemmTest, FewRowsPassBInTiles) {
  for (Int m = 1; m <= row_group; ++m) {
    EXPECT_TRUE(choose_blocking({.m = m, .n = 700, .k = 600, .b_n_major = true}, isa()).thin) << m;
    check(m, 700 + m, 600, DType::f32, DType::f32, Strides::dense, Strides::rows,
          m % 2 ? Data::any : Data::small_integers);
  }
  for (const Int m : {25, 31, 48, 67, 128}) {
    EXPECT_TRUE(choose_blocking({.m = m, .n = 700, .k = 600, .b_n_major = true}, isa()).thin) << m;
    for (const Strides a : {Strides::dense, Strides::rows, Strides::columns})
      check(m, 1203, 300, DType::f32, DType::f32, a, Strides::rows, Data::any);
  }
  // With a short K where nothing follows, or by a B that L2 does not hold; panels of a smaller one are copied where L1
  // does not hold them.
  EXPECT_TRUE(choose_blocking({.m = 60, .n = 2000, .k = 50, .b_n_major = true, .alone = true}, isa()).thin);
  EXPECT_FALSE(choose_blocking({.m = 60, .n = 2000, .k = 50, .b_n_major = true}, isa()).thin);
  EXPECT_TRUE(choose_blocking({.m = 60, .n = 3000, .k = 110, .b_n_major = true}, isa()).thin);
  // The first rows copy panels of a B in L2 whose rows are a page apart.
  for (const Int m : {10, 12, 13, 18, 19, 24})
    check(m, 1101, 201, DType::f32, DType::f32, Strides::rows, Strides::rows, Data::any);
  for (const Int m : {49, 61, 100}) check(m, 901, 230, DType::f32, DType::f32, Strides::rows, Strides::rows, Data::any);
  for (const Int n : {1, 2, 3, 7, 8, 9, 25, 26, 51, 130}) {
    check(1, n, 333, DType::f32, DType::f32, Strides::dense, Strides::columns, Data::any);
    check(n, 1, 333, DType::f32, DType::f32, Strides::rows, Strides::columns, Data::any);
  }
  check(1, 150, 5000, DType::f32, DType::f32, Strides::dense, Strides::columns, Data::any);
  for (const Strides b : all_strides) check(51, 1, 1, DType::f32, DType::f32, Strides::rows, b, Data::any);
}

// A row more than read a B out of memory in long pieces does not pack it, and more rows than 128 do not where nothing
// follows and L2 does not hold B (decision 0314).
TEST_P(GemmTest, TilesPassALargeB) {
  const auto thin = [this](Int m, Int n, Int k, bool alone) {
    return choose_blocking({.m = m, .n = n, .k = k, .b_n_major = true, .alone = alone}, isa()).thin;
  };
  for (const bool alone : {false, true}) {
    EXPECT_TRUE(thin(17, 1530, 3069, alone));
    EXPECT_TRUE(thin(24, 3210, 1665, alone));
    EXPECT_FALSE(thin(25, 3210, 1665, alone));
    EXPECT_EQ(thin(138, 2948, 341, alone), alone);
  }
  EXPECT_FALSE(thin(138, 900, 200, true));
  EXPECT_FALSE(thin(193, 2948, 341, true));
  check(17, 2101, 2003, DType::f32, DType::f32, Strides::rows, Strides::rows, Data::any);
  std::mt19937 random(23);
  const Operand a(131, 400, DType::f32, Strides::rows, Data::any, random);
  const Operand b(400, 701, DType::f32, Strides::rows, Data::any, random);
  const Product product{131, 701, 400, a.matrix, b.matrix, nullptr, {}};
  ProductShape shape = shape_of(product);
  shape.alone = true;
  const Blocking blocking = choose_blocking(shape, isa());
  EXPECT_TRUE(blocking.thin);
  const std::vector<std::uint32_t> bits = product_bits(product, blocking, 1);
  expect_product(product, Expected(product, a, b, Data::any), bits);
  EXPECT_EQ(bits, product_bits(product, blocking, 3));
}

// Rows of many columns are collected a part at a time, also where they pass B in tiles.
TEST_P(GemmTest, WholeRowsOfTilesAreCollectedInParts) {
  const Blocking blocking = choose_blocking({.m = 41, .n = 52001, .k = 2, .b_n_major = true}, isa(), true);
  EXPECT_TRUE(blocking.thin);
  EXPECT_LT(blocking.row_block, 41);
  check(41, 52001, 2, DType::f32, DType::f32, Strides::rows, Strides::rows, Data::small_integers);
}

// Columns that begin anywhere have the sums of those that begin lines.
TEST_P(GemmTest, OneRowsSumsDoNotDependOnWhereColumnsBegin) {
  std::mt19937 random(16);
  std::normal_distribution<float> normal;
  for (const auto& [n, k] : {std::pair<Int, Int>{37, 75}, {300, 203}, {1000, 1029}}) {
    std::vector<float> a(static_cast<std::size_t>(k)), alone;
    for (float& x : a) x = normal(random);
    std::vector<float> columns(static_cast<std::size_t>(n * k));
    for (float& x : columns) x = normal(random);
    for (const Int distance : {k, k + 3, round_up(k, 16)}) {
      std::vector<float> b(static_cast<std::size_t>(n * distance)), out(static_cast<std::size_t>(n));
      for (Int j = 0; j < n; ++j) std::copy_n(columns.begin() + j * k, k, b.begin() + j * distance);
      const Product product{1, n, k, {a.data(), DType::f32, k, 1}, {b.data(), DType::f32, 1, distance}, nullptr, {}};
      const Blocking blocking = choose_blocking(shape_of(product), isa());
      Direct direct;
      direct.out = out.data(), direct.row_stride = n;
      Scratch scratch(blocking, 1);
      scratch.options.direct = &direct;
      run(product, blocking, scratch.options);
      if (alone.empty()) alone = out;
      EXPECT_EQ(std::memcmp(alone.data(), out.data(), out.size() * sizeof(float)), 0)
          << n << " columns of " << k << ", " << distance << " apart";
    }
  }
}

// Whatever the distance to another would be.
TEST_P(GemmTest, OneRowOfBIsContiguousInN) {
  std::mt19937 random(29);
  for (const Int m : {3, 24, 40}) {
    const Operand a(m, 1, DType::f32, Strides::rows, Data::small_integers, random);
    const Operand b(1, 64000, DType::f32, Strides::dense, Data::small_integers, random);
    std::vector<float> out(static_cast<std::size_t>(m * 64000));
    Direct direct;
    direct.out = out.data(), direct.row_stride = 64000;
    const auto least = [&](Int row_stride) {
      Product product{m, 64000, 1, a.matrix, b.matrix, nullptr, {}};
      product.b.row_stride = row_stride;
      const Blocking blocking = choose_blocking(shape_of(product), isa());
      Scratch scratch(blocking, 1);
      scratch.options.direct = &direct;
      double best = std::numeric_limits<double>::max();
      for (int i = 0; i < 5; ++i) {
        const postlude_test::Stopwatch watch;
        for (int j = 0; j < 10; ++j) run(product, blocking, scratch.options);
        best = std::min(best, watch.seconds());
      }
      return best;
    };
    const double usual = least(64000);
    const std::vector<float> expected = out;
    EXPECT_LE(least(1), 3 * usual) << m;
    EXPECT_EQ(out, expected) << m;
  }
}

// By a B contiguous in K, where turning back takes less than packing.
TEST_P(GemmTest, FewRowsAreTurnedWhereKIsLong) {
  if (isa() < Isa::avx512) return;
  const auto turned = [this](Int m, Int n, Int k) {
    return choose_blocking({.m = m, .n = n, .k = k, .b_k_major = true}, isa()).turned;
  };
  EXPECT_TRUE(turned(25, 400, 500));
  EXPECT_TRUE(turned(39, 900, 1000));
  EXPECT_FALSE(turned(32, 2333, 34));
  EXPECT_FALSE(turned(94, 1359, 157));
  EXPECT_FALSE(turned(78, 1795, 416));
  EXPECT_FALSE(turned(9, 3856, 63));
  for (const Int m : {25, 39}) check(m, 421, 519, DType::f32, DType::f32, Strides::rows, Strides::columns, Data::any);
}

// Of a long K a panel is passed at once, and accumulators less often (decision 0317).
TEST_P(GemmTest, PanelsOfALongKArePassedAtOnce) {
  const auto blocking = [this](Int m, Int k, bool packed = false) {
    return choose_blocking({.m = m, .n = 700, .k = k, .packed_b = packed, .b_k_major = true}, isa());
  };
  for (const Int m : {70, 320}) {
    EXPECT_EQ(blocking(m, 900).k_block, 912);
    EXPECT_EQ(blocking(m, 900).column_block, max_panel);
  }
  EXPECT_EQ(blocking(321, 900).k_block, 912);
  EXPECT_LE(blocking(321, 900).column_block, 128);
  EXPECT_EQ(blocking(321, 1100).k_block, 368);
  EXPECT_GT(blocking(70, 512).column_block, max_panel);
  EXPECT_EQ(blocking(70, 900, true).k_block, blocking(5000, 900, true).k_block);
  for (const Int m : {70, 205}) check(m, 141, 1301, DType::f32, DType::f32, Strides::rows, Strides::columns, Data::any);
}

// Threads have the same number of elements, to a block: the last column block may be narrow and the
// last row group low.
TEST_P(GemmTest, ThreadsShareElementsEvenly) {
  std::mt19937 random(11);
  for (const auto& [m, n, k] :
       {std::tuple<Int, Int, Int>{517, 1031, 150}, {256, 256, 160}, {60, 270, 140}, {8, 5001, 20}}) {
    const Operand a(m, k, DType::f32, Strides::rows, Data::any, random);
    const Operand b(k, n, DType::f32, Strides::columns, Data::any, random);
    const Product product{m, n, k, a.matrix, b.matrix, nullptr, {}};
    const Blocking blocking = choose_blocking(shape_of(product), isa());
    for (const int threads : {2, 3, 5}) {
      std::vector<std::atomic<Int>> elements(static_cast<std::size_t>(threads));
      Scratch scratch(blocking, threads);
      scratch.options.consumer = {[](void* context, const FinishedBlock& block) {
                                    auto* counts = static_cast<std::atomic<Int>*>(context);
                                    counts[block.thread] += block.rows * block.columns;
                                  },
                                  elements.data()};
      run(product, blocking, scratch.options);
      const Int height = blocking.thin || blocking.turned ? m : row_group;
      const Int block = height * blocking.column_block;
      for (const std::atomic<Int>& count : elements) {
        EXPECT_LE(std::abs(count - m * n / threads), block) << m << " x " << n << ", " << threads << " threads";
      }
    }
  }
}

// Two threads pack half of B each.
TEST_P(GemmTest, NarrowProductsHaveTwoColumnBlocks) {
  for (const bool packed : {false, true}) {
    for (const ProductShape& shape : {ProductShape{.m = 256, .n = 256, .k = 256}, {.m = 300, .n = 512, .k = 400}}) {
      ProductShape with = shape;
      with.packed_b = packed;
      with.pieces.count = shape.n == 512 ? 2 : 1;
      EXPECT_EQ(choose_blocking(with, isa()).column_block, 128);
    }
  }
  EXPECT_EQ(choose_blocking({.m = 4096, .n = 256, .k = 1100}, isa()).column_block, 256);
}

// Several column blocks a row group, B packed once; the last ones are fewer, and narrower.
TEST_P(GemmTest, ShallowProductsPassColumnBlocksByRows) {
  EXPECT_GT(choose_blocking({.m = 520, .n = 2200, .k = 128}, isa()).across, 1);
  check(520, 2200, 128, DType::f32, DType::f32, Strides::rows, Strides::columns, Data::small_integers);
  check(520, 1100, 48, DType::s8, DType::s8, Strides::rows, Strides::rows, Data::any);
  check(520, 1100, 40, DType::f32, DType::f32, Strides::rows, Strides::rows, Data::small_integers, {2, 0});
  for (const ProductShape& few_rows :
       {ProductShape{.m = 200, .n = 1100, .k = 16}, ProductShape{.m = 520, .n = 1100, .k = 256}})
    EXPECT_EQ(choose_blocking(few_rows, isa()).across, 1);
}

TEST_P(GemmTest, BlockingDoesNotNeedMuchMemory) {
  for (const bool whole_rows : {false, true}) {
    for (const DType type : {DType::f32, DType::bf16, DType::s8}) {
      for (const Int m : {Int{1}, Int{16}, Int{17}, Int{100}, Int{4096}, Int{100000}}) {
        for (const Int n : {Int{1}, Int{100}, Int{4096}, Int{51000}}) {
          for (const Int k : {Int{0}, Int{64}, Int{1000}, Int{4096}, Int{1000000}}) {
            const Blocking b = choose_blocking({.m = m, .n = n, .k = k, .a = type, .b = type}, isa(), whole_rows);
            EXPECT_LE(b.thread_bytes, 4u << 20) << m << " x " << n << " x " << k;
            EXPECT_LE(b.shared_bytes, 32u << 20) << m << " x " << n << " x " << k;
          }
        }
      }
    }
  }
}

TEST_P(GemmTest, ATypeWithoutKernelIsRefused) {
  for (const auto& [a, b] : {std::pair{DType::f32, DType::s8}, {DType::i32, DType::i32}, {DType::boolean, DType::s8}}) {
    try {
      static_cast<void>(choose_blocking({.m = 1, .n = 1, .k = 1, .a = a, .b = b}, isa()));
      FAIL();
    } catch (const Error& error) { EXPECT_EQ(error.code(), ErrorCode::unsupported); }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, GemmTest, testing::Values(Isa::portable, Isa::avx2, Isa::avx512, Isa::amx),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(GemmAcrossIsas, ExactDataGivesTheSameBits) {
  for (const DType type : {DType::f32, DType::bf16, DType::s8, DType::u8}) {
    std::mt19937 random(9);
    const Operand a(61, 700, type, Strides::rows, Data::small_integers, random);
    const Operand b(700, 130, type, Strides::columns, Data::small_integers, random);
    const Product product{61, 130, 700, a.matrix, b.matrix, nullptr, {}};
    const auto expected = product_bits(product, choose_blocking(shape_of(product), Isa::portable), 1);
    for (int isa = 1; isa <= static_cast<int>(machine_isa()); ++isa) {
      EXPECT_EQ(expected, product_bits(product, choose_blocking(shape_of(product), static_cast<Isa>(isa)), 2))
          << name(type) << " on " << name(static_cast<Isa>(isa));
    }
  }
}

}  // namespace
}  // namespace postlude::inline v0::cpu
