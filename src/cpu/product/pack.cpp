#include "cpu/product/pack.h"

#include "core/threads.h"
#include "cpu/product/blocking.h"
#include "cpu/product/rows.h"

#include <postlude/error.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace postlude::inline v0::cpu {
namespace {

// pack_n_major takes so many elements of K at once from all panels of a block, so that rows of B
// are read in long pieces: reading 64 columns of every row first would touch a page per row.
constexpr std::int64_t n_major_depth = 16;

template <class T>
void gather_as(const char* from, std::int64_t stride, std::int64_t count, char* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * sizeof(T), from + i * stride * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  }
}

// Whether rows of B are contiguous, but for windows' taps.
bool n_major(const Matrix& b) {
  if (!b.address) return b.row_stride != 1 && b.column_stride == 1;
  if (const auto* w = std::get_if<Windows>(b.address)) return w->channels_last && w->channel_stride == 1;
  return std::holds_alternative<Counted>(*b.address) && b.column_stride == 1;
}

}  // namespace

const char* element_address(const Matrix& m, std::int64_t row, std::int64_t column) {
  return static_cast<const char*>(m.data) + (row * m.row_stride + column * m.column_stride) * size_of(m.dtype);
}

void gather(DType type, const char* from, std::int64_t stride, std::int64_t count, char* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size_of(type)));
    return;
  }
  switch (size_of(type)) {
    case 1: return gather_as<std::uint8_t>(from, stride, count, to);
    case 2: return gather_as<std::uint16_t>(from, stride, count, to);
    default: return gather_as<std::uint32_t>(from, stride, count, to);
  }
}

const Kernels& kernels_for(Isa isa, const ProductShape& shape) {
#if defined(__x86_64__)
  if (is_float(shape.a)) {
    const bool pairs = shape.a == DType::bf16 && shape.b == DType::bf16 && !is_thin(shape);
    if (pairs && isa == Isa::amx) return amx_bf16_kernels;
    if (pairs && isa == Isa::avx512 && machine_has_bf16()) return avx512_bf16_kernels;
    return isa >= Isa::avx512 ? avx512_float_kernels : isa == Isa::avx2 ? avx2_float_kernels : portable_float_kernels;
  }
  if (isa == Isa::amx) return amx_integer_kernels[shape.a == DType::s8][shape.b == DType::s8];
  if (isa == Isa::avx512 && machine_has_vnni()) return avx512_integer_kernels;
  return isa == Isa::portable ? portable_integer_kernels : avx2_integer_kernels;
#else
  static_cast<void>(isa);
  return is_float(shape.a) ? portable_float_kernels : portable_integer_kernels;
#endif
}

// A processor multiplies two of AVX2's vectors in the time of one of AVX-512's. Storing part of one takes AMD's 20
// cycles.
const Kernels& kernels_for_columns([[maybe_unused]] const Kernels& kernels, [[maybe_unused]] std::int64_t columns,
                                   [[maybe_unused]] std::int64_t k) {
#if defined(__x86_64__)
  const Kernels& half = avx2_float_kernels;
  if (&kernels == &avx512_float_kernels && (columns == half.lanes || (columns < half.lanes && k >= 48))) return half;
#endif
  return kernels;
}

Element element_of(DType type) {
  switch (type) {
    case DType::f16: return Element::f16;
    case DType::bf16: return Element::bf16;
    case DType::e4m3: return Element::e4m3;
    case DType::e5m2: return Element::e5m2;
    case DType::s8: return Element::s8;
    case DType::u8: return Element::u8;
    default: return Element::f32;
  }
}

std::int64_t BLayout::columns(std::int64_t block) const {
  return std::min(column_block, piece_columns - block * column_block);
}
std::int64_t BLayout::padded_columns(std::int64_t block) const { return round_up(columns(block), kernels->lanes); }
std::int64_t BLayout::depth(std::int64_t block) const { return std::min(k_block, k - block * k_block); }
std::int64_t BLayout::steps(std::int64_t block) const { return ceil_div(depth(block), kernels->word_elements); }

std::int64_t BLayout::block_words(std::int64_t column_block_index, std::int64_t k_block_index) const {
  const std::int64_t rows = steps(k_block_index) + (kernels->terms || kernels->least_exponent ? 1 : 0);
  return round_up(pieces.count * padded_columns(column_block_index) * rows, 16);
}
std::int64_t BLayout::largest_block_words() const { return column_blocks() == 0 ? 0 : block_words(0, 0); }
std::int64_t BLayout::offset(std::int64_t column_block_index, std::int64_t k_block_index) const {
  const auto before = [&](std::int64_t block, std::int64_t k_blocks) {  // words of a column block's first k blocks
    if (k_blocks == 0) return std::int64_t{0};
    return (k_blocks - 1) * block_words(block, 0) + block_words(block, k_blocks - 1);
  };
  const std::int64_t blocks = column_blocks();
  if (column_block_index < blocks) {
    return column_block_index * before(0, this->k_blocks()) + before(column_block_index, k_block_index);
  }
  return blocks == 0 ? 0 : (blocks - 1) * before(0, this->k_blocks()) + before(blocks - 1, this->k_blocks());
}

