// The matrix product, acc[m, n] = sum over k of A[m, k] * B[k, n], handed on block by block.
//
//   Product    the operands
//   Blocking   how they are multiplied: a pure function of shapes, types and instruction set, never
//              of the number of threads, so that every element is summed in one order, and every
//              block has one place, whatever runs it
//   run        computes. A Consumer gets every block once, finished, while it is in L1 or L2; or a
//              Direct is applied in registers. Nothing is allocated
//
// The accumulator is f32 (f32, f16, bf16, e4m3 and e5m2 operands, also mixed) or i32, wrapping (s8
// and u8, also mixed).
#pragma once

#include "cpu/isa.h"
#include "cpu/product/microkernel.h"
#include "loop/rows.h"

#include <postlude/dtype.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace postlude::inline v0::cpu {

// Rows x columns at any element strides: they may be 0, negative, and neither need be 1. What is no stride apart is
// found by `address`; Gathered rows have the strides of the matrix that they are taken from.
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  const Address* address = nullptr;
  std::int64_t batch = 0;  // of Gathered
  std::int64_t row0 = 0;   // the first of Windows
};

// The columns of the product in `count` pieces, as `chunk(x, count, group)` splits them: every
// `group` columns (0: all N) are cut into `count` equal parts, and piece i is made of the i-th
// parts. Column x of piece i is column(i, x) of the product. Blocks hold the same columns of all
// pieces, so that gate and up, or x and its rotation partner, arrive together.
struct Pieces {
  int count = 1;
  std::int64_t group = 0;
};

struct PackedB;

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a;  // m x k
  Matrix b;  // k x n; its data may be null where packed_b is given
  const PackedB* packed_b = nullptr;
  Pieces pieces;
};

// The facts that are known before the operands are.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  DType a = DType::f32, b = DType::f32;
  bool packed_b = false;
  bool b_n_major = false;  // B is contiguous in N and not in K
  bool b_k_major = false;  // B is contiguous in K
  Pieces pieces = {};
  bool addressed = false;  // A or B is not a stride apart, or, where B is packed, need not be
  bool windows = false;    // A is windows, or, where B is packed, may be
  bool a_k_major = false;  // A is contiguous in K
  bool a_close = false;    // its rows follow one another too
  bool alone = false;      // nothing follows it: its sums are stored as they are
};
[[nodiscard]] ProductShape shape_of(const Product& product);

enum class Order : std::uint8_t {
  blocks,     // a block is handed on by the thread that finished it, at once
  collected,  // all columns of row_block rows are computed into shared scratch, then handed on with whole rows: for
              // statistics over N that are used again, and for sums split over K, whose parts are
              // added on the way
  rows,       // the same by the thread alone, for as few rows as stay in its L2 (more where they are kept): B is packed
              // once, into shared scratch. Statistics over N where B is small enough for L3
};

// A small product in f32, which passes all of K and all columns at once (small.h).
enum class Small : std::uint8_t {
  no,
  as_it_lies,  // tiles of vectors along N
  packed,      // the same, of a B contiguous in K that is packed whole
  upright,     // tiles of vectors along M, of any B
  crossed,     // the same of the product of B's columns, which are contiguous in K, by A's rows
};

// Sizes are in elements. Made by choose_blocking.
struct Blocking {
  Isa isa = Isa::portable;
  Order order = Order::blocks;
  Small small = Small::no;
  bool joined = false;        // its rows of C are one row where they can be
  std::int64_t dots = 0;      // its last columns, all or those that do not fill a vector, are dot products along K
  std::size_t small_acc = 0;  // where its accumulators lie in a thread's scratch
  bool thin = false;          // few rows: B is read once as it lies, without packing
  bool turned = false;  // few rows of A, and B contiguous in K: the product of B's columns, as they lie, by A's rows,
                        // packed in B's stead
  bool stretches = false;         // rows of A are read where they lie, if they do in stretches (rows.h)
  bool kept = false;              // accumulators are kept in an output (RunOptions::kept)
  int splits = 1;                 // parts of K that are summed apart (collected)
  std::int64_t k_block = 0;       // elements of K that are multiplied before the next; a multiple of 16
  std::int64_t column_block = 0;  // columns of one piece in a block
  std::int64_t across = 1;        // blocks: column blocks that a row group passes before the next does; B is packed
                                  // once, into shared scratch, where that is more than one
  std::int64_t row_block =
      0;  // rows for which a block of B is packed once (rows: read), at most; a multiple of row_group
  std::int64_t group_rows = row_group;  // rows of a block that is handed on, at most
  // The following are derived, in accumulator elements.
  std::int64_t acc_row = 0;       // row stride of finished blocks
  std::int64_t piece_stride = 0;  // from one piece of a finished block to the next
  std::int64_t units = 0;         // independent parts: more threads than this are of no use
  // The caller allocates so many bytes, 64-byte aligned.
  std::size_t thread_bytes = 0;  // for each thread
  std::size_t shared_bytes = 0;  // once
  // What was thought of and is not done, and why; null where it is done.
  struct Refused {
    const char *what = nullptr, *why = nullptr;
  };
  std::array<Refused, 6> refused;
};

