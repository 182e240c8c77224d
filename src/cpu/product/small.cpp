#include "cpu/product/small.h"

#include "core/threads.h"
#include "cpu/product/blocking.h"
#include "cpu/product/pack.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace postlude::inline v0::cpu {
namespace {

// Larger products gain more from blocks than packing costs; of a B of `b_always` elements, which L2
// holds beside a few rows of A, never.
constexpr std::int64_t most_multiplied = 1 << 20, most_b = 128 << 10, b_always = 64 << 10;
// Few columns are passed at once: A is read in whole rows, and B is not packed for few of them.
constexpr std::int64_t few_columns = 64;
constexpr std::int64_t most_of_panels = 128;  // of K, as a panel stays in L1
constexpr std::int64_t rows_at_once = 8;
constexpr std::int64_t most_interleaved = 4;  // of more rows or columns one after another squares take less
constexpr std::int64_t a_in_l2 = 96 << 10;    // elements of A that pass all dot products together
constexpr std::int64_t b_in_l1 = 4 << 10;
// Dot products of so many rows read B's columns from whole lines, to which they are copied, and at most so many
// elements of them before the next part of K, which L1 holds (decision 0172).
constexpr std::int64_t least_copied = 32, dots_in_l1 = 8 << 10;
constexpr std::int64_t least_in_lines = 96;
constexpr std::int64_t row_of_page = 1024;  // elements
// Fewer multiplications are not worth a second thread.
constexpr std::int64_t least_for_threads = 1 << 17;
constexpr std::int64_t most_accumulators = 128 << 10;  // of a row group
// Few columns are handed on in blocks of so many elements, if there are rows for them, and of whole pairs of rows whose
// random numbers are of one block of Philox.
constexpr std::int64_t narrow_block = 2048, narrow_rows = 2 * row_group;

// Rows of C are joined for so short a K; as lines of C, of which L1 holds so many elements, for a shorter one.
constexpr std::int64_t most_joined = 8, most_lined = 6;
constexpr std::int64_t c_in_l1 = 12 << 10;
// Rows go along all columns for so short a K where they are few, of B's and C's elements that L1 holds (decision 0309).
constexpr std::int64_t most_streamed = 8, streamed_in_l1 = 8 << 10;
// More than a store leaves fewer registers; tiles of more than a few rows make the same sums.
constexpr std::int64_t most_streamed_with_more = 2;

// What the forms of a product execute, in cycles, about, and what they take to begin (`begin`, `few` for few steps or
// columns), by vectors of 16, 8 and 4: the figures that choose best among what ten thousand products took (decision
// 0317).
struct Rates {
  struct Tiles {  // a row of a vector, and its steps; each step; one of a part of a vector
    double begin = 0, row = 0, row_step = 0, step = 0, part = 0;
  } tiles = {};
  struct Packing {  // B's vectors from columns
    double few = 0, begin = 0, step = 0;
  } packing = {};
  struct Dots {  // vectors along K, and a part of one
    double begin = 0, sum = 0, step = 0, rest = 0;
  } dots = {};
  struct Gathering {  // B's columns from rows
    double few = 0, few_step = 0, begin = 0, step = 0;
  } gathering = {};
  struct Upright {
    double begin = 0, vector = 0, step = 0, turned = 0, back = 0;
  } upright = {};
  struct Crossed {
    double begin = 0, vector = 0, step = 0, turned = 0;
  } crossed = {};
  struct Joined {
    double begin = 0, vector = 0, columns = 0, step = 0, parted = 0;
  } joined = {};
};
constexpr Rates rates_of_16 = {
    .tiles = {.begin = 15, .row = 1.2, .row_step = 0.92, .step = 1.1},
    .packing = {.few = 25, .begin = 50, .step = 4.1},
    .dots = {.begin = 35, .sum = 2.6, .step = 1.02},
    .gathering = {.few = 46, .few_step = 0.43, .begin = 184, .step = 2.7},
    .upright = {.begin = 64, .vector = 15, .step = 1.4, .turned = 3.2, .back = 38},
    .crossed = {.begin = 120, .vector = 11, .step = 1.2, .turned = 4},
    .joined = {.begin = 38, .vector = 2.4, .columns = 0.56, .step = 0.64, .parted = 1.47},
};
constexpr Rates rates_of_8 = {
    .tiles = {.begin = 27, .row = 5, .row_step = 0.59, .step = 0.7},
    .packing = {.few = 16, .begin = 43, .step = 2.7},
    .dots = {.begin = 31, .sum = 1.6, .step = 0.71},
    .gathering = {.few = 18, .few_step = 0.29, .begin = 50, .step = 1.9},
    .upright = {.begin = 52, .vector = 17, .step = 0.72, .turned = 1.05, .back = 71},
    .crossed = {.begin = 168, .vector = 36, .step = 1.03, .turned = 1.1},
    .joined = {.begin = 37, .vector = 5.7, .step = 0.72, .parted = 0.25},
};
constexpr Rates rates_of_4 = {
    .tiles = {.begin = 17, .row = 5, .row_step = 0.88, .step = 0.64, .part = 30},
    .packing = {.few = 10, .begin = 150, .step = 13.6},
    .dots = {.begin = 32, .sum = 4.4, .step = 0.68, .rest = 39},
    .gathering = {.few = 20, .few_step = 0.34, .begin = 222, .step = 57},
};

struct Cycles {
  std::int64_t m, n, k, lanes;

