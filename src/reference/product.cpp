#include "reference/product.h"

#include "core/convert.h"
#include "core/threads.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

namespace postlude::inline v0::reference {

namespace {

constexpr std::int64_t worth_a_thread = 100'000;  // elements, or multiplications

// c (rows x columns, stride ldc) += a (rows x depth, stride lda) * b (depth x columns, stride ldb).
// The sums of 4 rows and two vectors stay in registers; compilers find no such tile by themselves.
template <class T, int bytes>
[[gnu::always_inline]] inline void accumulate(const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c,
                                              std::int64_t ldc, int rows, int depth, int columns) {
  using Vector [[gnu::vector_size(bytes), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
  constexpr int lanes = bytes / static_cast<int>(sizeof(T)), height = 4, width = 2 * lanes;
  const int whole_rows = rows / height * height, whole_columns = columns / width * width;
  for (int j = 0; j < whole_columns; j += width) {
    for (int i = 0; i < whole_rows; i += height) {
      const T* a0 = a + i * lda;
      Vector s00{}, s01{}, s10{}, s11{}, s20{}, s21{}, s30{}, s31{};
      for (int k = 0; k < depth; ++k) {
        const auto* row = reinterpret_cast<const Vector*>(b + k * ldb + j);
        const Vector b0 = row[0], b1 = row[1];
        const T x0 = a0[k], x1 = a0[lda + k], x2 = a0[2 * lda + k], x3 = a0[3 * lda + k];
        s00 += x0 * b0, s01 += x0 * b1;
        s10 += x1 * b0, s11 += x1 * b1;
        s20 += x2 * b0, s21 += x2 * b1;
        s30 += x3 * b0, s31 += x3 * b1;
      }
      const Vector sums[height][2] = {{s00, s01}, {s10, s11}, {s20, s21}, {s30, s31}};
      for (int r = 0; r < height; ++r) {
        auto* out = reinterpret_cast<Vector*>(c + (i + r) * ldc + j);
        out[0] += sums[r][0];
        out[1] += sums[r][1];
      }
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < depth; ++k)
      for (int j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
        c[i * ldc + j] += a[i * lda + k] * b[k * ldb + j];
}

template <class T>
using Accumulate = void (*)(const T*, std::int64_t, const T*, std::int64_t, T*, std::int64_t, int, int, int);

template <class T>
void portable(const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc, int rows, int depth,
              int columns) {
  accumulate<T, 16>(a, lda, b, ldb, c, ldc, rows, depth, columns);
}
#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2")]] void avx2(const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc,
                                  int rows, int depth, int columns) {
  accumulate<T, 32>(a, lda, b, ldb, c, ldc, rows, depth, columns);
}
template <class T>
[[gnu::target("avx512f")]] void avx512(const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c,
                                       std::int64_t ldc, int rows, int depth, int columns) {
  accumulate<T, 64>(a, lda, b, ldb, c, ldc, rows, depth, columns);
}
#endif

template <class T>
Accumulate<T> best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512<T>;
  if (__builtin_cpu_supports("avx2")) return avx2<T>;
#endif
  return portable<T>;
}

// A or B of a batch and a group, rows x columns, row-major.
struct Dense {
  std::vector<double> values;
  std::vector<char> absent;  // elements that are no element of an input, and 0
  bool any_absent = false;
};
Dense gather(const MainLoop& loop, MainLoop::Factor factor, std::span<const Given> inputs, std::int64_t b,
             std::int64_t group, std::int64_t rows, std::int64_t columns) {
  Dense out{.values = std::vector<double>(static_cast<std::size_t>(rows * columns)),
            .absent = std::vector<char>(static_cast<std::size_t>(rows * columns))};
  core::parallel_for(rows, worth_a_thread / std::max<std::int64_t>(1, columns) + 1, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(i * columns + j);
      const auto element = loop.element(factor, inputs, b, group, i, j);
      out.absent[at] = !element;
      if (element)
        out.values[at] = core::load_real(inputs[element->input].dtype, inputs[element->input].data, element->offset);
    }
  });
  out.any_absent = std::ranges::find(out.absent, 1) != out.absent.end();
  return out;
}

// For each element of a product, whether what is absent of A (m x k) meets what is not finite of B (k x n), or the
// other way round.
std::vector<char> meetings(const Dense& a, const Dense& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<char> met;
  const auto odd = [](double v) { return !std::isfinite(v); };
  if ((!a.any_absent || std::ranges::none_of(b.values, odd)) && (!b.any_absent || std::ranges::none_of(a.values, odd)))
    return met;
  met.resize(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t p = 0; p < k; ++p) {
      const auto left = static_cast<std::size_t>(i * k + p);
      if (!a.absent[left] && !odd(a.values[left])) continue;
      for (std::int64_t j = 0; j < n; ++j) {
        const auto right = static_cast<std::size_t>(p * n + j);
        if (a.absent[left] ? odd(b.values[right]) : b.absent[right] != 0) met[static_cast<std::size_t>(i * n + j)] = 1;
      }
    }
  return met;
}

// a (m x k) times b (k x n), in blocks that stay in cache. Those of b and c are copies: rows of the
// matrices may be a multiple of 4 KB apart, and would fight for one cache set.
template <class T>
std::vector<T> multiply_matrices(const std::vector<T>& a, const std::vector<T>& b, std::int64_t m, std::int64_t n,
                                 std::int64_t k) {
  constexpr std::int64_t depth = 128, width = 256, height = 64;
  std::vector<T> c(static_cast<std::size_t>(m * n));
  const Accumulate<T> run = best<T>();
  const std::int64_t grain = worth_a_thread / std::max<std::int64_t>(1, height * n * k) + 1;
  core::parallel_for((m + height - 1) / height, grain, [&](std::int64_t strip) {
    const std::int64_t i = strip * height;
    const int rows = static_cast<int>(std::min(height, m - i));
    for (std::int64_t j = 0; j < n; j += width) {
      const int columns = static_cast<int>(std::min(width, n - j));
      thread_local std::vector<T> block(height * width), packed(depth * width);  // 128 KB are a whole stack somewhere
      std::ranges::fill(block, T{});
      for (std::int64_t p = 0; p < k; p += depth) {
        const auto terms = std::min(depth, k - p);
        for (std::int64_t q = 0; q < terms; ++q)
          std::copy_n(&b[static_cast<std::size_t>((p + q) * n + j)], columns,
                      &packed[static_cast<std::size_t>(q * width)]);
        run(&a[static_cast<std::size_t>(i * k + p)], k, packed.data(), width, block.data(), width, rows,
            static_cast<int>(terms), columns);
      }
      for (int r = 0; r < rows; ++r)
        std::copy_n(&block[static_cast<std::size_t>(r * width)], columns,
                    &c[static_cast<std::size_t>((i + r) * n + j)]);
    }
  });
  return c;
}

int grid_of(const std::vector<double>& values) {
  int result = grid_of_zero;
  for (const double x : values) result = std::min(result, grid(x));
  return result;
}

std::vector<float> magnitudes(const std::vector<double>& x) {
  std::vector<float> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](double v) { return static_cast<float>(std::abs(v)); });
  return result;
}