// Whether all of B is packed, into shared scratch, before the rest begins, if nobody has packed it.
[[nodiscard]] inline bool packs_first(const Blocking& b) { return b.order == Order::rows || b.across > 1; }

// `whole_rows` asks for blocks of all columns; otherwise the shape decides. Throws Error
// unsupported when the types do not go together.
[[nodiscard]] Blocking choose_blocking(const ProductShape& shape, Isa isa, bool whole_rows = false);
// Whether an output may keep the accumulators (RunOptions::kept), and the change to a Blocking
// where one does.
[[nodiscard]] bool may_keep(const Blocking& blocking, const ProductShape& shape);
void keep_accumulators(Blocking& blocking, const ProductShape& shape);

// ---- B packed once ------------------------------------------------------------------------------

// B in the layout of the kernels, for any m. It serves one isa, dtypes (A's too, where that decides
// the words), n, k and pieces.
struct PackedB {
  Isa isa = Isa::portable;
  DType a = DType::f32, b = DType::f32;
  std::int64_t n = 0, k = 0;
  Pieces pieces;
  std::int64_t k_block = 0, column_block = 0;  // as choose_blocking's
  std::size_t bytes = 0;

  struct Free {
    void operator()(std::uint32_t* words) const;
  };
  std::unique_ptr<std::uint32_t[], Free> words;  // 64-byte aligned
};
// Reads product.b (and k, n, pieces and a.dtype; not m). A may have the form `a`.
[[nodiscard]] PackedB pack_b(const Product& product, Isa isa, int threads, Form a = Form::strided);
// The same in steps: its layout without memory, its memory, and its content, with a thread's scratch each.
[[nodiscard]] PackedB packed_layout(ProductShape shape, Isa isa);
void allocate(PackedB& packed);
void fill(PackedB& packed, const Product& product, int threads, char* scratch, std::size_t scratch_stride);

// ---- running ------------------------------------------------------------------------------------

// Finished accumulators: row i, column j of piece p is at acc[i * acc_row + p * piece_stride + j],
// in f32 or i32. They belong to the consumer, which may overwrite them. Without pieces (row0 + i, column0 + j) is the
// place in the product; with pieces column0 counts within each piece (see column_of).
struct FinishedBlock {
  int thread = 0;
  std::int64_t row0 = 0, rows = 0;
  std::int64_t column0 = 0, columns = 0;  // of each piece
  void* acc = nullptr;
  std::int64_t acc_row = 0;
  std::int64_t piece_stride = 0;
};

// Column x of piece i of an n-column product.
[[nodiscard]] inline std::int64_t column_of(const Pieces& pieces, std::int64_t n, int piece, std::int64_t x) {
  const std::int64_t part = (pieces.group > 0 ? pieces.group : n) / pieces.count;
  return part == 0 ? 0 : x / part * part * pieces.count + piece * part + x % part;
}

// A consumer is called on the thread that computed the block (collected: on any), and must not
// throw. Blocks have at most Blocking::group_rows rows and start at multiples of it; every element of the
// product arrives in one block; blocks of the orders collected and rows have all columns. The set
// of blocks depends on the Blocking only; their order, and the thread that gets one, depend on the
// number of threads.
struct Consumer {
  void (*consume)(void* context, const FinishedBlock& block) = nullptr;
  void* context = nullptr;
};

struct RunOptions {
  int threads = 1;
  // thread t's scratch is at thread_scratch + t * thread_scratch_stride, 64-byte aligned.
  std::byte* thread_scratch = nullptr;
  std::size_t thread_scratch_stride = 0;
  std::byte* shared_scratch = nullptr;
  // Blocking::kept: accumulators are kept here instead of in scratch, (m, n) at [m * kept_row + n]:
  // an output that nothing reads or writes before its block's accumulators are used.
  void* kept = nullptr;
  std::int64_t kept_row = 0;
  // One of the two. `direct` needs f32 accumulators, and one piece. stored_first: both, and the consumer gets what
  // `direct` stored where it lies, which it does not overwrite (order blocks, in tiles of packed B).
  Consumer consumer;
  const Direct* direct = nullptr;
  bool stored_first = false;
  Prefetch prefetch[2];  // memory that the consumer will touch, by the product's rows and (one piece) columns
};

// The product must have the shape for which the blocking was chosen. With threads == 1 nothing is
// forked, and it may be called from inside a parallel region (FinishedBlock::thread is then 0). K
// == 0 gives zeros; m == 0 or n == 0 gives no block.
void run(const Product& product, const Blocking& blocking, const RunOptions& options);

}  // namespace postlude::inline v0::cpu
