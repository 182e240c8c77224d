// A minimum cut of a directed graph with a source and a sink (Dinic's algorithm, without
// recursion).
#pragma once

#include <cstdint>
#include <vector>

namespace postlude::inline v0::lower {

class Flow {
 public:
  static constexpr std::int64_t infinite = std::int64_t{1} << 60;

  explicit Flow(std::int32_t nodes) : head_(nodes, -1) {}
  void edge(std::int32_t from, std::int32_t to, std::int64_t capacity);
  // Returns the value; infinite or more where no finite cut exists.
  std::int64_t maximise(std::int32_t source, std::int32_t sink);
  // After maximise: the nodes from which the sink can still be reached. The edges into them are the
  // latest minimum cut.
  [[nodiscard]] std::vector<char> sink_side(std::int32_t sink) const;

 private:
  struct Edge {
    std::int32_t to, next;
    std::int64_t capacity;
  };
  std::vector<std::int32_t> head_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> level_, cursor_;

  bool levels(std::int32_t source, std::int32_t sink);
  std::int64_t augment(std::int32_t source, std::int32_t sink);
};

}  // namespace postlude::inline v0::lower