  // Vectors along N, of half the length for few columns of a long K (kernels_for_columns).
  [[nodiscard]] double tiles() const {
    const Rates::Tiles& r = rates().tiles;
    const double rows = real(m), steps = real(k), parts = n % lanes == 0 ? 0 : real(ceil_div(m, row_group));
    if (lanes == 16 && (2 * n == lanes || (2 * n < lanes && k >= 48)))
      return r.begin + rows * (0.76 * steps + (2 * n < lanes ? 8 : 2)) + r.step * steps;
    return r.begin + rows * real(ceil_div(n, lanes)) * (r.row_step * steps + r.row) + (r.step + r.part * parts) * steps;
  }
  // B along N from B along K.
  [[nodiscard]] double packing() const {
    const Rates::Packing& r = rates().packing;
    if (k <= most_interleaved) return r.few + 0.2 * real(k * n);
    return r.begin + r.step * real(ceil_div(n, lanes) * round_up(k, 8));
  }
  // Vectors along K, and a sum. More columns than pass at once read A again: rows of more than a page that L2 does not
  // hold come late each time.
  [[nodiscard]] double dots() const {
    const Rates::Dots& r = rates().dots;
    const bool late = lanes > 4 && n > rows_at_once && k > row_of_page && m * k > 2 * b_in_l2;
    const double each = r.sum + r.step * real(ceil_div(k, lanes)) + (k % lanes == 0 ? 0 : r.rest);
    return r.begin + real(m) * real(n) * each * (late ? 4.0 / 3 : 1);
  }
  // B along K from B along N.
  [[nodiscard]] double gathering() const {
    const Rates::Gathering& r = rates().gathering;
    if (n == 1 || k == 1) return 0;
    return n <= most_interleaved ? r.few + r.few_step * real(k * n) : r.begin + r.step * real(ceil_div(n, 8) * k);
  }
  // Dot products of the last columns of N beside tiles of the others; `apart` are gathered a line each.
  [[nodiscard]] std::int64_t tail(std::int64_t columns, bool apart) const {
    const std::int64_t dot = ceil_div(k, lanes) + k * lanes / 1024 + (lanes == 16 ? 4 : 6);
    return m * columns * dot + columns * k + (apart ? 3 * k : 0) + 100;
  }
  // Vectors along M: four steps are turned, or a part of them, and four columns of the output.
  [[nodiscard]] double upright() const {
    const Rates::Upright& r = rates().upright;
    const double turned = real(ceil_div(n, 8) * round_up(k, 4)), back = n == 1 ? 0 : real(ceil_div(n, 4));
    return r.begin + real(ceil_div(m, lanes)) * (r.step * real(k * n) + r.turned * turned + r.back * back + r.vector);
  }
  // The same of B's columns by A's rows, whose vectors lie along rows of the output.
  [[nodiscard]] double crossed() const {
    const Rates::Crossed& r = rates().crossed;
    const double turned = real(ceil_div(m, 8) * round_up(k, 4));
    return r.begin + real(ceil_div(n, lanes)) * (r.step * real(k * m) + r.turned * turned + r.vector);
  }
  // Vectors of rows that follow one another, of K up to 8 (decision 0230). Of rows of A that do so too (`close`), those
  // of 16 are parted by k (k - 1) shuffles (decision 0309).
  [[nodiscard]] bool joins(bool close) const {
    return n < lanes && k <= most_joined && (lanes < 16 || close || m >= narrow_rows) && joined(close) < tiles();
  }
  [[nodiscard]] double joined(bool close) const {
    const Rates::Joined& r = rates().joined;
    const double shuffles = k == 1 ? 0 : real(k * k), vectors = real(ceil_div(m, lanes)), each = real(n * (k + 2));
    if (lanes < 16 || close)
      return r.begin + r.columns * each + vectors * (r.step * each + r.parted * shuffles + r.vector);
    return 30 + real(n * (k + 3)) + vectors * (0.5 * real(n * (3 * k + 2)) + 24 * real(ceil_div(k, 4)));
  }
  // Wider ones, whose vectors would cross lines: a line at a time, and rows that pass B together (decision 0277). To
  // begin takes 20 columns or so for each step of K; what is stored as it is gains from more than a panel on (decision
  // 0318).
  [[nodiscard]] bool lines(bool alone) const {
    const std::int64_t begin = 20 * (k + 1), least = alone ? std::min<std::int64_t>(begin, max_panel) : begin;
    return lanes == 16 && n % lanes != 0 && k <= most_lined && n > least && m >= std::max<std::int64_t>(10, 4 * k) &&
           m > c_in_l1 / n;
  }

