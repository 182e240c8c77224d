#include "cpu/product/gemm.h"

#include "core/threads.h"
#include "cpu/product/blocking.h"
#include "cpu/product/pack.h"
#include "cpu/product/rows.h"
#include "cpu/product/small.h"

#include <postlude/error.h>

#include <algorithm>
#include <cstring>

namespace postlude::inline v0::cpu {
namespace {

// The rows of a full panel's tile, of any instruction set.
constexpr std::int64_t tile_height = 6;
// A processor sees columns coming that are contiguous for so long, and few rows leave no time to ask for them (decision
// 0314).
constexpr std::int64_t seen_bytes = 1536, few_rows_to_ask = 64;
// The next block of B is asked for during this many rows. Earlier, it would push this one out of
// L2.
constexpr std::int64_t ahead_rows = 72;
// Rows of A are asked for where so many panels pass them at most: more hide how long the first one waits (decision
// 0304).
constexpr std::int64_t few_panels = 2;

struct Runner {
  const Product& product;
  const Blocking& blocking;
  const RunOptions& options;
  const Kernels& kernels;
  const BLayout layout;
  const ThreadScratch scratch;
  const std::uint32_t* const ready_b;  // packed by somebody before, or as it lies; or null
  const std::uint32_t* const all_b;    // that, or what pack_all packs; or null
  const bool straight;                 // a thin product's sums are those that are stored, and are made in the output
  const std::int64_t acc_row;

  Runner(const Product& p, const Blocking& b, const RunOptions& o)
      : product(p),
        blocking(b),
        options(o),
        kernels(kernels_for(b.isa, shape_of(p))),
        layout(layout_for(kernels, shape_of(p), b.k_block, b.column_block)),
        scratch(thread_scratch(kernels, b, p.m, layout, p.packed_b != nullptr)),
        ready_b(p.packed_b                 ? p.packed_b->words.get()
                : lies_packed(p.b, layout) ? static_cast<const std::uint32_t*>(p.b.data)
                                           : nullptr),
        all_b(ready_b          ? ready_b
              : packs_first(b) ? reinterpret_cast<const std::uint32_t*>(o.shared_scratch)
                               : nullptr),
        straight(b.thin && b.order == Order::blocks && o.direct && stores_only(*o.direct)),
        acc_row(o.kept     ? o.kept_row
                : straight ? o.direct->row_stride
                           : b.acc_row) {}

  template <class T>
  T* own(int thread, std::size_t offset) const {
    return reinterpret_cast<T*>(options.thread_scratch +
                                static_cast<std::size_t>(thread) * options.thread_scratch_stride + offset);
  }

  void hand_on(const FinishedBlock& block) const {
    if (options.direct) {
      kernels.store_direct(*options.direct, static_cast<const float*>(block.acc), block.acc_row, block.row0, block.rows,
                           block.column0, block.columns);
    } else {
      options.consumer.consume(options.consumer.context, block);
    }
  }

  // The place of a region's accumulators: element (row0, first column of the column block's first
  // piece).
  struct Target {
    std::uint32_t* acc = nullptr;  // f32 or i32
    bool reuse_rows = false;       // every row group at the same place
    bool finish = false;           // hand blocks on
    bool more = false;             // the next column block follows on this thread
  };

  // The product of words is sum(a_word * b_word) with a_word = a + a_zero and b_word = b + b_zero.
  // These are the terms to add for each row (each column's are packed with B). They wrap, as the
  // accumulator does.
  void set_row_terms(const AWords& words, int rows, std::int64_t steps, std::int64_t depth, std::int32_t* terms) const {
    if (layout.b_zero == 0) {
      std::fill_n(terms, rows, 0);
      return;
    }
    kernels.sum_rows(words.words, words.row, words.step, rows, steps, terms);
    const auto b_zero = static_cast<std::uint32_t>(layout.b_zero);
    const std::uint32_t both = static_cast<std::uint32_t>(depth) * static_cast<std::uint32_t>(layout.a_zero) * b_zero;
    for (int i = 0; i < rows; ++i) {
      terms[i] = static_cast<std::int32_t>(both - b_zero * static_cast<std::uint32_t>(terms[i]));
    }
  }