std::size_t gather_bytes(std::int64_t k_block) {
  return static_cast<std::size_t>(round_up(k_block * gathered_columns * 4, 64));
}

void pack_b_block(const Matrix& b, const BLayout& layout, std::int64_t column_block, std::int64_t k_block,
                  std::uint32_t* to, char* gather_to, std::int64_t first) {
  const Kernels& kernels = *layout.kernels;
  const Element element = element_of(b.dtype);
  const std::int64_t size = size_of(b.dtype);
  const std::int64_t k0 = k_block * layout.k_block;
  const std::int64_t depth = layout.depth(k_block);
  const std::int64_t steps = layout.steps(k_block);
  const std::int64_t columns = layout.columns(column_block);
  const std::int64_t padded = layout.padded_columns(column_block);
  const std::int64_t x0 = column_block * layout.column_block;

  for (int piece = 0; piece < layout.pieces.count; ++piece) {
    std::uint32_t* const words = to + piece * padded * steps;
    const auto column = [&](std::int64_t j) { return column_of(layout.pieces, layout.n, piece, x0 + j); };
    const bool neighbours = column(columns - 1) - column(0) == columns - 1;

    if (n_major(b) && neighbours) {
      for (std::int64_t k = 0; k < depth; k += n_major_depth) {
        const std::int64_t together = std::min(n_major_depth, depth - k);
        for (std::int64_t j = first; j < columns; j += kernels.panel) {
          const std::int64_t width = std::min<std::int64_t>(columns - j, kernels.panel);
          const std::int64_t to_row = round_up(width, kernels.lanes);
          alignas(64) char elements[n_major_depth * max_panel * 4];
          const char* from = elements;
          std::int64_t row = max_panel * size;
          if (b.address) {
            block_elements(b, column(j), width, k0 + k, together, elements, row);
          } else {
            from = element_address(b, k0 + k, column(j));
            row = b.row_stride * size;
          }
          kernels.pack_n_major(element, true, from, row, static_cast<int>(width), together,
                               words + j * steps + k / kernels.word_elements * to_row, to_row);
        }
      }
    } else {
      const bool lie = neighbours && !b.address && b.row_stride == 1;  // columns a stride apart, contiguous in K
      const char* const from = lie ? element_address(b, k0, column(0)) : nullptr;
      const std::int64_t distance = b.column_stride * size;
      for (std::int64_t j = first; j < columns; j += kernels.panel) {
        const std::int64_t width = std::min<std::int64_t>(columns - j, kernels.panel);
        const std::int64_t to_row = round_up(width, kernels.lanes);
        if (lie && b.dtype == DType::f32 && kernels.pack_columns) {
          kernels.pack_columns(static_cast<const float*>(b.data) + k0 + column(j) * b.column_stride, b.column_stride,
                               width, depth, words + j * steps, to_row);
          continue;
        }
        for (std::int64_t part = 0; part < width; part += gathered_columns) {
          const int count = static_cast<int>(std::min<std::int64_t>(width - part, gathered_columns));
          const char* starts[gathered_columns];
          for (int i = 0; i < count; ++i) {
            starts[i] = lie ? from + (j + part + i) * distance
                            : column_elements(b, column(j + part + i), k0, depth, gather_to + i * depth * size);
          }
          kernels.pack_k_major(element, true, starts, count, depth, words + j * steps + part, to_row);
        }
      }
    }
  }

  const std::int64_t words = layout.pieces.count * padded * steps;
  if (kernels.least_exponent) to[words] = static_cast<std::uint32_t>(kernels.least_exponent(to, words, 1, words));
  if (kernels.terms) {
    std::int32_t* const sums = reinterpret_cast<std::int32_t*>(to + words);
    for (int piece = 0; piece < layout.pieces.count; ++piece) {
      for (std::int64_t j = 0; j < padded; j += kernels.panel) {
        const int width = static_cast<int>(std::min<std::int64_t>(padded - j, kernels.panel));
        std::int32_t* const out = sums + piece * padded + j;
        kernels.sum_columns(to + piece * padded * steps + j * steps, steps, width, out);
        for (int i = 0; i < width; ++i) out[i] *= -layout.a_zero;  // at most 128 * 128 * depth: no overflow
      }
    }
  }
}

bool lies_packed(const Matrix& b, const BLayout& layout) {
  const Kernels& kernels = *layout.kernels;
  return !b.address && b.dtype == DType::f32 && kernels.word_elements == 1 && layout.pieces.count == 1 &&
         b.column_stride == 1 && b.row_stride == layout.n && layout.n <= kernels.panel && layout.n % 16 == 0;
}