 private:
  [[nodiscard]] const Rates& rates() const { return lanes == 16 ? rates_of_16 : lanes == 8 ? rates_of_8 : rates_of_4; }
  [[nodiscard]] static double real(std::int64_t x) { return static_cast<double>(x); }
};

// More than a panel in an odd number of lines, as steps a multiple of 2 KB apart share a few of L1's sets.
std::int64_t packed_row(std::int64_t columns) { return round_up(columns, 16) | (columns > max_panel ? 16 : 0); }
// One row group packs a panel of B right before it passes it.
std::int64_t packed_together(std::int64_t m, std::int64_t columns, const Kernels& kernels) {
  return m <= row_group ? std::min<std::int64_t>(kernels.panel, columns) : columns;
}
std::int64_t gathered_row(std::int64_t k) { return round_up(k, 16) + 16; }
// Many rows read rows of B that are less than a line, and begin anywhere, from whole lines (decision 0303).
bool copies_lines(const Blocking& blocking, std::int64_t m, std::int64_t n, std::int64_t k) {
  return blocking.isa >= Isa::avx512 && blocking.small == Small::as_it_lies && blocking.dots == 0 && n > 8 && n < 16 &&
         k >= 16 && m >= least_in_lines;
}
// Rows along all columns at a time: of a short K, where L1 holds B and C, or where C is whole lines, as vectors that
// cross lines one after another wait for both. One panel begins as fast for few rows (decision 0309).
bool streams_rows(const Blocking& blocking, std::int64_t m, std::int64_t n, std::int64_t k) {
  const bool tiles = blocking.small == Small::as_it_lies || blocking.small == Small::packed;
  const bool few = m <= rows_at_once;
  return blocking.isa >= Isa::avx512 && tiles && blocking.dots == 0 && !blocking.joined &&
         k <= (few ? most_streamed : most_lined) && (n > max_panel || (n == max_panel && !few)) &&
         (n % 16 == 0 || m + k <= streamed_in_l1 / n);
}
bool copies_columns(std::int64_t m, std::int64_t k) { return m >= least_copied && k > 16; }

}  // namespace