  // Whether `tiles` of these words and of a block of B would lose a denormal number (decision
  // 0029). They do not where A and B have none and all products are multiples of 2^-126 (of two
  // numbers' units, 2^(exponent - 134) each): then their rounded sums are too.
  bool loses_denormals(const AWords& a, int rows, std::int64_t steps, const std::uint32_t* b_least) const {
    if (!kernels.least_exponent) return false;
    const bool by_rows = a.step == 1;
    const int least = kernels.least_exponent(a.words, by_rows ? a.row : a.step, by_rows ? rows : steps,
                                             round_up(by_rows ? steps : rows, kernels.lanes));
    return least == 0 || *b_least == 0 || least + static_cast<int>(*b_least) < 2 * 134 - 126;
  }

  // Whether B's full panels are packed while the first rows of a region are multiplied
  // (TileRun::b_copy).
  bool packs_on_the_way(std::int64_t rows) const {
    const Matrix& b = product.b;
    return !all_b && !b.address && kernels.word_elements == 1 && b.dtype == DType::f32 && layout.pieces.count == 1 &&
           b.row_stride != 1 && b.column_stride == 1 && rows >= tile_height && layout.n * layout.k <= b_in_l2;
  }

  Ahead next_b(std::int64_t column_block, std::int64_t k) const {
    Ahead ahead;
    const Matrix& b = product.b;
    // Of what stays in L2 asking takes more than it gains (decision 0244); images of windows would displace it.
    if (!product.a.address && layout.n * layout.k * size_of(b.dtype) <= b_in_l2 * 4) return ahead;
    if (all_b) {
      ahead.row = reinterpret_cast<const char*>(all_b + layout.offset(column_block, k));
      ahead.row_bytes = layout.block_words(column_block, k) * 4;
      ahead.rows = 1;
    } else if (!b.address && layout.pieces.count == 1 && (b.row_stride == 1 || b.column_stride == 1)) {
      const bool k_major = b.row_stride == 1;
      const std::int64_t size = size_of(b.dtype);
      const bool seen = layout.depth(k) * size >= seen_bytes && product.m <= few_rows_to_ask;
      if (k_major && b.dtype == DType::f32 && seen) return ahead;
      ahead.row = element_address(b, k * layout.k_block, column_block * layout.column_block);
      ahead.row_stride = (k_major ? b.column_stride : b.row_stride) * size;
      ahead.row_bytes = (k_major ? layout.depth(k) : layout.columns(column_block)) * size;
      ahead.rows = k_major ? layout.columns(column_block) : layout.depth(k);
    }
    return ahead;
  }
  // The lines to ask for in every ahead_steps, so that all have been asked for when these tiles are
  // done.
  int lines_each(const Ahead& ahead, std::int64_t rows, std::int64_t columns, std::int64_t steps) const {
    const std::int64_t lines = ahead.rows * ceil_div(ahead.row_bytes, 64);
    const std::int64_t tiles = std::max<std::int64_t>(rows / 6, 1) * ceil_div(columns, kernels.panel);
    return static_cast<int>(ceil_div(lines, std::max<std::int64_t>(tiles * ceil_div(steps, ahead_steps), 1)));
  }