// For each of `count` vectors of `k` elements, `pitch` apart: whether it holds one number only.
std::vector<bool> constant(const std::vector<double>& x, std::int64_t count, std::int64_t k, std::int64_t pitch,
                           std::int64_t stride) {
  std::vector<bool> result(static_cast<std::size_t>(count), true);
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t p = 1; p < k && result[static_cast<std::size_t>(i)]; ++p)
      result[static_cast<std::size_t>(i)] =
          x[static_cast<std::size_t>(i * pitch + p * stride)] == x[static_cast<std::size_t>(i * pitch)];
  return result;
}

double largest_finite(const std::vector<double>& x) {
  double largest = 0;
  for (const double v : x) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  return largest;
}

// `magnitude` is (|A| |B|), `step` the exponent of the unit of which all products are multiples.
// `largest`: what the products of finite elements may add up to; `exact`: how many units a partial
// sum may have.
Real accumulator(double value, double magnitude, int step, std::int64_t k, double relative, double largest,
                 double exact) {
  if (std::isnan(value)) return point(value);
  if (std::isinf(value))
    return largest > FLT_MAX ? anything(value) : point(value);  // overflow the other way makes it NaN
  if (magnitude > FLT_MAX) return anything(value);              // a partial sum may overflow
  if (magnitude == 0 && k > 0) return {0.0, -0.0, 0.0};
  if (step >= -149 && magnitude <= std::ldexp(exact, step)) return point(value + 0.0);  // no -0 out of a cancellation
  // A product that is rounded before it is added may lose half of the smallest denormal.
  const double error = relative * magnitude + static_cast<double>(k) * 0x1p-149;
  return rounded({value, value - error, value + error}, 0.5);
}

}  // namespace