class SmallProduct {
 public:
  // With `calls` what run() would call goes there instead.
  SmallProduct(const Product& product, const Blocking& blocking, const RunOptions& options,
               std::vector<std::function<void()>>* calls = nullptr)
      : calls_(calls),
        product_(product),
        blocking_(blocking),
        options_(options),
        kernels_(kernels_for(blocking.isa, {.m = product.m, .a = DType::f32, .b = DType::f32})),
        tiles_(blocking.joined ? kernels_ : kernels_for_columns(kernels_, product.n - blocking.dots, product.k)),
        streams_(streams_rows(blocking, product.m, product.n, product.k) &&
                 (product.m <= rows_at_once || product.k <= most_streamed_with_more || !options.direct ||
                  stores_only(*options.direct))),
        in_parts_(rows_in_parts()),
        lined_(rows_in_lines()) {}

  // Rows [first, end), on a thread that has `scratch`.
  void run(int thread, std::int64_t first, std::int64_t end) const {
    std::byte* const scratch =
        options_.thread_scratch + static_cast<std::size_t>(thread) * options_.thread_scratch_stride;
    float* const words = reinterpret_cast<float*>(scratch);
    float* const acc = reinterpret_cast<float*>(scratch + blocking_.small_acc);
    const float* const b = static_cast<const float*>(product_.b.data);
    Sides sides;
    const std::int64_t tiled = product_.n - blocking_.dots;
    if (blocking_.small == Small::packed) {
      sides.tiles = words, sides.tiles_row = packed_row(packed_together(product_.m, tiled, kernels_));
      if (product_.m <= row_group) sides.panel = words;
      else later([this, tiled, words, row = sides.tiles_row] { pack(0, tiled, words, row); });
    } else if (copies_lines(blocking_, product_.m, product_.n, product_.k)) {
      sides.tiles = words, sides.tiles_row = 16;
      later([this, words] {
        kernels_.pack_n_major(Element::f32, false, static_cast<const char*>(product_.b.data), product_.b.row_stride * 4,
                              static_cast<int>(product_.n), product_.k, reinterpret_cast<std::uint32_t*>(words), 16);
      });
    } else {
      sides.tiles = b, sides.tiles_row = product_.b.row_stride;
    }
    if (blocking_.dots > 0) {
      sides.dots = b + tiled * product_.b.column_stride, sides.dots_column = product_.b.column_stride;
      const bool apart = product_.b.row_stride != 1 && product_.k > 1;
      if (apart || copies_columns(product_.m, product_.k)) {
        float* const to = words + (blocking_.small == Small::packed ? product_.k * packed_row(tiled) : 0);
        later([this, apart, tiled, to] { apart ? gather_columns(tiled, to) : copy_columns(tiled, to); });
        sides.dots = to, sides.dots_column = gathered_row(product_.k);
      }
    }
    const Direct* const direct = options_.direct;
    if (direct && (stores_only(*direct) ||
                   (blocking_.dots == 0 && !in_parts_ && (blocking_.small != Small::upright || !direct->add) &&
                    blocking_.small != Small::crossed))) {
      const std::int64_t height = height_of_passes();
      for (std::int64_t row = first, next = 0; row < end; row = next) {
        next = end - row < 2 * height ? end : row + height;  // no few rows by themselves
        rows(row, next, sides, direct->out + row * direct->row_stride, direct->row_stride, direct);
      }
      return;
    }
    for (std::int64_t row0 = first; row0 < end; row0 += blocking_.group_rows) {
      const std::int64_t row1 = std::min(row0 + blocking_.group_rows, end);
      rows(row0, row1, sides, acc, blocking_.acc_row, nullptr);
      if (direct) {
        later([this, direct, acc, row0, row1] {
          kernels_.store_direct(*direct, acc, blocking_.acc_row, row0, row1 - row0, 0, product_.n);
        });
      } else {
        options_.consumer.consume(options_.consumer.context, {thread, row0, row1 - row0, 0, product_.n, acc,
                                                              blocking_.acc_row, blocking_.piece_stride});
      }
    }
  }