  // Rows [row0, row1) of one column block, summed over k blocks [k0, k1).
  void region(int thread, std::int64_t column_block, std::int64_t k0, std::int64_t k1, std::int64_t row0,
              std::int64_t row1, const Target& target) const {
    const std::int64_t columns = layout.columns(column_block);
    const std::int64_t padded = layout.padded_columns(column_block);
    const std::int64_t first_column = column_block * layout.column_block;
    const bool in_place = !kernels.terms && kernels.word_elements == 1 && a_in_place(product.a, product.m);
    const float* const a = static_cast<const float*>(product.a.data);
    const bool whole = layout.pieces.count == 1;
    const bool stretched = blocking.stretches && in_stretches(product.a);
    const bool on_the_way = packs_on_the_way(row1 - row0) && !stretched;
    // Rows that the kernels get at once.
    const std::int64_t height = in_place || stretched ? row_group : kernels.packed_rows;

    for (std::int64_t k = k0; k < k1; ++k) {
      const bool last = k + 1 == k1;
      const std::uint32_t* b = nullptr;
      if (all_b) {
        b = all_b + layout.offset(column_block, k);
      } else {
        std::uint32_t* const words = own<std::uint32_t>(thread, scratch.b);
        const std::int64_t first = on_the_way ? columns / kernels.panel * kernels.panel : 0;
        if (first < columns)
          pack_b_block(product.b, layout, column_block, k, words, own<char>(thread, scratch.gather), first);
        b = words;
      }
      const std::int64_t at = k * layout.k_block;
      const std::int64_t depth = layout.depth(k);
      const std::int64_t steps = layout.steps(k);
      const std::int32_t* const column_sums =
          reinterpret_cast<const std::int32_t*>(b + layout.pieces.count * padded * steps);

      Ahead b_ahead;
      if (!last) {
        b_ahead = next_b(column_block, k + 1);
      } else if (target.more) {
        b_ahead = next_b(column_block + 1, k0);
      }
      b_ahead.lines = lines_each(b_ahead, std::min(row1 - row0, ahead_rows), columns * layout.pieces.count, steps);

      for (std::int64_t group = row0; group < row1; group += row_group) {
        const std::int64_t group_end = std::min(group + row_group, row1);
        std::uint32_t* const acc = target.acc + (target.reuse_rows ? 0 : group - row0) * acc_row;
        for (std::int64_t row = group; row < group_end; row += height) {
          const int rows = static_cast<int>(std::min(group_end - row, height));
          TileRun run;
          AWords words;
          std::uint32_t* const packed = own<std::uint32_t>(thread, scratch.a);
          if (stretched) {
            Stretch* const stretches = own<Stretch>(thread, scratch.stretches);
            run.stretches = stretches;
            run.stretch_count = row_stretches(product.a, row, rows, at, depth, stretches, packed);
          } else if (in_place) {
            words = {reinterpret_cast<const std::uint32_t*>(a + row * product.a.row_stride + at), product.a.row_stride,
                     1};
          } else {
            words = pack_a_rows(product.a, kernels, row, rows, at, depth, packed, own<char>(thread, scratch.gather));
          }
          run.a = words.words;
          run.a_row = words.row;
          run.a_step = words.step;
          if (in_place && !stretched && columns <= few_panels * kernels.panel) run.a_rows = product.m - row;
          run.rows = rows;
          run.steps = steps;
          run.columns = columns;
          run.c_row = acc_row;
          run.accumulate = k > k0;
          run.row0 = row;
          run.column0 = first_column;
          if (last && target.finish && whole) {
            run.direct = options.direct;
            run.prefetch[0] = options.prefetch[0];
            run.prefetch[1] = options.prefetch[1];
          }
          if (b_ahead.rows > 0 && row + ahead_rows >= row1) run.ahead = &b_ahead;
          std::int32_t row_terms[row_group];
          if (kernels.terms) set_row_terms(words, rows, steps, depth, row_terms);
          run.row_terms = row_terms;
          const bool careful = loses_denormals(words, rows, steps, b + layout.pieces.count * padded * steps);
          for (int piece = 0; piece < layout.pieces.count; ++piece) {
            run.b = b + piece * padded * steps;
            if (on_the_way && row == row0) {
              run.b_copy = own<std::uint32_t>(thread, scratch.b);
              run.b = reinterpret_cast<const std::uint32_t*>(element_address(product.b, at, first_column));
              run.b_row = product.b.row_stride;
            }
            run.c = acc + (row - group) * acc_row + piece * blocking.piece_stride;
            run.column_terms = column_sums + piece * padded;
            (careful ? kernels.careful_tiles : kernels.tiles)(run);
          }
        }
        if (!last || !target.finish) continue;
        FinishedBlock block = {thread,  group, group_end - group, first_column,
                               columns, acc,   acc_row,           blocking.piece_stride};
        if (options.stored_first) {
          block.acc_row = options.direct->row_stride;
          block.acc = options.direct->out + group * block.acc_row + first_column;
        }
        if (!options.direct || options.stored_first) options.consumer.consume(options.consumer.context, block);
      }
    }
  }

