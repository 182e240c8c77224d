#include "lower/flow.h"

#include <algorithm>

namespace postlude::inline v0::lower {

void Flow::edge(std::int32_t from, std::int32_t to, std::int64_t capacity) {
  edges_.push_back({to, head_[from], capacity});
  head_[from] = static_cast<std::int32_t>(edges_.size()) - 1;
  edges_.push_back({from, head_[to], 0});
  head_[to] = static_cast<std::int32_t>(edges_.size()) - 1;
}

bool Flow::levels(std::int32_t source, std::int32_t sink) {
  level_.assign(head_.size(), -1);
  std::vector<std::int32_t> queue = {source};
  level_[source] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (std::int32_t e = head_[queue[i]]; e >= 0; e = edges_[e].next) {
      if (edges_[e].capacity == 0 || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[queue[i]] + 1;
      queue.push_back(edges_[e].to);
    }
  }
  return level_[sink] >= 0;
}

// One path of the level graph, walked with an explicit stack of edges.
std::int64_t Flow::augment(std::int32_t source, std::int32_t sink) {
  std::vector<std::int32_t> path;
  std::int32_t at = source;
  while (at != sink) {
    std::int32_t& e = cursor_[at];
    while (e >= 0 && (edges_[e].capacity == 0 || level_[edges_[e].to] != level_[at] + 1)) e = edges_[e].next;
    if (e >= 0) {
      path.push_back(e);
      at = edges_[e].to;
    } else if (path.empty()) {
      return 0;
    } else {  // a dead end: back, and past the edge that led here
      at = edges_[path.back() ^ 1].to;
      cursor_[at] = edges_[path.back()].next;
      path.pop_back();
    }
  }
  std::int64_t amount = infinite;
  for (std::int32_t e : path) amount = std::min(amount, edges_[e].capacity);
  for (std::int32_t e : path) {
    edges_[e].capacity -= amount;
    edges_[e ^ 1].capacity += amount;
  }
  return amount;
}

std::int64_t Flow::maximise(std::int32_t source, std::int32_t sink) {
  std::int64_t total = 0;
  while (total < infinite && levels(source, sink)) {
    cursor_ = head_;
    while (const std::int64_t amount = augment(source, sink)) {
      total += amount;
      if (total >= infinite) break;
    }
  }
  return total;
}

std::vector<char> Flow::sink_side(std::int32_t sink) const {
  std::vector<char> side(head_.size(), 0);
  std::vector<std::int32_t> queue = {sink};
  side[sink] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (std::int32_t e = head_[queue[i]]; e >= 0; e = edges_[e].next) {
      // The edge e leaves queue[i]; its twin comes in.
      if (edges_[e ^ 1].capacity == 0 || side[edges_[e].to]) continue;
      side[edges_[e].to] = 1;
      queue.push_back(edges_[e].to);
    }
  }
  return side;
}

}  // namespace postlude::inline v0::lower