 private:
  template <class Run>
  void call(void (*kernel)(const Run&), const Run& run) const {
    if (calls_ == nullptr) return kernel(run);
    calls_->push_back([kernel, run] { kernel(run); });
  }
  void multiply(const SmallRun& run) const {
    const auto tile = calls_ == nullptr ? nullptr : tiles_.one_tile(run);
    call(tile == nullptr ? tiles_.small : tile, run);
  }
  template <class F>
  void later(F f) const {
    if (calls_ == nullptr) return f();
    calls_->push_back(f);
  }

  // B as tiles read it, and its last columns as dot products do; or the place of a panel.
  struct Sides {
    const float *tiles = nullptr, *dots = nullptr;
    float* panel = nullptr;
    std::int64_t tiles_row = 0, dots_column = 0;
  };

  // Rows that a panel's tiles of six part into low ones, by a wide B: in wider tiles.
  [[nodiscard]] bool rows_in_parts() const {
    return blocking_.small == Small::as_it_lies && !streams_ && product_.m < 10 && product_.m != 6 &&
           product_.n - blocking_.dots > kernels_.panel && product_.a.column_stride == 1;
  }

  // The columns beside whole panels whose sums, few, would wait for one another in one chain.
  [[nodiscard]] std::int64_t low_tail(std::int64_t columns) const {
    const std::int64_t rest = columns % kernels_.panel;
    return product_.m * ceil_div(rest, kernels_.lanes) < kernels_.panel / kernels_.lanes ? rest : 0;
  }

  // All rows of C, one after another, are stored a line at a time.
  [[nodiscard]] bool rows_in_lines() const {
    const Direct* const d = options_.direct;
    return blocking_.joined && product_.n > kernels_.lanes && d && d->row_stride == product_.n &&
           (!d->add || d->add_row_stride == product_.n);
  }

  // Columns [first, first + columns), of whole panels but the last.
  void pack(std::int64_t first, std::int64_t columns, float* to, std::int64_t to_row) const {
    const float* const b = static_cast<const float*>(product_.b.data) + first * product_.b.column_stride;
    if (product_.k <= most_interleaved && product_.b.column_stride == product_.k) {
      return kernels_.part(b, static_cast<int>(product_.k), columns, to, to_row);
    }
    kernels_.pack_columns(b, product_.b.column_stride, columns, product_.k, reinterpret_cast<std::uint32_t*>(to),
                          to_row);
  }

  // Contiguous columns, to whole lines.
  void copy_columns(std::int64_t first, float* to) const {
    const float* const b = static_cast<const float*>(product_.b.data);
    for (std::int64_t j = first; j < product_.n; ++j, to += gathered_row(product_.k))
      std::memcpy(to, b + j * product_.b.column_stride, static_cast<std::size_t>(product_.k) * sizeof(float));
  }

  // Columns become contiguous in squares, or few that are all of B's by themselves.
  void gather_columns(std::int64_t first, float* to) const {
    const std::int64_t to_row = gathered_row(product_.k), b_row = product_.b.row_stride, columns = product_.n - first;
    const float* const b = static_cast<const float*>(product_.b.data) + first * product_.b.column_stride;
    if (columns <= most_interleaved && b_row == columns)
      return kernels_.part(b, static_cast<int>(columns), product_.k, to, to_row);
    kernels_.pack_columns(b, b_row, product_.k, columns, reinterpret_cast<std::uint32_t*>(to), to_row);
  }

