#include "cpu/product/blocking.h"

#include "cpu/product/rows.h"
#include "cpu/product/small.h"

#include <postlude/error.h>

#include <algorithm>
#include <string>

namespace postlude::inline v0::cpu {
namespace {

// A block of B, k_block x column_block words, stays in L2 while A passes. Decision 0036 has the
// figures behind these sizes, decision 0035 those of few rows.
struct BlockSize {
  std::int64_t steps, columns;
};
constexpr BlockSize usual_block = {512, 256};
constexpr BlockSize shallow_block = {128, 512};  // K up to 128
constexpr BlockSize one_block = {1024, 128};     // f32 of a K up to that: accumulators pass once (decision 0317)
// AMX multiplies so fast that A should be packed for few column blocks; 24 rows of it take half of
// L1. Wider blocks would leave threads nothing to share (decision 0030).
constexpr BlockSize amx_block = {256, 512};
// Few rows of A, and B contiguous in N and out of memory: packing is most of the time, and wants
// long pieces of few rows. Out of caches the usual block is faster.
constexpr BlockSize few_rows_block = {96, 1024};
constexpr std::int64_t few_rows = 96;
// Windows: accumulators do not pass through L3 for a second k block, of which only a very long K has two (decision
// 0170). A block has so many columns that L2 holds it, the next one that is asked for, and rows of A (decision 0175).
constexpr BlockSize whole_block = {2304, 256};
constexpr std::int64_t whole_block_words = 160 << 10;
// Rows of A that L2 holds, and B contiguous in K: what is packed is passed while it is in L1 or near it (decision
// 0172).
constexpr BlockSize panel_block = {512, 128};
constexpr std::int64_t panel_words = 8 << 10;  // of one panel, where L1 does not hold the block
// Of more steps than that block has a panel is passed at once: accumulators pass less often, and what a panel is larger
// than L1 is asked for (decision 0317).
constexpr BlockSize long_panel = {1024, max_panel};
constexpr std::int64_t long_panel_rows = 320;
constexpr std::int64_t panel_rows = 192;
// Few rows of A, and B contiguous in K: packing B would be a third of the time, so the product is
// turned. More rows than one panel has take a second one, of low tiles (decision 0314).
constexpr BlockSize turned_block = {1024, 256};
constexpr std::int64_t turned_rows = max_panel;
// A thread keeps so many bytes of accumulators of a block with several k blocks; they pass through
// L3 once per k block.
constexpr std::int64_t kept_bytes = 3300 << 10;
// All threads together keep so many bytes of accumulators of all columns.
constexpr std::int64_t collected_bytes = 8 << 20;
// Order rows: a thread keeps so many bytes of accumulators of all columns in L2, where all of a
// packed B has to stay too (decision 0037). With fewer rows than rows_least threads would stand
// idle.
constexpr std::int64_t rows_bytes = 400 << 10;
constexpr std::int64_t rows_b_bytes = 1 << 20;
constexpr std::int64_t rows_least = 8 * row_group;
// An output that keeps accumulators is passed through anyway, so there may be more, and B is read
// less often (decision 0037).
constexpr std::int64_t kept_rows_bytes = 4 * rows_bytes;
// Rows of a product of one k block pass as many column blocks as rows_b_bytes hold before the next
// rows do, so that a row's pages are looked up once (decision 0037). All of B, at most
// across_bytes, is packed first, which takes many rows to make up for, and the more the larger K.
constexpr std::int64_t across_bytes = 8 << 20;
constexpr std::int64_t across_rows = 512, across_rows_of_k = 4;
// A thin product keeps so many elements of A in L1, which gives its k block. In shorter k blocks
// than the least one adding up vectors takes too long (decision 0035).
constexpr std::int64_t thin_a = 4096, thin_k_least = 512;
// More columns than this are two column blocks at least, so that two threads have one each
// (decision 0034).
constexpr std::int64_t narrow_columns = 128;
// A product of at most so many elements and at least so many k blocks, with few tiles for threads
// to share, is summed in parts of K.
constexpr std::int64_t split_elements = 64 * 1024;
constexpr std::int64_t split_k_blocks = 8;

// Rows of accumulators that fit into `bytes`.
std::int64_t rows_within(std::int64_t bytes, const Blocking& b) {
  return std::max<std::int64_t>(bytes / (4 * b.acc_row) / row_group, 1) * row_group;
}

// Blocks of equal size, as large as `most` allows.
std::int64_t even_block(std::int64_t size, std::int64_t most, std::int64_t multiple) {
  const std::int64_t blocks = std::max<std::int64_t>(ceil_div(size, most), 1);
  return std::max(round_up(ceil_div(size, blocks), multiple), multiple);
}

bool may_split(const ProductShape& shape) {
  return shape.m * shape.n <= split_elements && shape.k >= split_k_blocks * usual_block.steps;
}

// Why something is not done, or null.
using Why = const char*;

Why not_thin(const ProductShape& shape, const Kernels& kernels) {
  if (kernels.thin_k_major == nullptr) return "the kernels multiply words of several elements";
  if (shape.packed_b) return "B is packed already";
  return is_thin(shape) ? nullptr : "too many rows";
}

Why not_turned(const ProductShape& shape, const Kernels& kernels, bool whole_rows) {
  if (whole_rows) return "the epilogue needs whole rows";
  if (!shape.b_k_major || shape.packed_b) return "B is not contiguous in K";
  if (shape.addressed || shape.pieces.count > 1) return "A or B is no stride apart, or the columns are in pieces";
  if (kernels.terms || kernels.word_elements > 1) return "the kernels multiply words of several elements";
  if (is_thin(shape) || shape.m > turned_rows) return "more than 64 rows, or thin";
  // Packing takes more of a step, and most where it waits for L3, and turning back more of a row, than tells which rows
  // are dot products (decisions 0244, 0314).
  const std::int64_t step = shape.n * shape.k > 2 * b_in_l2 ? 4 : 3, back = 2 * kernels.lanes - 6;
  if (cost_of_packed(shape) + step * shape.k <= cost_of_turned(shape, kernels.lanes) + back * shape.m)
    return "its rows fill too few vectors";
  if (shape.n < 4 * shape.m) return "less than four columns to a row";
  return may_split(shape) ? "K may be split" : nullptr;
}

Why not_split(const ProductShape& shape, std::int64_t tiles, std::int64_t k_blocks) {
  if (k_blocks < split_k_blocks) return "fewer than 8 k blocks";
  return tiles <= 8 && shape.m * shape.n <= split_elements ? nullptr : "tiles enough for threads";
}

// Parts enough for threads, which take longer to multiply than to add (decision 0254).
int parts_of(const ProductShape& shape, const Kernels& kernels, bool thin, std::int64_t k_blocks) {
  const std::int64_t long_parts = ceil_div(shape.k, usual_block.steps * kernels.word_elements);
  return static_cast<int>(std::min({std::int64_t{16}, k_blocks, thin ? k_blocks : long_parts}));
}

// The order `rows`, where whole rows are collected.
Why not_by_rows(const ProductShape& shape, const Blocking& b, const BLayout& layout) {
  if (b.order == Order::blocks) return "a block needs no whole rows";
  if (b.splits > 1 || b.thin) return "thin or split";
  if (shape.m < rows_least) return "fewer than 192 rows";
  const bool fits = layout.all_words() * 4 <= rows_b_bytes && row_group * b.acc_row * 4 <= 2 * rows_bytes;
  return fits ? nullptr : "B or a block's accumulators do not stay in L2";
}

Why not_across(const ProductShape& shape, const Blocking& b, const BLayout& layout) {
  if (b.order != Order::blocks) return "rows are whole already";
  if (shape.k == 0 || layout.k_blocks() > 1) return "several k blocks";
  if (shape.m < std::max(across_rows, across_rows_of_k * shape.k)) return "too few rows for their K";
  if (layout.column_blocks() <= 1) return "one column block";
  return layout.all_words() * 4 > across_bytes ? "B is larger than L3 keeps" : nullptr;
}

BlockSize block_for(const ProductShape& shape, const Kernels& kernels) {
  if (kernels.packed_rows == row_group) return amx_block;  // only AMX's multiply a whole group of packed rows
  const bool long_rows = shape.b_n_major && shape.n > usual_block.columns;
  if (!shape.packed_b && long_rows && shape.m <= few_rows && shape.k * shape.n > large_b) return few_rows_block;
  const std::int64_t steps = ceil_div(shape.k, kernels.word_elements);
  if (shape.windows && shape.a == DType::f32 && kernels.word_elements == 1) {
    const std::int64_t fit =
        whole_block_words / std::clamp<std::int64_t>(steps, 1, whole_block.steps) / max_panel * max_panel;
    return {whole_block.steps, std::clamp<std::int64_t>(fit, max_panel, whole_block.columns)};
  }
  const bool words_of_one = kernels.word_elements == 1 && !kernels.terms;
  if (!shape.packed_b && shape.b_k_major && words_of_one && steps > panel_block.steps && shape.m <= long_panel_rows &&
      !may_split(shape))
    return long_panel;
  if (!shape.packed_b && shape.b_k_major && words_of_one && shape.m <= panel_rows) {
    const bool panel_fits = steps * max_panel <= panel_words && steps * panel_block.columns > panel_words;
    return {panel_block.steps, panel_fits ? max_panel : panel_block.columns};
  }
  if (!shape.packed_b && words_of_one && steps > usual_block.steps && steps <= one_block.steps) return one_block;
  return steps <= shallow_block.steps ? shallow_block : usual_block;
}

std::int64_t thin_k_block(const ProductShape& shape) {
  const std::int64_t depth = thin_a / std::max<std::int64_t>(shape.m, 1);
  // Of rows that copy a panel L1 holds it (decision 0268).
  const std::int64_t part = !shape.b_n_major || shape.m <= max_thin_rows ? 1 : shape.n * shape.k > large_b ? 2 : 4;
  const std::int64_t least = thin_k_least / part;
  return even_block(shape.k, std::max(depth, least), 16);
}

}  // namespace

BLayout layout_for(const Kernels& kernels, const ProductShape& shape, std::int64_t k_block, std::int64_t column_block) {
  BLayout layout;
  layout.kernels = &kernels;
  layout.n = shape.n;
  layout.k = shape.k;
  layout.pieces = shape.pieces;
  layout.piece_columns = shape.n / shape.pieces.count;
  layout.k_block = k_block;
  layout.column_block = column_block;
  layout.a_zero = kernels.terms && shape.a == DType::s8 ? 128 : 0;
  layout.b_zero = kernels.terms && shape.b == DType::u8 ? -128 : 0;
  return layout;
}

ThreadScratch thread_scratch(const Kernels& kernels, const Blocking& blocking, std::int64_t m, const BLayout& layout,
                             bool packed_b) {
  ThreadScratch s;
  std::size_t end = 0;
  const auto take = [&end](std::int64_t bytes) {
    const std::size_t start = end;
    end += static_cast<std::size_t>(round_up(bytes, 64));
    return start;
  };
  s.gather = take(static_cast<std::int64_t>(gather_bytes(blocking.k_block)));
  if (blocking.thin) {
    s.b = take(m >= rows_that_copy ? kernels.panel * blocking.k_block * 4 : 0);  // ThinRun::copy
    s.a = take(m * (round_up(blocking.k_block, 16) + 16) * 4);
  } else {
    const std::int64_t words = blocking.turned ? turned_a_words(blocking, m) + blocking.column_block * turned_row(m)
                                               : layout.largest_block_words();
    s.b = take(packed_b || packs_first(blocking) ? 0 : words * 4);
    s.a = take(packed_a_words(blocking.k_block, kernels.word_elements) * 4);
    if (blocking.stretches) s.stretches = take(most_stretches(blocking.k_block) * std::int64_t{sizeof(Stretch)});
  }
  if (blocking.order != Order::collected && !blocking.kept) {
    const bool several = blocking.order == Order::rows || blocking.turned || (!blocking.thin && layout.k_blocks() > 1);
    const std::int64_t rows = blocking.thin ? m : several ? blocking.row_block : row_group;
    s.acc = take(rows * blocking.acc_row * 4);
  }
  s.end = end;
  return s;
}

bool may_keep(const Blocking& b, const ProductShape& shape) {
  return (b.order == Order::collected || b.order == Order::rows) && b.splits == 1 && shape.pieces.count == 1 &&
         shape.n % 16 == 0;
}

void keep_accumulators(Blocking& b, const ProductShape& shape) {
  b.kept = true;
  if (b.order == Order::collected) {
    b.shared_bytes = 0;
    return;
  }
  b.row_block = rows_within(kept_rows_bytes, b);
  const Kernels& kernels = kernels_for(b.isa, shape);
  const BLayout layout = layout_for(kernels, shape, b.k_block, b.column_block);
  b.thread_bytes = thread_scratch(kernels, b, shape.m, layout, shape.packed_b).end;
}

ProductShape shape_of(const Product& p) {
  const bool strided = !p.b.address, a_k_major = !p.a.address && (p.a.column_stride == 1 || p.k == 1);
  return {
      .m = p.m,
      .n = p.n,
      .k = p.k,
      .a = p.a.dtype,
      .b = p.b.dtype,
      .packed_b = p.packed_b != nullptr,
      .b_n_major = strided && (p.b.row_stride != 1 || p.k == 1) && p.b.column_stride == 1,
      .b_k_major = strided && ((p.b.row_stride == 1 && (p.k != 1 || p.b.column_stride != 1)) || (p.k == 1 && p.n == 1)),
      .pieces = p.pieces,
      .addressed = p.a.address || p.b.address,
      .windows = p.a.address && std::holds_alternative<Windows>(*p.a.address),
      .a_k_major = a_k_major,
      .a_close = a_k_major && p.a.row_stride == p.k};
}

Blocking choose_blocking(const ProductShape& shape, Isa isa, bool whole_rows) {
  const auto operand = [](DType type) { return is_float(type) || type == DType::s8 || type == DType::u8; };
  if (!operand(shape.a) || !operand(shape.b) || is_float(shape.a) != is_float(shape.b)) {
    throw Error(ErrorCode::unsupported,
                "a product of " + std::string(name(shape.a)) + " by " + std::string(name(shape.b)) + " has no kernel",
                "Use two of f32, f16, bf16, e4m3 and e5m2, or two of s8 and u8.");
  }
  const Kernels& kernels = kernels_for(isa, shape);
  const std::int64_t columns = shape.n / shape.pieces.count;

  Blocking b;
  b.isa = isa;
  const SmallChoice small = choose_small(shape, kernels);
  b.refused[5] = {"small", small.why};
  if (small.form != Small::no) {
    block_small(b, small, shape);
    return b;
  }
  b.refused[0] = {"thin", not_thin(shape, kernels)};
  b.refused[1] = {"turned", not_turned(shape, kernels, whole_rows)};
  b.thin = b.refused[0].why == nullptr;
  b.turned = b.refused[1].why == nullptr;
  b.stretches = shape.addressed && shape.a == DType::f32 && kernels.word_elements == 1 && !kernels.terms && !b.thin;
  const BlockSize size = b.turned ? turned_block : block_for(shape, kernels);
  b.k_block = even_block(shape.k, size.steps * kernels.word_elements, 16 * kernels.word_elements);
  const std::int64_t most_columns = round_up(ceil_div(size.columns, shape.pieces.count), kernels.panel);
  const std::int64_t k_blocks = std::max<std::int64_t>(ceil_div(shape.k, b.k_block), 1);
  // pack_b knows neither M nor the order.
  const bool narrow =
      columns > narrow_columns && columns <= most_columns && (shape.packed_b ? k_blocks == 1 : shape.m < across_rows);
  b.column_block = even_block(columns, narrow ? ceil_div(columns, 2) : most_columns, kernels.panel);
  const std::int64_t tiles = row_groups(shape.m) * ceil_div(shape.n, b.column_block);
  b.refused[2] = {"split along K", not_split(shape, tiles, k_blocks)};
  const bool split = b.refused[2].why == nullptr;
  b.order = whole_rows || split ? Order::collected : Order::blocks;
  if (b.thin) {
    b.k_block = thin_k_block(shape);
    // Strips enough for 8 threads, and more of them where rows are many.
    const std::int64_t wanted = (shape.b_n_major && shape.m > few_thin_rows ? 256 : 512) / shape.pieces.count;
    b.column_block = round_up(std::clamp<std::int64_t>(columns, 1, std::max<std::int64_t>(wanted, 64)), 16);
  }
  const BLayout layout = layout_for(kernels, shape, b.k_block, b.column_block);
  b.splits = split ? parts_of(shape, kernels, b.thin, layout.k_blocks()) : 1;

  if (b.order == Order::collected) {
    b.piece_stride = round_up(columns, 16);
    b.acc_row = b.piece_stride * shape.pieces.count + 16;  // 16: not a multiple of 4 KB
  }
  b.refused[3] = {"row by row", not_by_rows(shape, b, layout)};
  if (b.refused[3].why == nullptr) b.order = Order::rows;
  if (b.order == Order::rows) {
    b.row_block = rows_within(rows_bytes, b);
    b.shared_bytes = shape.packed_b ? 0 : static_cast<std::size_t>(layout.all_words() * 4);
  } else if (b.order == Order::collected) {
    const std::int64_t fit = collected_bytes / (4 * b.acc_row * b.splits);
    const std::int64_t all = round_up(std::max<std::int64_t>(shape.m, 1), row_group);
    b.row_block = std::min(all, std::max<std::int64_t>(fit / row_group, 1) * row_group);
    // Blocks of equal size.
    b.row_block = round_up(ceil_div(all, ceil_div(all, b.row_block)), row_group);
    b.shared_bytes = static_cast<std::size_t>(b.splits * b.row_block * b.acc_row * 4);
  } else {
    const std::int64_t strip = b.column_block * (b.thin ? thin_strips(shape) : 1);
    b.piece_stride = round_up(std::min(strip, std::max<std::int64_t>(columns, 1)), 16);
    b.acc_row = b.piece_stride * shape.pieces.count + 16;
    const std::int64_t all = row_groups(shape.m) * row_group;
    b.row_block = std::clamp<std::int64_t>(kept_bytes / (4 * b.acc_row) / row_group * row_group, row_group,
                                           std::max<std::int64_t>(all, row_group));
  }
  b.refused[4] = {"across column blocks", not_across(shape, b, layout)};
  if (b.refused[4].why == nullptr) {
    b.across = std::clamp<std::int64_t>(rows_b_bytes / (layout.largest_block_words() * 4), 1, layout.column_blocks());
    if (b.across > 1 && !shape.packed_b) b.shared_bytes = static_cast<std::size_t>(layout.all_words() * 4);
  }
  const std::int64_t rows = b.thin ? 1 : row_groups(std::min(b.row_block, std::max<std::int64_t>(shape.m, 1)));
  b.units = (b.order == Order::blocks && !b.thin && !b.turned ? row_groups(shape.m) : rows) *
            ceil_div(layout.column_blocks(), b.across) * b.splits;
  if (b.order == Order::rows) b.units = row_groups(shape.m);
  b.thread_bytes = thread_scratch(kernels, b, shape.m, layout, shape.packed_b).end;
  return b;
}

}  // namespace postlude::inline v0::cpu
