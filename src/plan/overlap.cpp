#include "plan/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace postlude::inline v0::plan {
namespace {

// coefficient * z with z in [0, range].
struct Term {
  std::int64_t coefficient;
  std::int64_t range;
};

struct Search {
  std::vector<Term> terms;              // by descending coefficient, all positive
  std::vector<std::int64_t> remaining;  // the most that terms i and later can add
  int steps = 1 << 14;

  // Whether the terms from `i` on can add up to something in [low, high]. As deep as there are terms: eight at most.
  bool reaches(std::size_t i, std::int64_t low, std::int64_t high) {
    if (high < 0 || low > remaining[i]) return false;
    if (i == terms.size()) return true;  // low <= 0 <= high
    if (--steps < 0) return true;
    const auto [coefficient, range] = terms[i];
    const std::int64_t most = std::min(range, high / coefficient);
    const std::int64_t missing = low - remaining[i + 1];
    const std::int64_t least = missing <= 0 ? 0 : (missing + coefficient - 1) / coefficient;
    for (std::int64_t z = most; z >= least; --z) {
      if (reaches(i + 1, low - z * coefficient, high - z * coefficient)) return true;
    }
    return false;
  }
};

}  // namespace

Footprint footprint(const Tensor& tensor) {
  Footprint result;
  result.base = reinterpret_cast<std::uintptr_t>(tensor.data);
  result.element = size_of(tensor.dtype);
  result.empty = tensor.by_value;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) result.empty = true;
    if (tensor.shape[axis] <= 1) continue;
    result.dims[result.rank++] = {tensor.shape[axis], tensor.strides[axis] * result.element};
  }
  return result;
}

bool overlap(const Footprint& a, const Footprint& b) {
  if (a.empty || b.empty) return false;
  // address in a - address in b = base + sum of terms; the elements meet where that is in (-a.element, b.element).
  std::int64_t base = static_cast<std::int64_t>(a.base - b.base);
  Search search;
  const auto add = [&](std::int64_t coefficient, std::int64_t range) {
    if (coefficient < 0) {
      base += coefficient * range;
      coefficient = -coefficient;
    }
    if (coefficient == 0) return;
    const auto same = std::find_if(search.terms.begin(), search.terms.end(),
                                   [&](const Term& term) { return term.coefficient == coefficient; });
    if (same != search.terms.end()) same->range += range;
    else search.terms.push_back({coefficient, range});
  };
  for (int i = 0; i < a.rank; ++i) add(a.dims[i].stride, a.dims[i].extent - 1);
  for (int i = 0; i < b.rank; ++i) add(-b.dims[i].stride, b.dims[i].extent - 1);
  std::sort(search.terms.begin(), search.terms.end(),
            [](const Term& x, const Term& y) { return x.coefficient > y.coefficient; });
  search.remaining.assign(search.terms.size() + 1, 0);
  for (std::size_t i = search.terms.size(); i-- > 0;) {
    search.remaining[i] = search.remaining[i + 1] + search.terms[i].coefficient * search.terms[i].range;
  }
  return search.reaches(0, -a.element + 1 - base, b.element - 1 - base);
}

std::vector<std::pair<std::size_t, std::size_t>> near(const std::vector<Footprint>& views) {
  struct Span {
    std::uintptr_t first, last;  // bytes
    std::size_t view;
  };
  std::vector<Span> spans;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].empty) continue;
    Span span{views[i].base, views[i].base + static_cast<std::uintptr_t>(views[i].element - 1), i};
    for (int axis = 0; axis < views[i].rank; ++axis) {
      const auto reach = (views[i].dims[axis].extent - 1) * views[i].dims[axis].stride;
      (reach < 0 ? span.first : span.last) += static_cast<std::uintptr_t>(reach);
    }
    spans.push_back(span);
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.first < b.first; });
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<Span> open;  // those that reach to the view at hand
  for (const Span& span : spans) {
    std::erase_if(open, [&](const Span& before) { return before.last < span.first; });
    for (const Span& before : open) {
      pairs.emplace_back(before.view, span.view);
      pairs.emplace_back(span.view, before.view);
    }
    open.push_back(span);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

bool overlaps_itself(const Footprint& a) {
  if (a.empty) return false;
  std::vector<Footprint::Dim> dims(a.dims.begin(), a.dims.begin() + a.rank);
  std::sort(dims.begin(), dims.end(),
            [](const auto& x, const auto& y) { return std::abs(x.stride) < std::abs(y.stride); });
  std::int64_t spanned = a.element;
  for (int i = 0; i < a.rank; ++i) {
    if (std::abs(dims[i].stride) < spanned) return true;
    spanned += (dims[i].extent - 1) * std::abs(dims[i].stride);
  }
  return false;
}

}  // namespace postlude::inline v0::plan