  void rows(std::int64_t row0, std::int64_t row1, const Sides& b, float* c, std::int64_t c_row,
            const Direct* direct) const {
    const Matrix& a = product_.a;
    const float* const left = static_cast<const float*>(a.data) + row0 * a.row_stride;
    const std::int64_t tiled = product_.n - blocking_.dots;
    if (blocking_.small == Small::crossed) {
      SmallRun run;
      run.a = b.tiles, run.a_row = product_.b.column_stride, run.rows = tiled;
      run.b = left, run.b_step = 1, run.b_column = a.row_stride;
      run.columns = row1 - row0, run.k = product_.k, run.c = c, run.c_row = 1, run.c_column = c_row;
      return call(kernels_.upright, run);
    }
    if (blocking_.small == Small::upright) {
      SmallRun run;
      run.a = left, run.a_row = a.row_stride, run.rows = row1 - row0;
      run.b = b.tiles, run.b_step = b.tiles_row, run.b_column = product_.b.column_stride;
      run.columns = tiled, run.k = product_.k, run.c = c, run.c_row = c_row, run.direct = direct;
      return call(kernels_.upright, run);
    }
    const std::int64_t parted = in_parts_ ? tiled - low_tail(tiled) : 0;
    if (parted > 0) {
      ThinRun run;
      run.asks = ThinRun::Asks::nothing;
      run.k = product_.k;
      run.a = left, run.a_row = a.row_stride, run.rows = static_cast<int>(row1 - row0);
      run.b = reinterpret_cast<const char*>(b.tiles), run.b_step = b.tiles_row * 4, run.columns = parted;
      run.c = c, run.c_row = c_row;
      call(kernels_.thin_n_major, run);
    }
    if (parted < tiled) {
      SmallRun run;
      run.asks = direct != nullptr && product_.m * product_.n > large_b;
      run.a = left, run.a_row = a.row_stride, run.a_step = a.column_stride;
      run.b = b.tiles + parted, run.b_step = b.tiles_row, run.columns = tiled - parted, run.k = product_.k;
      run.c = c + parted, run.c_row = c_row, run.row0 = row0, run.joined = blocking_.joined;
      if (direct != nullptr && !stores_only(*direct)) run.direct = direct;
      if (b.panel != nullptr) {
        for (; run.column0 < tiled; run.column0 += kernels_.panel, run.c += kernels_.panel) {
          run.rows = row1 - row0, run.columns = std::min<std::int64_t>(kernels_.panel, tiled - run.column0);
          later([this, at = run.column0, columns = run.columns, b] { pack(at, columns, b.panel, b.tiles_row); });
          multiply(run);
        }
      }
      run.streams = streams_ && b.panel == nullptr;
      const std::int64_t height = height_of_rows(tiled);
      for (std::int64_t row = row0; row < row1 && b.panel == nullptr; row += run.rows) {
        run.rows = row1 - row < 2 * height ? row1 - row : height;
        multiply(run);
        run.a += run.rows * a.row_stride, run.c += run.rows * c_row, run.row0 += run.rows;
      }
    }
    if (blocking_.dots == 0) return;
    // The kernel for few rows passes what is its columns once: few columns are its rows, and rows its columns, but
    // where there are fewer rows.
    ThinRun run;
    run.asks = asks_for_rows();
    run.k = product_.k, run.alone = true, run.halves = machine_halves_vectors();
    if (product_.m <= row_group && product_.m < blocking_.dots) {
      run.a = left, run.a_row = a.row_stride, run.rows = static_cast<int>(row1 - row0);
      run.b = reinterpret_cast<const char*>(b.dots), run.b_column = b.dots_column * 4, run.columns = blocking_.dots;
      run.c = c + tiled, run.c_row = c_row;
      call(kernels_.thin_k_major, run);
      return;
    }
    run.b_column = a.row_stride * 4;
    run.c_row = 1, run.c_column = c_row;
    run.columns = row1 - row0;
    run.a_row = b.dots_column;
    const std::int64_t most = dots_in_l1 / std::min(blocking_.dots, rows_at_once),
                       part = round_up(ceil_div(product_.k, ceil_div(product_.k, most)), 16);
    for (std::int64_t j = 0; j < blocking_.dots; j += max_thin_rows) {
      run.rows = static_cast<int>(std::min<std::int64_t>(max_thin_rows, blocking_.dots - j));
      run.c = c + tiled + j;
      for (std::int64_t k = 0; k < product_.k; k += part) {
        run.a = b.dots + j * b.dots_column + k, run.b = reinterpret_cast<const char*>(left + k);
        run.k = std::min(part, product_.k - k), run.accumulate = k > 0;
        call(kernels_.thin_k_major, run);
      }
    }
  }

