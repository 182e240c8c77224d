// An output that several products fill: groups of channels, and residues of a strided data gradient (decision 0071).
// Their accumulators are put together in shared scratch, and handed on by whole rows. Groups of few filters, such as
// those of depthwise convolutions, have a kernel along the filters of all groups instead (decision 0252).
#pragma once

#include "cpu/product/filter_gradient.h"
#include "cpu/product/gemm.h"
#include "cpu/product/turned.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cpu {

class Assembly {
 public:
  // `whole` is a batch's product. With `again` it runs for several batches, and B, which all share, is packed once a
  // call. No memory is taken yet.
  Assembly(const ProductShape& whole, const Addressing& addressing, bool parts, Isa isa, bool again);
  void allocate();
  [[nodiscard]] std::int64_t packed_bytes() const;

  // Of all together, as run() of one product wants it.
  [[nodiscard]] const Blocking& blocking() const { return blocking_; }
  [[nodiscard]] bool depthwise() const { return !depthwise_.empty(); }
  [[nodiscard]] std::string text() const;  // "9 products put together"

  // What all batches share; before each call's first run().
  void pack(const Product& whole, int threads, char* scratch, std::size_t scratch_stride);
  // `batch` counts the products that are alike, of which `whole` is one.
  void run(const Product& whole, std::int64_t batch, const RunOptions& options) const;

 private:
  // A part of one group.
  struct Sub {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_offset = 0, b_offset = 0;  // elements
    std::int64_t row0 = 0, column0 = 0;       // in the output, of a group
    Address a, b;
    const Residue* part = nullptr;
    Blocking blocking;
    std::optional<PackedB> packed;
  };
  // A part of all groups, which are narrow.
  struct Depthwise {
    Address a;  // windows, or strides
    Address b;
    std::int64_t b_first = 0;
    const Residue* part = nullptr;
    std::vector<float> weights;          // as DepthwiseRun has them
    std::optional<TurnedStrips> turned;  // of channels that lie apart
  };

  [[nodiscard]] bool is_depthwise(const ProductShape& whole, const Addressing& addressing) const;
  void add_depthwise(const ProductShape& whole, const Addressing& addressing, bool parts);
  [[nodiscard]] Sub sub_of(std::int64_t group, const ProductShape& whole, const Addressing& addressing) const;
  void add(Sub sub, const ProductShape& whole, bool again);
  [[nodiscard]] Product product_of(const Sub& sub, const Product& whole, std::int64_t batch) const;
  void pack(Depthwise& depthwise, const Product& whole, char* scratch) const;
  [[nodiscard]] DepthwiseRun run_of(const Depthwise& depthwise, const Product& whole) const;
  [[nodiscard]] std::int64_t weights_of(const Depthwise& d) const;  // elements
  [[nodiscard]] std::int64_t zero_bytes() const;

  struct Filling;
  static void fill(void* context, const FinishedBlock& block);
  // Rows of the output, natural columns. They are the consumer's from here on.
  void hand_on(const RunOptions& options, int thread, std::int64_t row, std::int64_t rows, std::uint32_t* acc) const;
  void hand_on_all(const RunOptions& options) const;
  void run(const Depthwise& depthwise, const Product& whole, std::int64_t batch, const RunOptions& options) const;

  Isa isa_;
  const Kernels* kernels_;  // of f32 words where the products are f32
  std::int64_t m_, n_;
  Pieces pieces_;
  Groups groups_;
  std::vector<Residue> parts_;
  std::vector<Sub> subs_;
  std::vector<Depthwise> depthwise_;
  std::optional<FilterGradient> gradient_;
  std::int64_t channels_ = 1;                      // of a narrow group
  std::vector<FilterVector> vectors_;              // of narrow groups
  std::array<unsigned char, 16> lane_{};           // of a vector
  std::vector<char> zeros_;                        // of a depthwise pixel
  bool all_rows_ = true;                           // every row belongs to a part
  std::int64_t acc_row_ = 0;                       // of the accumulators
  std::int64_t piece_stride_ = 0, block_row_ = 0;  // of a block that is handed on in pieces
  std::size_t acc_bytes_ = 0;                      // all accumulators, in shared scratch; 0: they stay with a thread
  // In a thread's scratch: what is handed on in pieces, a depthwise block's accumulators, addresses and turned strip.
  std::size_t piece_bytes_ = 0, block_bytes_ = 0, strip_offset_ = 0;
  Blocking blocking_;
};

}  // namespace postlude::inline v0::cpu
