// What is chosen for the stages of a schedule that nobody wrote, from how each reads memory; on a GPU also from sizes,
// where these are known.
#pragma once

#include "te/schedule.h"

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace postlude::inline v0::te {

// Threads of a block, and columns of one that joins parts; how long a row one block reduces where there are no sizes.
inline constexpr std::int64_t gpu_threads = 256, gpu_columns = 32, gpu_row = 32768;

// Whether memory is consecutive along reduced axes, by the last index of most reads.
[[nodiscard]] bool reads_along_reduced(const OperationNode& op);

class Choice {
 public:
  Choice(Schedule& s, const Target& target, const Sizes& sizes, bool dense)
      : s_(s), gpu_(target.device == Device::cuda), sizes_(sizes), dense_(dense) {}
  void run();

 private:
  using Reads = std::vector<std::pair<Tensor, std::vector<Tensor>>>;

  [[nodiscard]] Tensor tensor(const Stage& stage) const { return Tensor(stage.node()->origin, 0); }
  static void bind(Stage& stage, const Axis& axis, const char* tag) { stage.bind(axis, thread_axis(tag)); }

  // choose.cpp: which stages are computed together
  void inline_stages(const std::vector<StagePtr>& stages);
  [[nodiscard]] StagePtr window_consumer(const StageNode& stage) const;
  [[nodiscard]] StagePtr row_consumer(const StageNode& stage) const;
  [[nodiscard]] bool is_row_of_block(const OperationNode& op) const;
  void share_row(const StagePtr& stage, const StagePtr& consumer);
  void hold_rows(const std::vector<StagePtr>& stages);
  [[nodiscard]] Reads row_reads(const std::vector<StagePtr>& stages, const StagePtr& at, std::size_t rows) const;
  static bool is_row(const ExprNode& read, const OperationNode& reader, std::size_t rows);
  [[nodiscard]] Axis place_of_window(const StageNode& consumer) const;
  Axis fused(Stage& stage, std::size_t count);

  // choose_cpu.cpp
  void elements(Stage& stage);
  static void inside(Stage& stage, const Axes& reduced, const Axes& inner);
  void in_order(Stage& stage);
  void rows_on_cpu(Stage& stage);
  void reduction_on_cpu(Stage& stage);
  void columns_on_cpu(Stage stage, const Tensor& result, std::size_t count);
  [[nodiscard]] Axis few_beside_results(const OperationNode& op) const;

  // choose_gpu.cpp
  [[nodiscard]] std::optional<std::int64_t> size(const Expr& extent) const;
  [[nodiscard]] std::optional<std::int64_t> size(const Axes& axes) const;
  [[nodiscard]] std::int64_t neighbours(const Stage& stage, const Axis& along) const;
  [[nodiscard]] std::int64_t threads(const std::optional<std::int64_t>& row, std::int64_t wide) const;
  static std::int64_t short_lanes(std::int64_t row, std::int64_t wide);
  static std::int64_t parts(std::int64_t busy, std::int64_t others, std::int64_t most);
  static void blocks(Stage& stage, const Axes& axes, std::int64_t together = 1);
  static Axes with(Axes axes, const Axis& last);
  static Axes without_last(Axes axes);
  void elements_on_gpu(Stage& stage);
  static Axis lanes_along(Stage& stage, const Axis& axis, std::int64_t wide, std::int64_t lanes);
  void window_on_gpu(Stage& stage);
  void reduction_on_gpu(Stage& stage);
  void rows_on_gpu(Stage& stage);
  void row_on_gpu(Stage& stage, std::int64_t wide, std::int64_t lanes, bool within = false, std::int64_t together = 1);
  void columns_on_gpu(Stage& stage);
  void column_on_gpu(Stage& stage, const Axes& axes, std::int64_t wide, std::int64_t lanes);
  void parts_on_gpu(Stage& stage);

  Schedule& s_;
  bool gpu_;
  const Sizes& sizes_;
  bool dense_;                                              // whether the last two axes of all arrays lie side by side
  std::unordered_map<const StageNode*, StagePtr> by_rows_;  // whose rows some elementwise stage computes with its own
  struct Block {
    std::size_t rows = 0;    // so many axes say which row it is
    std::int64_t lanes = 0;  // its threads
  };
  std::unordered_map<const StageNode*, Block> blocks_;  // of such stages on a GPU
  std::vector<std::pair<Tensor, StagePtr>> copies_;     // of rows in shared memory, and for whom
};

}  // namespace postlude::inline v0::te