  // Computes rows [row0, row1), which are few, of column blocks [first, end), without packing.
  void thin_region(int thread, std::int64_t first, std::int64_t end, std::int64_t k0, std::int64_t k1,
                   std::int64_t row0, std::int64_t row1, float* acc) const {
    const Matrix& a = product.a;
    const Matrix& b = product.b;
    const std::int64_t size = size_of(b.dtype);
    const int rows = static_cast<int>(row1 - row0);
    const bool copies = rows >= rows_that_copy && layout.pieces.count == 1 && product.n * product.k <= large_b;
    const std::int64_t x0 = first * layout.column_block;
    const std::int64_t columns = std::min(end * layout.column_block, layout.piece_columns) - x0;
    const Pieces& pieces = layout.pieces;
    const std::int64_t part = (pieces.group > 0 ? pieces.group : layout.n) / pieces.count;

    for (std::int64_t k = k0; k < k1; ++k) {
      const std::int64_t at = k * layout.k_block;
      ThinRun run;
      run.rows = rows;
      run.element = element_of(b.dtype);
      run.k = layout.depth(k);
      run.c_row = acc_row;
      run.accumulate = k > k0;
      run.asks = asked(product, blocking.isa);
      run.halves = machine_halves_vectors();
      run.copy = copies ? own<float>(thread, scratch.b) : nullptr;
      // Eight rows a multiple of 4 KB apart share one of L1's sets.
      if (!a.address && a.dtype == DType::f32 && a.column_stride == 1 && (rows < 8 || a.row_stride % 1024 != 0)) {
        run.a = static_cast<const float*>(a.data) + row0 * a.row_stride + at;
        run.a_row = a.row_stride;
      } else {
        run.a_row = round_up(layout.k_block, 16) + 16;
        std::uint32_t* const words = own<std::uint32_t>(thread, scratch.a);
        pack_rows(a, kernels, row0, rows, at, run.k, words, run.a_row, own<char>(thread, scratch.gather));
        run.a = reinterpret_cast<const float*>(words);
      }
      for (int piece = 0; piece < pieces.count; ++piece) {
        for (std::int64_t x = 0; x < columns;) {
          const std::int64_t column = column_of(pieces, layout.n, piece, x0 + x);
          run.b = element_address(b, at, column);
          run.c = acc + piece * blocking.piece_stride + x;
          // Columns whose distance is the same: all where a part is one column, otherwise what is
          // left of a part.
          const std::int64_t distance = part == 1 ? pieces.count : 1;
          run.columns = part == 1 ? columns - x : std::min(columns - x, part - (x0 + x) % part);
          if (!b.address && b.row_stride == 1) {
            run.b_column = distance * b.column_stride * size;
            kernels.thin_k_major(run);
          } else if (!b.address && b.column_stride * distance == 1) {
            run.b_step = b.row_stride * size;
            kernels.thin_n_major(run);
          } else {
            run.columns = std::min<std::int64_t>(run.columns, gathered_columns);
            char* const copies = own<char>(thread, scratch.gather);
            for (std::int64_t j = 0; j < run.columns; ++j) {
              char* const to = copies + j * run.k * size;
              const char* const from = column_elements(b, column + j * distance, at, run.k, to);
              if (from != to) std::memcpy(to, from, static_cast<std::size_t>(run.k * size));
            }
            run.b = copies;
            run.b_column = run.k * size;
            kernels.thin_k_major(run);
          }
          x += run.columns;
        }
      }
    }
  }

  // Computes a column block of a turned product, (B's columns) x (A's rows).
  const std::uint32_t* turned_region(int thread, std::int64_t column_block) const {
    const std::int64_t m = product.m, pitch = turned_row(m);
    const std::int64_t columns = layout.columns(column_block);
    const Matrix left = {element_address(product.b, 0, column_block * layout.column_block), product.b.dtype,
                         product.b.column_stride, 1};
    const Matrix right = {product.a.data, product.a.dtype, product.a.column_stride, product.a.row_stride};
    BLayout panels = layout;
    panels.n = panels.piece_columns = panels.column_block = m;
    std::uint32_t* const words = own<std::uint32_t>(thread, scratch.b);
    std::uint32_t* const turned = words + turned_a_words(blocking, m);
    for (std::int64_t k = 0; k < layout.k_blocks(); ++k) {
      const std::int64_t at = k * layout.k_block, depth = layout.depth(k);
      pack_b_block(right, panels, 0, k, words, own<char>(thread, scratch.gather));
      for (std::int64_t row = 0; row < columns; row += row_group) {
        TileRun run;
        run.rows = static_cast<int>(std::min<std::int64_t>(row_group, columns - row));
        AWords from = {static_cast<const std::uint32_t*>(left.data) + row * left.row_stride + at, left.row_stride, 1};
        if (left.dtype != DType::f32) {
          from = pack_a_rows(left, kernels, row, run.rows, at, depth, own<std::uint32_t>(thread, scratch.a),
                             own<char>(thread, scratch.gather));
        }
        run.a = from.words;
        run.a_row = from.row;
        run.a_step = from.step;
        run.b = words;
        run.steps = depth;
        run.columns = m;
        run.c = turned + row * pitch;
        run.c_row = pitch;
        run.accumulate = k > 0;
        Ahead ahead;
        ahead.row_stride = left.row_stride * size_of(left.dtype);
        ahead.row = element_address(left, row, at) + run.rows * ahead.row_stride;
        ahead.row_bytes = depth * size_of(left.dtype);
        ahead.rows = std::clamp<std::int64_t>(columns - row - run.rows, 0, row_group);
        ahead.lines = lines_each(ahead, run.rows, m, depth);
        run.ahead = &ahead;
        kernels.tiles(run);
      }
    }
    return turned;
  }

