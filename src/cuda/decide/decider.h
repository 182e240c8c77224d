// How a Decision is made. The steps are in files by what they decide: the product and how its operands lie (fuse.cpp),
// memory and what needs none (memory.cpp), kernels that run from memory (passes.cpp), what moves (traffic.cpp), and of
// each kernel its parameter block (blocks.cpp) with its tensor maps (maps.cpp). decide.cpp goes through them.
#pragma once

#include "core/divide.h"
#include "cuda/decide/filters.h"
#include "cuda/decide/product.h"
#include "cuda/emit/agreed.h"
#include "cuda/emit/generic.h"
#include "plan/traffic.h"

#include <array>
#include <functional>
#include <utility>

namespace postlude::inline v0::cuda {

class Decider {
 public:
  Decider(const Subject& subject, const Layout& layout, const Judge& judge)
      : subject_(subject),
        program_(*subject.program),
        layout_(layout),
        shape_(layout.shape),
        judge_(judge),
        given_(subject.given ? *subject.given : program_),
        given_shape_(layout.turned ? Shape{shape_.batch, shape_.n, shape_.m, shape_.k} : shape_),
        accumulator_program_(accumulator_program(program_)),
        product_phase_(product_phase(program_)),
        uses_(lower::uses_of(program_)) {}
  Decision run();

 private:
  static constexpr std::size_t map_words = 16;  // of a tensor map in a parameter block
  static std::uint64_t word(std::int64_t value) { return static_cast<std::uint64_t>(value); }
  enum class Major { k, mn, repack };
  // A buffer as kernels see it: strides in elements for b, m, n.
  struct Memory {
    Address address;
    int alignment = 16;
    std::array<std::int64_t, 3> strides{};
    bool by_value = false;
    bool in_workspace = false;  // its place there is not known before what stays in registers is
  };

  // A kernel that runs from memory.
  struct Pass {
    GenericKernel kernel;
    std::int64_t rows, columns;
    std::array<unsigned, 3> grid{1, 1, 1};
    int splits = 1, groups = 1;
  };
  struct PassMemory {
    std::int64_t partial_bytes = 0, counters = 0;
  };

  // Pieces of one workspace, 256-byte aligned.
  Address take(std::int64_t bytes) {
    const std::size_t at = std::exchange(d_.workspace, d_.workspace + static_cast<std::size_t>(round_up(bytes, 256)));
    return {Address::Of::workspace, 0, static_cast<std::int64_t>(at)};
  }
  // Pieces behind each other are cleared as one: each is an operation of the stream, also of a graph's every replay.
  Address take_cleared(std::int64_t bytes) {
    const std::size_t end = d_.workspace;
    const Address taken = take(bytes);
    const bool joins = !d_.cleared.empty() && d_.cleared.back().at + d_.cleared.back().bytes == end;
    if (!joins) d_.cleared.push_back({end, 0});
    d_.cleared.back().bytes += d_.workspace - end;
    return taken;
  }
  // decide.cpp
  // acc as an f32 or i32 output and nothing else: the product of a Program whose epilogue runs from memory.
  [[nodiscard]] static lower::Program accumulator_program(const lower::Program& of);
  // The first phase over the tiles that reads the accumulator; -1: none does.
  [[nodiscard]] static int product_phase(const lower::Program& program);
  void limits() const;
  void place_phases();

  // memory.cpp
  [[nodiscard]] bool in_place(lower::BufferId b) const { return layout_.buffers[b].in_place; }
  [[nodiscard]] std::array<std::int64_t, 3> extents(const lower::Buffer& buffer) const;  // of b, m, n
  [[nodiscard]] int home(lower::BufferId crossing) const;
  void memories();
  [[nodiscard]] DType source_type() const;
  [[nodiscard]] Memory accumulator_memory() const;
  void find_what_stays();
  void place_workspace();