double accumulation_error(std::int64_t count, double alike, double unit) {
  const auto n = static_cast<double>(count);
  const double worst = n * unit < 1 ? n * unit / (1 - n * unit) : infinity;
  return std::min(4 * std::sqrt(alike) * unit, worst);
}

double product_error(std::int64_t k, bool equal, const ErrorModel& model) {
  const auto alike = [&](double count) { return equal ? count * count : count; };
  const std::int64_t together = model.promoted ? std::min(k, model.promoted) : k,
                     parts = together ? (k + together - 1) / together : 0;
  const double one = std::max(accumulation_error(together, alike(static_cast<double>(together)), model.unit),
                              static_cast<double>(together) * model.drift);
  return parts > 1 ? one + accumulation_error(parts, alike(static_cast<double>(parts)), unit_roundoff) * (1 + one)
                   : one;
}

int grid(double x) {
  if (x == 0) return grid_of_zero;
  if (!std::isfinite(x)) return -2000;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);  // in [0.5, 1)
  const auto significand = static_cast<std::uint64_t>(std::ldexp(std::abs(fraction), 53));
  return exponent - 53 + std::countr_zero(significand);
}

std::vector<Cell> product(const MainLoop& loop, const Bindings& bindings, bool integers, const ErrorModel& model) {
  const Shape& shape = bindings.shape;
  std::vector<Cell> result(static_cast<std::size_t>(shape.batch * shape.m * shape.n));
  const Groups& groups = bindings.addressing.groups;
  const bool along_n = groups.along == Groups::Along::n;
  const std::int64_t m = along_n ? shape.m : shape.m / groups.count, n = along_n ? shape.n / groups.count : shape.n;
  // f32 partial sums of |A| |B| are short by 2^-24 a term at most.
  const double slack = 1 + 0x1p-23 * static_cast<double>(shape.k + 1);
  const double differ = product_error(shape.k, false, model), equal = product_error(shape.k, true, model);
  for (std::int64_t part = 0; part < shape.batch * groups.count; ++part) {
    const std::int64_t b = part / groups.count, group = part % groups.count;
    const Dense a_of = gather(loop, MainLoop::Factor::a, bindings.inputs, b, group, m, shape.k),
                b_of = gather(loop, MainLoop::Factor::b, bindings.inputs, b, group, shape.k, n);
    const std::vector<double>&left = a_of.values, &right = b_of.values;
    const auto value = multiply_matrices(left, right, m, n, shape.k);
    // The cell of element i of this part.
    const auto place = [&](std::size_t i) -> Cell& {
      const std::int64_t row = static_cast<std::int64_t>(i) / n + (along_n ? 0 : group * m),
                         column = static_cast<std::int64_t>(i) % n + (along_n ? group * n : 0);
      return result[static_cast<std::size_t>((b * shape.m + row) * shape.n + column)];
    };
    if (integers) {
      for (std::size_t i = 0; i < value.size(); ++i)
        place(i) = cell(point(
            std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(value[i])))}));
      continue;
    }
    const int step = grid_of(left) + grid_of(right);
    const auto magnitude = multiply_matrices(magnitudes(left), magnitudes(right), m, n, shape.k);
    const double largest = largest_finite(left) * largest_finite(right) * static_cast<double>(shape.k);
    // All products are equal where a row of A is one number and a column of B is one number.
    const std::vector<bool> rows = constant(left, m, shape.k, shape.k, 1), columns = constant(right, n, shape.k, 1, n);
    const std::vector<char> met = meetings(a_of, b_of, m, n, shape.k);
    core::parallel_for(m * n, worth_a_thread, [&](std::int64_t at) {
      const auto i = static_cast<std::size_t>(at), width = static_cast<std::size_t>(n);
      place(i) =
          cell(!met.empty() && met[i]
                   ? anything(value[i])
                   : accumulator(value[i], static_cast<double>(magnitude[i]) * slack, step, shape.k,
                                 rows[i / width] && columns[i % width] ? equal : differ, largest, 1 / model.unit));
    });
  }
  return result;
}

}  // namespace postlude::inline v0::reference
