#include "cuda/emit/gemm_source.h"

#include "core/fill.h"
#include "cuda/emit/agreed.h"

#include <algorithm>
#include <type_traits>

namespace postlude::inline v0::cuda {
namespace {

const char* const base_text =
#include "cuda/device/base.cu"
    ;
const char* const math_text =
#include "cuda/device/math.cu"
    ;
const char* const vector_text =
#include "cuda/device/vector.cu"
    ;
const char* const rows_text =
#include "cuda/device/rows.cu"
    ;
const char* const fragment_text =
#include "cuda/device/fragment.cu"
    ;
const char* const epilogue_text =
#include "cuda/device/epilogue.cu"
    ;
const char* const engine_text =
#include "cuda/device/engine.cu"
    ;
const char* const sm90_text =
#include "cuda/device/sm90.cu"
    ;
const char* const sm90_windows_text =
#include "cuda/device/sm90_windows.cu"
    ;
const char* const sm90_shifted_text =
#include "cuda/device/sm90_shifted.cu"
    ;
const char* const sm90_loop_text =
#include "cuda/device/sm90_loop.cu"
    ;
const char* const sm90_gemm_text =
#include "cuda/device/sm90_gemm.cu"
    ;
const char* const async_text =
#include "cuda/device/async.cu"
    ;
const char* const mma_text =
#include "cuda/device/mma.cu"
    ;
const char* const sm80_text =
#include "cuda/device/sm80.cu"
    ;
const char* const sm80_tile_text =
#include "cuda/device/sm80_tile.cu"
    ;
const char* const sm80_gemm_text =
#include "cuda/device/sm80_gemm.cu"
    ;
const char* const stencil_lanes_text =
#include "cuda/device/stencil_lanes.cu"
    ;
const char* const stencil_bands_text =
#include "cuda/device/stencil_bands.cu"
    ;
const char* const stencil_direct_text =
#include "cuda/device/stencil_direct.cu"
    ;
const char* const stencil_strips_text =
#include "cuda/device/stencil_strips.cu"
    ;
const char* const stencil_images_text =
#include "cuda/device/stencil_images.cu"
    ;
const char* const stencil_text =
#include "cuda/device/stencil.cu"
    ;
const char* const stencil_turns_text =
#include "cuda/device/stencil_turns.cu"
    ;
const char* const stencil_ring_text =
#include "cuda/device/stencil_ring.cu"
    ;

std::string element(DType type) {
  switch (type) {
    case DType::boolean: return "u8";
    default: return std::string(name(type));
  }
}

// One warpgroup's product of 64 x BN over 32 bytes of K, accumulating unless `scale` is 0; behind its accumulators are
// `others`.
std::string wgmma_text(const KernelVariant& variant, int bn, int others) {
  const bool integer = !is_float(variant.a);
  const bool two_bytes = size_of(variant.a) == 2;
  const int registers = bn / 2;
  std::string list, bound;
  for (int i = 0; i < registers; ++i) {
    list += (i ? ", %" : "%") + std::to_string(i);
    bound += std::string(i ? ", " : "") + (integer ? "\"+r\"" : "\"+f\"") + "(d[" + std::to_string(i) + "])";
  }
  std::string tail = "p";
  if (!integer) tail += ", 1, 1";
  if (two_bytes) tail += std::string(variant.a_mn_major ? ", 1" : ", 0") + (variant.b_mn_major ? ", 1" : ", 0");
  return fill(R"(DEVICE void wgmma(ACC (&d)[$all], u64 a, u64 b, int scale) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %$scale, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n${bn}k$k.$d.$a.$b {$list}, %$a_at, %$b_at, $tail;\n}"
    : $bound : "l"(a), "l"(b), "r"(scale));
}
)",
              {{"all", std::to_string(registers + others)},
               {"scale", std::to_string(registers + 2)},
               {"bn", std::to_string(bn)},
               {"k", two_bytes ? "16" : "32"},
               {"d", integer ? "s32" : "f32"},
               {"a", element(variant.a)},
               {"b", element(variant.b)},
               {"list", list},
               {"a_at", std::to_string(registers)},
               {"b_at", std::to_string(registers + 1)},
               {"tail", tail},
               {"bound", bound}});
}