  // The work that threads share: `splits` times all column blocks, `across` of them together, in
  // groups of `height` rows.
  struct Shared {
    std::int64_t rows = 0, height = row_group;
    std::int64_t across = 1, splits = 1;
  };

  Shared whole_rows(std::int64_t rows) const { return {.rows = rows, .across = layout.column_blocks()}; }

  // The number of (part, row group) pairs, parts first, before the `thread`-th thread's. Threads
  // get an even share of rows x columns, to the nearest group (decision 0034): the last column
  // block may be narrow, and the last group low.
  std::int64_t pairs_before(int thread, const Shared& s) const {
    const std::int64_t part_columns = std::min(s.across * layout.column_block, layout.piece_columns);
    const std::int64_t parts = ceil_div(layout.piece_columns, part_columns);
    const std::int64_t split = s.rows * layout.piece_columns;
    const std::int64_t at = split * s.splits * thread / options.threads;
    const std::int64_t part = at % split / (s.rows * part_columns);
    const std::int64_t columns = std::min(part_columns, layout.piece_columns - part * part_columns);
    const std::int64_t group = columns * s.height;
    return (at / split * parts + part) * ceil_div(s.rows, s.height) +
           (at % split - part * s.rows * part_columns + group / 2) / group;
  }

  // Calls body(part, first row group, end, more) for the `thread`-th thread's share; `more` says
  // that this thread goes on with the next part.
  template <class Body>
  void for_own_rows(int thread, const Shared& shared, Body body) const {
    const std::int64_t groups = ceil_div(shared.rows, shared.height);
    const std::int64_t end = pairs_before(thread + 1, shared);
    for (std::int64_t i = pairs_before(thread, shared); i < end;) {
      const std::int64_t group = i % groups;
      const std::int64_t last = std::min(groups, group + (end - i));
      const std::int64_t part = i / groups;
      i += last - group;
      body(part, group, last, i < end);
    }
  }

  // Calls body(split, first column block, end) for the `thread`-th thread's share of a product of
  // few rows, `together` column blocks at most.
  template <class Body>
  void for_own_columns(int thread, std::int64_t together, Body body) const {
    const std::int64_t columns = layout.piece_columns;  // in the rows' place
    for_own_rows(thread, {columns, layout.column_block, layout.column_blocks(), blocking.splits},
                 [&](std::int64_t split, std::int64_t first, std::int64_t end, bool) {
                   for (std::int64_t c = first; c < end; c += together) body(split, c, std::min(end, c + together));
                 });
  }