  // fuse.cpp
  // Whether the copy engine walks an axis of so many elements of `size` bytes by this stride.
  [[nodiscard]] static bool map_stride(std::int64_t stride, std::int64_t size, std::int64_t extent) {
    return extent == 1 || (stride > 0 && stride * size % 16 == 0 && stride * size < std::int64_t{1} << 40);
  }
  [[nodiscard]] const agreed::WindowRows* windows() const {
    return part_ ? &part_->a : std::get_if<agreed::WindowRows>(&layout_.a_rows);
  }
  [[nodiscard]] const agreed::WindowRows* b_windows() const { return std::get_if<agreed::WindowRows>(&layout_.b_rows); }
  [[nodiscard]] int a_form() const { return part_ ? 2 : static_cast<int>(layout_.a_rows.index()); }
  [[nodiscard]] const Counted* b_k() const { return part_ ? &part_->b_k : layout_.b_k ? &*layout_.b_k : nullptr; }
  [[nodiscard]] std::int64_t output_rows() const { return shape_.m / below_; }
  // Of the product, or of one of its parts.
  [[nodiscard]] std::int64_t rows() const { return part_ ? part_->rows : output_rows(); }  // the output's
  [[nodiscard]] std::int64_t depth() const { return part_ ? part_->k : layout_.packed_k ? layout_.packed_k : shape_.k; }
  [[nodiscard]] std::int64_t batches() const { return part_ ? 1 : shape_.batch; }
  [[nodiscard]] std::int64_t b_rows() const { return layout_.beside ? columns_ : shape_.n; }  // of B along K
  [[nodiscard]] Lines lines(bool of_a) const;
  [[nodiscard]] bool shares_a() const { return shape_.batch > 1 && layout_.a.strides[0] == 0 && !variant_.a_form; }
  [[nodiscard]] Major major(const Placed& operand, DType dtype, int rows_axis, int k_axis, std::int64_t rows,
                            bool mn_allowed) const;
  [[nodiscard]] std::vector<BufferPlace> places(const lower::Program& program, const std::vector<Memory>& memory,
                                                std::int64_t columns) const;
  // Whether rows of a buffer are the fused phase's, or so many of them.
  [[nodiscard]] bool is_whole_pieces(const lower::Buffer& buffer) const;
  [[nodiscard]] bool in_order() const;
  [[nodiscard]] std::optional<Major> by_taps(const Contraction& gemm, bool mn_allowed) const;
  [[nodiscard]] bool many_boxes(int of) const;
  [[nodiscard]] Major in_groups(const Contraction& gemm, bool mn_allowed);
  [[nodiscard]] Shape product_shape(bool mma) const;
  [[nodiscard]] std::string portable_reason(const Contraction& gemm) const;
  [[nodiscard]] int apart(const Placed& operand, int rows_axis, std::int64_t rows, int least = 1) const;
  [[nodiscard]] bool plain_rows(const Contraction& gemm) const;
  [[nodiscard]] bool shift_b(const Contraction& gemm);
  void shift_a(const Contraction& gemm);
  [[nodiscard]] std::int64_t rows_of_batch() const;
  // Of A, from the first batch's first row to the last one's last.
  [[nodiscard]] std::int64_t rows_of_batches() const { return (shape_.batch - 1) * rows_of_batch() + shape_.m; }
  [[nodiscard]] double copying() const;
  void shift_where_it_pays(const std::function<void()>& arrange, const std::function<Chosen(const Judge&)>& choose);
  void arrange(const Contraction& gemm, bool mma, bool b_mn_allowed, int parts = 1);
  [[nodiscard]] bool by_padded_taps() const;
  void fuse(const Contraction& gemm);
  void multiply_alone(const Contraction& gemm);
  [[nodiscard]] std::string no_product(const std::optional<Contraction>& gemm, bool empty) const;
  [[nodiscard]] bool asks_for_a_product() const;
  void multiply(const Contraction& gemm);
  void decide_product();
  [[nodiscard]] std::array<std::int64_t, 3> plain_grid() const;
  void decide_parts();
  [[nodiscard]] agreed::GemmSizes sizes() const;
  [[nodiscard]] bool meets() const;  // whether tiles leave partial results for others
  void take_partials();
  [[nodiscard]] ErrorModel error() const;

  // passes.cpp
  [[nodiscard]] Memory as_given(Memory memory) const {
    if (layout_.turned) std::swap(memory.strides[1], memory.strides[2]);
    return memory;
  }
  [[nodiscard]] Wide wide(const std::vector<int>& phases) const;
  void shape_reduction(Pass& pass, std::int64_t (&grid)[3], PassMemory& memory) const;
  void decide_passes();
  void emit_passes(bool before);

  // traffic.cpp
  void beside(const std::string& what, std::int64_t read, std::int64_t written);
  void count_product(std::vector<Traffic>& phases) const;
  void count_pass(const GenericKernel& kernel, plan::KernelTraffic& traffic, std::vector<Traffic>& phases) const;
  void count_repacks(const Contraction& gemm);
  void count_traffic();