// The macros that a product's kernel is compiled with, in the order of its parts.
struct Definitions {
  const KernelVariant& variant;
  const Schedule& s;
  const EpilogueText& epilogue;
  std::string text = {};

  void define(const std::string& key, const auto& value) {
    text += "#define " + key + " ";
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      text += std::to_string(int(value)) + "\n";
    } else {
      text += std::string(value) + "\n";
    }
  }
  void define_all();
  void define_schedule();
  void define_epilogue();
  void define_operands();
  void define_mma();
  void define_stencil();
  void define_direct();
  void define_forms();
};

void Definitions::define_all() {
  define_schedule();
  define_epilogue();
  define_operands();
  if (s.mma || s.shifted) define_mma();
  if (s.strip_x) define_stencil();
  define_forms();
}

// How tiles, stages and consumers are cut.
void Definitions::define_schedule() {
  if (!s.mma) {
    define("PINGPONG", s.ping_pong);
    define("BY_MEMORY", s.by_memory);
    define("IN_SHARES", s.in_shares);
    const int a_rows = variant.a_rows ? variant.a_rows : s.bm;
    define("A_ROWS", a_rows);
    define("A_BOX", epilogue.needs.below > 1 ? a_run(s, epilogue.needs) : a_rows / sharing_a(s));
    define("ROW_PIECE", epilogue.needs.row_piece);
    const int together = cluster_blocks(s);
    define("CLUSTER_BLOCKS", together);
    define("CLUSTER", together > 1 ? "__cluster_dims__(" + std::to_string(together) + ")" : "");
    define("BY_CLUSTER", cluster_parts(s) > 1);
    define("PARTS_WORD", epilogue.words);
    define("B_PIECES", variant.b_pieces > 1);
    define("STAGE_K", k_bytes(s));
    define("SHIFTED", variant.shifted);
    define("SHIFTED_A", puts_rows(s) ? 0 : variant.shifted_a);
    define("LINES_A", puts_rows(s) ? variant.shifted_a : 0);
    define("APART_A", variant.shifted_a);
    define("FLAT_A", variant.flat_a);
  }
  define("AGAIN", s.again);
  define("CLUSTER_M", s.cluster_m);
  define("CLUSTER_N", s.cluster_n);
  define("MEETS", s.meets);
  define("MET_STATES", epilogue.needs.row_states);
  // Rows of the output: accumulators of pieces below each other are a thread's as if they were beside each other.
  const int below = epilogue.needs.below;
  define("BM", s.bm / below);
  define("BN", s.bn);
  define("BELOW", below);
  define("WG_ROWS", consumer_rows(s) / below);
  define("WG_COLUMNS", s.strips ? s.sub_n : below * (consumer_columns(s) + cut_columns(s)));
  if (!s.mma) define("CUT", cut_columns(s));
  define("STAGES", s.stages);
  define("SUB_N", s.sub_n);
  if (!s.mma) define("D_BUFFERS", s.d_buffers);
  define("D_BYTES", 64 * s.sub_n * epilogue.needs.d_bytes_column);
}

// What the emitted epilogue moves, and the columns and rows that it reduces in groups or takes in pieces.
void Definitions::define_epilogue() {
  define("LOADS", epilogue.moves.loads);
  define("STORES", epilogue.moves.stores);
  define("COPIES", epilogue.moves.copies);
  define("HELD", epilogue.has_held);
  define("ROWS_FIRST", epilogue.rows_first);
  const bool holds = epilogue.needs.holds && !variant.lone_rows;
  define("HOLDS", holds);
  define("TELLS", holds && !s.meets);  // through L2
  define("PARKS", holds ? s.parks : 0);
  // Partial results lie beside tags.
  define("TAGS", (holds && !s.meets) || variant.tags);
  // Groups of rows alone go through it a subtile at a time.
  define("GROUP_N", epilogue.needs.row_group && !epilogue.needs.group ? s.sub_n : epilogue.needs.group);
  define("ROW_GROUP", epilogue.needs.row_group);
  define("HELD_LOADS", epilogue.held_moves.loads);
  define("HELD_STORES", epilogue.held_moves.stores);
  define("HELD_COPIES", epilogue.held_moves.copies);
  define("RESTAGES", epilogue.restages);
  define("AUX_STAGES", s.aux_stages);
  define("AUX_BYTES", 64 * s.sub_n * epilogue.needs.aux_bytes_column);
  define("SCRATCH_BYTES", epilogue.needs.scratch_bytes);
  if (!s.mma) define("PROMOTED", variant.promoted);
  define("PARTS", pieces(epilogue.needs));
  define("PIECE", epilogue.needs.piece);
  define("PIECES_APART", !s.mma);
  if (!s.mma) define("RUN", b_run(s, epilogue.needs));
}