  void run_blocks(int thread) const {
    const std::int64_t k_blocks = layout.k_blocks();
    std::uint32_t* const acc = own<std::uint32_t>(thread, scratch.acc);
    if (blocking.thin) {
      for_own_columns(thread, thin_strips(shape_of(product)), [&](std::int64_t, std::int64_t first, std::int64_t end) {
        if (straight) {
          thin_region(thread, first, end, 0, k_blocks, 0, product.m, options.direct->out + first * layout.column_block);
          return;
        }
        thin_region(thread, first, end, 0, k_blocks, 0, product.m, reinterpret_cast<float*>(acc));
        for (std::int64_t c = first; c < end; ++c) {
          for (std::int64_t row = 0; row < product.m; row += row_group) {
            hand_on({thread, row, std::min<std::int64_t>(row_group, product.m - row), c * layout.column_block,
                     layout.columns(c), acc + row * acc_row + (c - first) * layout.column_block, acc_row,
                     blocking.piece_stride});
          }
        }
      });
      return;
    }
    if (blocking.turned) {
      for_own_columns(thread, 1, [&](std::int64_t, std::int64_t column_block, std::int64_t) {
        const std::uint32_t* const turned = turned_region(thread, column_block);
        const std::int64_t pitch = turned_row(product.m), x0 = column_block * layout.column_block;
        const auto turn_back = [&](std::int64_t column, std::int64_t columns, std::uint32_t* to, std::int64_t to_row) {
          kernels.pack_columns(reinterpret_cast<const float*>(turned + column * pitch), pitch, columns, product.m, to,
                               to_row);
        };
        // Whole vectors of sums that are stored as they are go to the output.
        std::int64_t first = 0;
        if (options.direct && stores_only(*options.direct)) {
          first = layout.columns(column_block) / kernels.lanes * kernels.lanes;
          turn_back(0, first, reinterpret_cast<std::uint32_t*>(options.direct->out + x0), options.direct->row_stride);
        }
        const std::int64_t left = layout.columns(column_block) - first;
        if (left == 0) return;
        turn_back(first, left, acc, acc_row);
        for (std::int64_t row = 0; row < product.m; row += row_group) {
          hand_on({thread, row, std::min<std::int64_t>(row_group, product.m - row), x0 + first, left,
                   acc + row * acc_row, acc_row, blocking.piece_stride});
        }
      });
      return;
    }
    const std::int64_t groups = row_groups(product.m);
    if (blocking.across > 1) {
      const std::int64_t blocks = layout.column_blocks(), across = blocking.across;
      for_own_rows(
          thread, {.rows = product.m, .across = across},
          [&](std::int64_t part, std::int64_t first, std::int64_t end, bool) {
            for (std::int64_t row = first * row_group; row < end * row_group; row += row_group) {
              for (std::int64_t c = part * across; c < std::min((part + 1) * across, blocks); ++c) {
                region(thread, c, 0, k_blocks, row, std::min(row + row_group, product.m), {acc, true, true, false});
              }
            }
          });
      return;
    }
    const bool several = k_blocks > 1;
    const std::int64_t together = several ? blocking.row_block / row_group : groups;
    for_own_rows(thread, {product.m}, [&](std::int64_t column_block, std::int64_t first, std::int64_t end, bool more) {
      for (std::int64_t group = first; group < end; group += together) {
        region(thread, column_block, 0, k_blocks, group * row_group,
               std::min(std::min(end, group + together) * row_group, product.m), {acc, !several, true, more});
      }
    });
  }

  std::uint32_t* kept(std::int64_t row) const { return static_cast<std::uint32_t*>(options.kept) + row * acc_row; }

  void pack_all(int thread) const {
    pack_part(product.b, layout, thread, options.threads, reinterpret_cast<std::uint32_t*>(options.shared_scratch),
              own<char>(thread, scratch.gather));
  }
  void run_rows(int thread) const {
    const std::int64_t column_blocks = layout.column_blocks();
    const std::int64_t together = blocking.row_block / row_group;
    for_own_rows(thread, whole_rows(product.m), [&](std::int64_t, std::int64_t first, std::int64_t end, bool) {
      for (std::int64_t group = first; group < end; group += together) {
        const std::int64_t row0 = group * row_group;
        const std::int64_t row1 = std::min(std::min(end, group + together) * row_group, product.m);
        std::uint32_t* const acc = options.kept ? kept(row0) : own<std::uint32_t>(thread, scratch.acc);
        for (std::int64_t c = 0; c < column_blocks; ++c) {
          region(thread, c, 0, layout.k_blocks(), row0, row1,
                 {acc + c * layout.column_block, false, false, c + 1 < column_blocks});
        }
        for (std::int64_t row = row0; row < row1; row += row_group) {
          hand_on({thread, row, std::min<std::int64_t>(row_group, row1 - row), 0, layout.piece_columns,
                   acc + (row - row0) * acc_row, acc_row, blocking.piece_stride});
        }
      }
    });
  }

  // The place where the accumulators of row0 and the rows behind it are collected.
  std::uint32_t* collected(std::int64_t row0) const {
    return options.kept ? kept(row0) : reinterpret_cast<std::uint32_t*>(options.shared_scratch);
  }