  // What dot products ask for of A's rows. Short ones out of L2 end before a processor sees them coming, so the next
  // are asked for, while there is enough to multiply (decision 0295).
  [[nodiscard]] ThinRun::Asks asks_for_rows() const {
    const std::int64_t elements = product_.m * product_.k;
    if (elements > b_in_l2 && product_.k <= row_of_page && blocking_.dots > most_interleaved)
      return ThinRun::Asks::columns;
    return elements > large_b ? ThinRun::Asks::lines : ThinRun::Asks::nothing;
  }

  // Rows that pass before the next do: dot products take several passes over A, which stays in L2.
  [[nodiscard]] std::int64_t height_of_passes() const {
    if (blocking_.dots == 0) return product_.m;
    return std::max<std::int64_t>(row_group, a_in_l2 / product_.k / row_group * row_group);
  }

  // Rows that pass all columns together: few of a wide B that stays in L1, so that rows of C follow one another.
  [[nodiscard]] std::int64_t height_of_rows(std::int64_t columns) const {
    if (lined_ || streams_) return product_.m;
    if (columns * product_.k > b_in_l1) return 4 * row_group;
    return columns <= kernels_.panel ? product_.m : row_group;
  }

  std::vector<std::function<void()>>* const calls_;
  const Product& product_;
  const Blocking& blocking_;
  const RunOptions& options_;
  const Kernels &kernels_, &tiles_;
  const bool streams_, in_parts_, lined_;
};

struct SmallCalls::Recorded {
  Recorded(const Product& product, const Blocking& blocking, const RunOptions& options)
      : small(product, blocking, options, &calls) {
    small.run(0, 0, product.m);
  }
  std::vector<std::function<void()>> calls;
  const SmallProduct small;
};

SmallCalls::SmallCalls(const Product& product, const Blocking& blocking, const RunOptions& options)
    : recorded_(std::make_unique<Recorded>(product, blocking, options)) {}
SmallCalls::~SmallCalls() = default;

void SmallCalls::run() const {
  for (const std::function<void()>& call : recorded_->calls) call();
}

SmallChoice choose_small(const ProductShape& shape, const Kernels& kernels) {
  const auto no = [](const char* why) { return SmallChoice{Small::no, 0, why}; };
  if (kernels.small == nullptr || shape.a != DType::f32 || shape.b != DType::f32) return no("not f32");
  if (shape.packed_b) return no("B is packed");
  if (shape.addressed) return no("A or B is no stride apart");
  if (shape.pieces.count > 1) return no("the columns are in pieces");
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return no("there is nothing to multiply");
  const std::int64_t b = shape.n * shape.k;
  const auto multiplies = [&](std::int64_t most) { return shape.m <= most / b; };  // at most; m * n * k may overflow
  const bool narrow =
      shape.n <= max_thin_rows && shape.a_k_major && b <= most_b && (shape.b_k_major || shape.b_n_major);
  // Panels of L1 that are packed right before they are passed.
  const bool panels = shape.m <= row_group && shape.b_k_major && shape.k <= most_of_panels &&
                      multiplies(2 * most_multiplied) && b <= 2 * most_b;
  const bool fits = b <= b_always || panels || (b <= most_b && (multiplies(most_multiplied) || shape.n <= few_columns));
  if (!fits && !narrow) return no("blocks gain more");
  if (std::min<std::int64_t>(shape.m, row_group) * shape.n > most_accumulators) return no("rows are too long");
  // More rows decide nothing else, and their cycles would overflow.
  const Cycles cycles{std::min<std::int64_t>(shape.m, 1 << 30), shape.n, shape.k, kernels.lanes};
  const bool joined = kernels.upright && shape.a_k_major && cycles.joins(shape.a_close);
  const bool lies = shape.b_n_major || (shape.b_k_major && shape.n == 1);
  // The last columns, which fill no vector, may be dot products.
  const std::int64_t rest = shape.n % kernels.lanes, tail = cycles.tail(rest, shape.b_n_major);
  const bool apart = rest > 0 && shape.n > kernels.lanes && shape.a_k_major && tail < cycles.m * shape.k;
  const Cycles in_tiles{cycles.m, shape.n - (apart ? rest : 0), shape.k, kernels.lanes};
  const double tiles = (joined  ? cycles.joined(shape.a_close)
                        : apart ? in_tiles.tiles() + static_cast<double>(tail)
                                : in_tiles.tiles()) +
                       (lies ? 0 : in_tiles.packing());
  const double dots = cycles.dots() + (shape.b_k_major ? 0 : cycles.gathering());
  if (narrow && kernels.upright && cycles.upright() < dots && (!fits || cycles.upright() < tiles))
    return {Small::upright, 0, nullptr};
  if (narrow && (dots < tiles || !fits)) return {Small::as_it_lies, shape.n, nullptr};
  if (!fits) return no("blocks gain more");
  if (!shape.b_n_major && !shape.b_k_major) return no("B is contiguous along neither axis");
  // Few rows of a B along K are dot products too, of the kernel for few rows; what few threads share begins at once.
  const bool one_thread = multiplies(least_for_threads - 1);
  const bool as_dots = shape.b_k_major && is_thin(shape) && shape.a_k_major && cycles.dots() < tiles;
  if (as_dots && !one_thread) return no("B's columns are dot products as they lie");
  // Of a shorter K packing is less than turning (decision 0267).
  if (kernels.upright && shape.b_k_major && shape.a_k_major && shape.m <= 8 && shape.k > most_interleaved &&
      cycles.crossed() < tiles && cycles.crossed() < dots)
    return {Small::crossed, 0, nullptr};
  if (as_dots) return {Small::as_it_lies, shape.n, nullptr};
  if (cycles.lines(shape.alone)) return {lies ? Small::as_it_lies : Small::packed, 0, nullptr, true};
  return {lies ? Small::as_it_lies : Small::packed, apart ? rest : 0, nullptr, joined};
}