// How A and B lie, which edges a tile may have, and how many parameters there are.
void Definitions::define_operands() {
  define("ELEM_BYTES", size_of(variant.a));
  define("A_MN_MAJOR", variant.a_mn_major);
  define("B_MN_MAJOR", variant.b_mn_major);
  define("TURNED", variant.turned);
  define("WHOLE_M", variant.whole_m);
  define("WHOLE_N", variant.whole_n);
  define("EVEN_N", variant.even_n);
  if (variant.lone_columns) define("LONE_COLUMNS", 1);
  if (variant.lone_rows && !epilogue.needs.holds) define("LONE_ROWS", 1);
  define("APART", variant.apart);
  define("PACED", variant.paced);
  define("ROLLED", variant.rolled);
  define("GROUPS_AT_ONCE", variant.at_once);
  if (!s.mma) {
    define("EDGE_A", 2 + epilogue.maps);
    define("EDGE_B", 3 + epilogue.maps);
  }
  define("MAPS",
         2 + epilogue.maps + (s.mma ? 0 : 2 + std::max(0, variant.shifted - 1) + std::max(0, variant.shifted_a - 1)));
  const int words = epilogue.words + (s.by_memory ? part_words : 0);
  define("WORDS", words ? words : 1);
  define("ACC", is_float(variant.a) ? "float" : "int");
}

// The words of mma.sync.
void Definitions::define_mma() {
  const auto quoted = [](const std::string& word) { return "\"" + word + "\""; };
  define("MMA_A", quoted(element(variant.a)));
  define("MMA_B", quoted(element(variant.b)));
  define("MMA_D", quoted(is_float(variant.a) ? "f32" : "s32"));
  define("MMA_K", quoted(size_of(variant.a) == 2 ? "k16" : "k32"));
  define("MMA_BOUND", quoted(is_float(variant.a) ? "+f" : "+r"));
}

// Pixels, taps and strips of a depthwise convolution.
void Definitions::define_stencil() {
  const StencilTile tile = stencil_tile(s, epilogue.needs.stencil);
  const auto along = [&](const std::string& axis, const Stencil::Axis& of, int pixels, int strip) {
    define("PIXELS" + axis, of.pixels), define("TAPS" + axis, of.taps);
    define("STEP" + axis, of.step), define("REACH" + axis, of.reach);
    define("TILE" + axis, pixels), define("STRIP" + axis, strip);
  };
  define("STENCIL", 1);
  along("_X", epilogue.needs.stencil.x, tile.x, s.strip_x), along("_Y", epilogue.needs.stencil.y, tile.y, s.strip_y);
  const StencilMemory memory = stencil_memory(s, epilogue.needs);
  define("EPILOGUE_BYTES", memory.epilogue), define("WEIGHTS_BYTES", memory.weights);
  define("PIXELS_BYTES", memory.pixels), define("SUMS_BYTES", memory.sums),
      define("SUM_ROWS", s.ring ? tile.y * tile.x : s.bm), define("RESIDENT", resident(s, epilogue.needs));
  define("WARPS", stencil_warps), define("IMAGES", std::max(1, s.images)), define("RING", s.ring);
  define("BESIDE", s.beside), define("THREADS", threads(s));
  if (s.strips) define_direct();
  if (s.images && !s.strips) {
    const BandPixels pixels = band_pixels(s, epilogue.needs.stencil);
    define("K_BLOCKS", pixels.k_blocks), define("PIXELS_ROW", pixels.row);
    define("LOAD_ROWS", pixels.rows), define("PAIRED", pixels.paired), define("BOX_ROWS", pixels.box);
  } else {
    define("ROWS_IN_TURN", rows_in_turn(s, epilogue.needs.stencil));
  }
  define("VALUE", element(variant.a) + "_to_f32");
}