void pack_part(const Matrix& b, const BLayout& layout, int thread, int threads, std::uint32_t* to, char* gather) {
  const std::int64_t blocks = layout.column_blocks() * layout.k_blocks();
  for (std::int64_t i = blocks * thread / threads; i < blocks * (thread + 1) / threads; ++i) {
    const std::int64_t column_block = i / layout.k_blocks(), k_block = i % layout.k_blocks();
    pack_b_block(b, layout, column_block, k_block, to + layout.offset(column_block, k_block), gather);
  }
}

bool a_in_place(const Matrix& a, std::int64_t m) {
  if (a.address || a.dtype != DType::f32 || a.column_stride != 1) return false;
  // Rows a multiple of 64 KB apart fall into the same sets of L2, and are packed. A multiple of 4
  // KB, the same sets of L1, does not matter to tiles of 6 rows (decision 0036).
  return m <= 8 || a.row_stride % 16384 != 0;
}

std::int64_t packed_a_words(std::int64_t k_block, int word_elements) {
  const std::int64_t steps = ceil_div(k_block, word_elements);
  return std::max(row_group * (round_up(steps, 16) + 16), 32 * steps);
}

void pack_rows(const Matrix& a, const Kernels& kernels, std::int64_t row0, int rows, std::int64_t k0,
               std::int64_t depth, std::uint32_t* to, std::int64_t to_row, char* gather_to) {
  for (int i = 0; i < rows; ++i) {
    const char* const from = row_elements(a, row0 + i, k0, depth, gather_to);
    kernels.pack_row(element_of(a.dtype), false, from, depth, to + i * to_row);
  }
}

AWords pack_a_rows(const Matrix& a, const Kernels& kernels, std::int64_t row0, int rows, std::int64_t k0,
                   std::int64_t depth, std::uint32_t* to, char* gather_to) {
  if (!a.address && a.column_stride != 1 && a.row_stride == 1) {
    constexpr std::int64_t to_row = 32;  // row_group in whole vectors
    kernels.pack_n_major(element_of(a.dtype), false, element_address(a, row0, k0), a.column_stride * size_of(a.dtype),
                         rows, depth, to, to_row);
    return {to, 1, to_row};
  }
  // Rows are one line more than a power of two apart, for L1's sets.
  const std::int64_t to_row = round_up(ceil_div(depth, kernels.word_elements), 16) + 16;
  if (const auto words = window_words(a, kernels, row0, rows, k0, depth, to, to_row)) return *words;
  pack_rows(a, kernels, row0, rows, k0, depth, to, to_row, gather_to);
  return {to, to_row, 1};
}

PackedB packed_layout(ProductShape shape, Isa isa) {
  shape.packed_b = true;
  const Blocking blocking = choose_blocking(shape, isa);
  PackedB packed;
  packed.isa = isa;
  packed.a = shape.a;
  packed.b = shape.b;
  packed.n = shape.n;
  packed.k = shape.k;
  packed.pieces = shape.pieces;
  packed.k_block = blocking.k_block;
  packed.column_block = blocking.column_block;
  const BLayout layout = layout_for(kernels_for(isa, shape), shape, packed.k_block, packed.column_block);
  // A B of stride 0 may have more elements than any memory.
  const bool too_large = static_cast<double>(shape.k) * static_cast<double>(shape.n) > 0x1p56;
  packed.bytes =
      too_large ? std::size_t{1} << 60 : static_cast<std::size_t>(std::max<std::int64_t>(layout.all_words() * 4, 64));
  return packed;
}

void allocate(PackedB& packed) {
  if (packed.bytes < std::size_t{1} << 60)
    packed.words.reset(new (std::align_val_t{64}, std::nothrow) std::uint32_t[packed.bytes / 4]);
  if (!packed.words) {
    throw Error(ErrorCode::out_of_memory, "there is no memory for a packed B of " + std::to_string(packed.k) + " x " +
                                              std::to_string(packed.n) + " elements");
  }
}

void fill(PackedB& packed, const Product& product, int threads, char* gather, std::size_t gather_stride) {
  ProductShape shape = shape_of(product);
  shape.packed_b = true;
  const BLayout layout = layout_for(kernels_for(packed.isa, shape), shape, packed.k_block, packed.column_block);
  core::parallel(threads, [&](int thread) {
    pack_part(product.b, layout, thread, threads, packed.words.get(),
              gather + gather_stride * static_cast<std::size_t>(thread));
  });
}

PackedB pack_b(const Product& product, Isa isa, int threads, Form a) {
  ProductShape shape = shape_of(product);
  shape.addressed |= a != Form::strided;
  shape.windows = a == Form::windows;
  PackedB packed = packed_layout(shape, isa);
  allocate(packed);
  const std::size_t gather = gather_bytes(packed.k_block);
  const std::unique_ptr<char[]> copies(new (std::nothrow) char[gather * static_cast<std::size_t>(threads)]);
  if (!copies) throw Error(ErrorCode::out_of_memory, "there is no memory to pack B in");
  fill(packed, product, threads, copies.get(), gather);
  return packed;
}

void PackedB::Free::operator()(std::uint32_t* pointer) const { ::operator delete[](pointer, std::align_val_t{64}); }

}  // namespace postlude::inline v0::cpu