  // Computes rows [row0, row1), at most row_block of them.
  void collect(int thread, std::int64_t row0, std::int64_t row1) const {
    std::uint32_t* const shared = collected(row0);
    const std::int64_t column_blocks = layout.column_blocks();
    const auto first_k = [&](std::int64_t split) { return layout.k_blocks() * split / blocking.splits; };
    if (blocking.thin) {
      for_own_columns(
          thread, thin_strips(shape_of(product)), [&](std::int64_t split, std::int64_t first, std::int64_t end) {
            std::uint32_t* const acc = shared + split * blocking.row_block * acc_row + first * layout.column_block;
            thin_region(thread, first, end, first_k(split), first_k(split + 1), row0, row1,
                        reinterpret_cast<float*>(acc));
          });
      return;
    }
    for_own_rows(thread, {.rows = row1 - row0, .splits = blocking.splits},
                 [&](std::int64_t part, std::int64_t first, std::int64_t end, bool more) {
                   const std::int64_t column_block = part % column_blocks;
                   const std::int64_t split = part / column_blocks;
                   std::uint32_t* const acc = shared + (split * blocking.row_block + first * row_group) * acc_row +
                                              column_block * layout.column_block;
                   region(thread, column_block, first_k(split), first_k(split + 1), row0 + first * row_group,
                          std::min(row0 + end * row_group, row1),
                          {acc, false, false, more && column_block + 1 < column_blocks});
                 });
  }

  void hand_on_collected(int thread, std::int64_t row0, std::int64_t row1) const {
    std::uint32_t* const shared = collected(row0);
    for_own_rows(thread, whole_rows(row1 - row0), [&](std::int64_t, std::int64_t first, std::int64_t end, bool) {
      for (std::int64_t group = first; group < end; ++group) {
        const std::int64_t row = row0 + group * row_group;
        const std::int64_t rows = std::min<std::int64_t>(row_group, row1 - row);
        std::uint32_t* const acc = shared + group * row_group * acc_row;
        if (blocking.splits > 1)
          is_float(product.a.dtype) ? add_parts<float>(acc, rows) : add_parts<std::uint32_t>(acc, rows);
        hand_on({thread, row, rows, 0, layout.piece_columns, acc, acc_row, blocking.piece_stride});
      }
    });
  }

  // acc += the other parts of K, in their order; rows are whole lines.
  template <class T>
  void add_parts(std::uint32_t* acc, std::int64_t rows) const {
    using Four [[gnu::vector_size(16), gnu::may_alias]] = T;
    const std::int64_t part = blocking.row_block * acc_row;
    for (std::uint32_t* const end = acc + rows * acc_row; acc < end; acc += 16) {
      const auto at = [acc, part](int split) { return reinterpret_cast<Four*>(acc + split * part); };
      Four s0 = at(0)[0], s1 = at(0)[1], s2 = at(0)[2], s3 = at(0)[3];
      for (int split = 1; split < blocking.splits; ++split)
        s0 += at(split)[0], s1 += at(split)[1], s2 += at(split)[2], s3 += at(split)[3];
      at(0)[0] = s0, at(0)[1] = s1, at(0)[2] = s2, at(0)[3] = s3;
    }
  }
};

}  // namespace

void run(const Product& given, const Blocking& blocking, const RunOptions& options) {
  if (given.m == 0 || given.n == 0) return;
  if (blocking.small != Small::no) return run_small(given, blocking, options);
  Product product = given;
  // One row is contiguous in N, and not in K, whatever the distance to the next would be: shape_of says so too.
  if (product.k == 1 && product.n > 1 && product.b.column_stride == 1) product.b.row_stride = product.n;
  if (product.packed_b && (product.packed_b->isa != blocking.isa || product.packed_b->k_block != blocking.k_block ||
                           product.packed_b->column_block != blocking.column_block)) {
    throw Error(ErrorCode::internal, "B was packed for another product");
  }
  const Runner runner(product, blocking, options);
  if (packs_first(blocking) && !runner.ready_b) {
    core::parallel(options.threads, [&](int thread) { runner.pack_all(thread); });
  }
  if (blocking.order == Order::blocks) {
    core::parallel(options.threads, [&](int thread) { runner.run_blocks(thread); });
    return;
  }
  if (blocking.order == Order::rows) {
    core::parallel(options.threads, [&](int thread) { runner.run_rows(thread); });
    return;
  }
  for (std::int64_t row = 0; row < product.m; row += blocking.row_block) {
    const std::int64_t end = std::min(product.m, row + blocking.row_block);
    core::parallel(options.threads, [&](int thread) { runner.collect(thread, row, end); });
    core::parallel(options.threads, [&](int thread) { runner.hand_on_collected(thread, row, end); });
  }
}

}  // namespace postlude::inline v0::cpu