  // blocks.cpp
  [[nodiscard]] static agreed::Counting counting(const Counted* k);  // as kernels count it
  [[nodiscard]] std::int64_t pitch(const Contraction& gemm) const;   // of a row repacked along K, in elements
  // A or B repacked: lines along K, or along M or N as they lay.
  struct Packed {
    std::int64_t lines, length, pitch;  // elements
  };
  [[nodiscard]] Packed packed(const Contraction& gemm, bool of_a) const;
  [[nodiscard]] agreed::Counting b_counting() const {
    agreed::Counting count = layout_.b_count ? *layout_.b_count : counting(b_k());
    if (part_ && layout_.images) count.size[3] = part_->a.channels;  // behind dY's are zeros
    return count;
  }
  [[nodiscard]] Address b_address(const Contraction& gemm) const;
  Kernel& kernel(const std::shared_ptr<const std::string>& source, const std::string& name);
  const std::shared_ptr<const std::string>& plain_text();
  void describe(Kernel& kernel, std::size_t first_word, const Memory& memory) const;
  void add_rows(Kernel& k) const;
  [[nodiscard]] Address take_images(const agreed::UnpackedImages& x, std::int64_t size);
  void emit_repack_images(DType type, const agreed::UnpackedImages& x, const Address& from, const Address& to);
  void emit_compact();
  // A matrix that postlude_repack copies, several a launch.
  struct Copied {
    agreed::Unpacked matrix;
    Address from, to;
  };
  [[nodiscard]] Copied copied(const Contraction& gemm, bool of_a) const;
  void emit_copies(const Contraction& gemm, bool counted, std::vector<Copied> all);
  void emit_sides(const Contraction& gemm);
  void emit_interleave();
  void emit_repack();
  void emit_product();
  void emit_residues();
  [[nodiscard]] int columns_of_thread(const Contraction& gemm) const;
  void emit_plain_product();

  // filters.cpp
  void take_parts(int parts);
  void emit_fold(int parts);
  void emit_filters();

  // maps.cpp
  void map(Kernel& k, const Address& address, DType type, std::vector<MapField::Dimension> dimensions,
           int row_bytes) const;
  void map_pixels(Kernel& k, const agreed::WindowRows& w, DType type, const Address& from, int pixels) const;
  void map_a(Kernel& k, const Contraction& gemm, int rows) const;
  void map_b(Kernel& k, const Contraction& gemm, int rows) const;
  void map_shifted(Kernel& k, const Contraction& gemm, bool of_a, int first) const;
  void map_shifts(Kernel& k, const Contraction& gemm, int edge_a, int edge_b) const;
  void map_scattered(Kernel& k, const Address& address, DType type, std::int64_t width, std::int64_t stride,
                     int row_bytes, int rows) const;
  void map_tile(Kernel& k, DType type, const Memory& memory, const lower::ColumnMap& columns, int rows) const;

  const Subject& subject_;
  const lower::Program& program_;
  const Layout& layout_;
  const Shape shape_;
  const Judge& judge_;
  const lower::Program& given_;  // what passes run, where the product is turned
  const Shape given_shape_;
  const lower::Program accumulator_program_;
  const int product_phase_;
  Decision d_;

  const std::vector<lower::Uses> uses_;  // of the Program's buffers
  std::vector<Memory> memory_;           // of them
  std::vector<bool> lent_;               // outputs in whose memory a crossing lives

  bool stream_ = false;
  std::int64_t most_shifted_ = 64;         // rows of A by a B that is read as it lies: a tile's
  bool shifts_a_ = false;                  // A is
  const KernelPart* part_ = nullptr;       // which of the layout's is decided on or emitted; none: it has none
  int first_tile_ = 0, launch_tiles_ = 0;  // of a residue in its launch, and of all in it
  std::string rows_portable_;              // why A's rows take the portable kernel on Hopper
  std::int64_t columns_ = 0;               // of the fused phase
  int below_ = 1;                          // of the product, rows of a row of it
  std::optional<Product> product_;
  KernelVariant variant_;
  Address packed_a_, packed_b_, packed_images_, padded_, accumulator_;
  std::vector<Address> packed_parts_;
  std::vector<Address> partials_;   // of the product's reductions
  Address counters_;                // of blocks, or of tile rows
  std::optional<Filters> filters_;  // instead of a product
  int plain_parts_ = 1;             // of the K of a product on ordinary units
  Address k_parts_;                 // accumulators of these
  Address parts_[part_words];       // of split tiles, which meet in memory: accumulators, how many are there
  GenericSource generic_;
  std::shared_ptr<const std::string> generic_text_, plain_text_;
  std::vector<Pass> passes_;
  Address generic_partials_, generic_counters_;
};

}  // namespace postlude::inline v0::cuda