// And what a thread needs that reads them straight from memory.
void Definitions::define_direct() {
  const auto address = [&](const std::string& axis, const Stencil::Axis& of) {
    define("EXTENT" + axis, of.extent), define("FIRST" + axis, of.first);
    define("UP" + axis, of.up);
    define("STRIDE" + axis, std::to_string(of.stride) + "ll");
    define("WEIGHT_STRIDE" + axis, std::to_string(of.weight_stride) + "ll");
  };
  address("_X", epilogue.needs.stencil.x), address("_Y", epilogue.needs.stencil.y);
  define("DIRECT", 1), define("STRIPS", s.strips);
  define("COLUMNS", std::to_string(epilogue.needs.stencil.columns));
  define("IMAGE_STRIDE", std::to_string(epilogue.needs.stencil.image_stride) + "ll");
  define("PACKED_TILES", epilogue.needs.stencil.packed_tiles);
  define("CHANNEL_STRIDE", std::to_string(epilogue.needs.stencil.channel_stride) + "ll");
  define("WEIGHT_WORDS", epilogue.needs.stencil.weight_alignment >= 4);
  define("WEIGHT_CHUNKS", epilogue.needs.stencil.weight_alignment >= 16);
  define("SINGLES", epilogue.needs.stencil.singles);
}

// Rows of A and B that are no stride apart.
void Definitions::define_forms() {
  if (variant.a_form) {
    define("A_FORM", variant.a_form);
    define("A_CHUNKS", variant.a_chunks);
  }
  define("SCATTERED", variant.scattered);
  if (variant.b_form) {
    define("B_FORM", variant.b_form);
    define("B_CHUNKS", variant.b_chunks);
    define("B_DEPTH", variant.b_depth);
    define("PADDED_TAPS", variant.padded_taps);
  }
  if (!s.mma) {
    define("A_RUN", variant.a_run);
    define("A_DEPTH", variant.a_depth);
    define("B_TAPS", variant.b_taps);
    define("GROUP_COLUMNS", variant.group_columns);
    define("GROUP_K", variant.group_k);
    define("B_BOX", epilogue.needs.b_box);
  }
}

}  // namespace

std::string base_source() { return std::string(base_text) + math_text + vector_text; }

std::string row_of_image(std::int64_t image_rows) {
  return "#define ROW_OF_IMAGE(row) " +
         (image_rows ? "int(u32(row) % " + std::to_string(image_rows) + "u)" : std::string("(row)")) + "\n";
}

std::string async_source() { return async_text; }

std::string rows_source() { return std::string(agreed_rows) + rows_text; }

std::string gemm_source(const KernelVariant& variant, const Schedule& s, const EpilogueText& epilogue) {
  std::string text = "#pragma nv_diag_suppress 177\n";  // declared but never referenced: what an epilogue does not need
  Definitions definitions{variant, s, epilogue};
  definitions.define_all();
  text += definitions.text;
  text += row_of_image(variant.image_rows) + base_source();
  if (variant.a_form || variant.b_form) text += rows_source();
  text += agreed_gemm;
  text += fragment_text;
  if (!s.mma || s.ring) text += engine_text;
  if (s.mma || s.shifted) text += mma_text;
  text += s.mma ? async_source() + sm80_text : sm90_text;
  if (!s.mma) text += wgmma_text(variant, consumer_columns(s), cut_columns(s) / 2);
  text += epilogue.text;
  text += epilogue_text;
  if (s.mma) text += sm80_tile_text;
  if (!s.mma) return text + sm90_windows_text + sm90_shifted_text + sm90_loop_text + sm90_gemm_text;
  if (!s.strip_x) return text + sm80_gemm_text;
  if (s.strips) return text + stencil_direct_text + (s.images ? stencil_images_text : stencil_strips_text);
  text += s.images ? stencil_bands_text : stencil_lanes_text;
  text += stencil_text;
  text += s.ring ? stencil_ring_text : stencil_turns_text;
  return text;
}

}  // namespace postlude::inline v0::cuda