void block_small(Blocking& b, const SmallChoice& choice, const ProductShape& shape) {
  b.small = choice.form;
  b.dots = choice.dots;
  b.joined = choice.joined;
  b.order = Order::blocks;
  b.k_block = round_up(shape.k, 16);
  b.column_block = std::max<std::int64_t>(shape.n, 1);
  b.row_block = row_groups(shape.m) * row_group;
  b.piece_stride = round_up(b.column_block, 16);
  b.acc_row = b.piece_stride + 16;
  if (shape.n <= max_thin_rows) {
    b.acc_row = shape.n;
    const std::int64_t rows = std::min(narrow_block / shape.n, a_in_l2 / shape.k) / narrow_rows * narrow_rows;
    b.group_rows = std::max(rows, narrow_rows);
  }
  b.units = shape.m <= (least_for_threads - 1) / (shape.n * shape.k) ? 1 : ceil_div(shape.m, b.group_rows);
  const std::int64_t lines = b.small == Small::packed                     ? packed_row(shape.n - b.dots)
                             : copies_lines(b, shape.m, shape.n, shape.k) ? 16
                                                                          : 0;
  const std::int64_t copy =
      shape.k * lines + (shape.b_k_major && !copies_columns(shape.m, shape.k) ? 0 : b.dots * gathered_row(shape.k));
  b.small_acc = static_cast<std::size_t>(round_up(copy * 4, 64));
  b.thread_bytes = b.small_acc + static_cast<std::size_t>(std::min(b.group_rows, shape.m) * b.acc_row * 4);
}

void run_small(const Product& product, const Blocking& blocking, const RunOptions& options) {
  const SmallProduct small(product, blocking, options);
  // The last thread has two groups at least, so that a row has the same tile on any number of threads.
  const std::int64_t height = blocking.group_rows, groups = ceil_div(product.m, height),
                     threads = std::min({std::int64_t{options.threads}, blocking.units,
                                         std::max<std::int64_t>(product.m / height, 1)});
  if (threads <= 1) return small.run(0, 0, product.m);
  core::parallel(static_cast<int>(threads), [&](int thread) {
    small.run(thread, groups * thread / threads * height,
              std::min(groups * (thread + 1) / threads * height, product.m));
  });
}

}  // namespace postlude::inline v0::cpu
