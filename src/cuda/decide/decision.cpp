#include "cuda/decide/decision.h"

#include "core/fast.h"

#include <postlude/error.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

Placed placed(const Bound& bound) {
  Placed result;
  result.by_value = bound.by_value;
  if (bound.by_value) return result;
  result.strides = bound.strides, result.in_place = bound.in_place;
  const auto address = reinterpret_cast<std::uintptr_t>(bound.data) % 16;
  if (address) result.alignment = 1 << std::countr_zero(address);
  return result;
}

}  // namespace

Layout layout_of(const Bindings& bindings, const lower::Program& program) {
  const Shape& shape = bindings.shape;
  const Addressing& addressing = bindings.addressing;
  Layout layout;
  layout.shape = shape, layout.groups = addressing.groups;
  layout.a = placed(bindings.a), layout.b = placed(bindings.b);
  layout.a_rows = rows_of(addressing.a, bindings.a, shape.m, shape.k);
  layout.b_rows = rows_of(addressing.b, bindings.b, shape.k, shape.n);
  layout.parts = parts_of(addressing);
  if (const auto stride = row_stride(layout.a_rows)) {
    const auto& windows = std::get<agreed::WindowRows>(layout.a_rows);
    layout.a.strides = {windows.image_stride, *stride, windows.channels > 1 ? windows.channel_stride : 0};
    layout.a_rows = {};
  }
  // A weight gradient of one tap, whose images follow each other: a plain product over all pixels (decision 0253). Of
  // other types ordinary units add up parts of windows.
  const bool of_16_bits = bindings.a.dtype == bindings.b.dtype && size_of(bindings.b.dtype) == 2;
  if (const auto stride = row_stride(layout.b_rows); stride && layout.groups.count <= 1 && of_16_bits) {
    const auto& windows = std::get<agreed::WindowRows>(layout.b_rows);
    const std::int64_t pixels = windows.images > 0 ? shape.k / windows.images : 0;
    if (windows.images == 1 || pixels == 1 || windows.image_stride == pixels * *stride) {
      layout.b.strides = {0, pixels == 1 ? windows.image_stride : *stride,
                          windows.channels > 1 ? windows.channel_stride : 0};
      layout.b_rows = {};
    }
  }
  const auto count = [](const postlude::Address& address, std::int64_t& stride, std::optional<Counted>& k) {
    const auto* counted = std::get_if<Counted>(&address);
    if (!counted) return;
    if (const auto one = joined(*counted)) stride = *one;
    else k = *counted;
  };
  count(addressing.a, layout.a.strides[2], layout.a_k);
  count(addressing.b, layout.b.strides[1], layout.b_k);
  for (std::int32_t i = 0; i < program.bound(); ++i) layout.buffers.push_back(placed(bindings.buffers[i]));
  return layout;
}

Layout usual_layout(const Problem& problem, const lower::Program& program, const Shape& shape) {
  const auto contiguous = [&](std::int64_t rows, std::int64_t columns, bool along_rows) {
    Placed result;
    const std::int64_t row = along_rows ? 1 : columns, column = along_rows ? rows : 1;
    result.strides = {shape.batch > 1 ? rows * columns : 0, rows > 1 ? row : 0, columns > 1 ? column : 0};
    return result;
  };
  Layout layout;
  layout.shape = shape;
  if (const auto gemm = problem.loop().contraction()) {
    // A weight gradient's is dY, whose filters lie side by side.
    layout.a =
        contiguous(shape.m, shape.k, gemm->a_layout == postlude::Layout::mn_major || gemm->a_form == Form::counted);
    layout.b = contiguous(shape.k, shape.n, gemm->b_layout != postlude::Layout::mn_major);
    layout.a_rows = usual_rows(gemm->a_form, shape.batch, shape.m, shape.k);
    layout.b_rows = usual_rows(gemm->b_form, 1, shape.k, shape.n);
  } else {
    layout.a = contiguous(shape.m, shape.n, false);
  }
  for (std::int32_t i = 0; i < program.bound(); ++i) {
    const lower::Buffer& buffer = program.buffers[i];
    Placed one = contiguous(buffer.axes.has(Axis::m) ? buffer.rows.at(shape.m) : 1,
                            buffer.axes.has(Axis::n) ? buffer.columns.at(shape.n) : 1, false);
    if (!buffer.axes.has(Axis::b)) one.strides[0] = 0;
    one.by_value = i >= program.operands + program.outputs;
    layout.buffers.push_back(one);
  }
  return layout;
}

const Considered* Decision::chosen() const {
  const auto found = std::find_if(considered.begin(), considered.end(),
                                  [](const Considered& c) { return c.verdict == Considered::Verdict::chosen; });
  return found == considered.end() ? nullptr : &*found;
}

std::string Decision::by() const {
  return turned ? "turned " : std::string(by_groups ? "by groups " : "") + (fused ? "" : "accumulator by ");
}

std::string Decision::describe() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (const Considered* c = chosen()) {
    std::string line = by() + to_string(c->schedule);
    if (!c->held_for.empty()) line += ", held for its " + c->held_for;
    if (repack_a) line += ", A repacked";
    if (repack_b) line += ", B repacked";
    if (repack_images) line += ", images repacked";
    if (folded) line += ", tiles cross images";
    if (patches) line += ", rows of patches are pixels";
    if (residues_share) line += ", residues share a launch";
    add(line);
  } else if (!on_ordinary_units.empty()) {
    add(on_ordinary_units + (repack_images ? ", images repacked" : ""));
  }
  for (const auto* list : {&not_fused, &considered}) {
    for (const Considered& c : *list) {
      if (c.verdict == Considered::Verdict::rejected) add("not " + to_string(c.schedule) + ": " + c.reason);
    }
  }
  if (!portable.empty()) add(portable);
  if (product && !fused) add("epilogue from memory: " + why);
  if (fast) add("accumulates fast");
  if (passes) add(std::to_string(passes) + " passes over memory");
  return text;
}

bool is_empty(const Subject& subject, const Shape& shape) {
  const bool multiplies = subject.problem.loop().contraction().has_value();
  return shape.batch == 0 || shape.m == 0 || shape.n == 0 || (multiplies && shape.k == 0);
}

std::string Request::words() const {
  return std::string(fast ? "fast " : "") + (by_groups ? "by groups " : "") +
         (turned           ? "turned "
          : through_memory ? "accumulator by "
                           : "");
}

Error not_legal(const Request& request, const std::string& why, const std::string& hint) {
  return {ErrorCode::bad_schedule, "the schedule \"" + request.text + "\" is not legal here: " + why, hint};
}

// Whether a text begins with this word, which is taken from it then.
static bool take(std::string_view& text, std::string_view word) {
  if (text != word && !(text.starts_with(word) && text[word.size()] == ' ')) return false;
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return true;
}

Request parse_request(std::string_view text, bool hopper, const std::string& arch) {
  constexpr std::string_view turned = "turned", groups = "by groups", accumulator = "accumulator";
  Request request;
  request.text = text;
  std::string_view rest = text;
  request.fast = take(rest, core::fast_word);
  request.by_groups = take(rest, groups);
  request.turned = !request.by_groups && take(rest, turned);
  request.through_memory = !request.turned && take(rest, accumulator);
  const bool by = request.through_memory && !rest.starts_with(groups);
  if (by && !rest.empty() && (!take(rest, "by") || rest.empty()))
    throw unreadable(text, "behind \"accumulator\" is nothing, or \"by\" and a schedule");
  for (const auto& [word, taken] :
       {std::pair(core::fast_word, request.fast), std::pair(turned, request.turned),
        std::pair(groups, request.by_groups), std::pair(accumulator, request.through_memory)}) {
    if (std::string_view behind = rest; !take(behind, word)) continue;
    throw unreadable(text, taken                     ? postlude::quoted(word) + " stands twice"
                           : word == core::fast_word ? "\"fast\" stands before all else"
                           : word == groups || request.by_groups
                               ? "\"by groups\" stands before \"accumulator\", and not beside \"turned\""
                               : "\"turned\" and \"accumulator\" exclude each other");
  }
  request.mma = !hopper || rest.starts_with("mma");
  if (!rest.empty() && rest != "mma") request.schedule = parse_schedule(rest);
  if (request.schedule && !request.schedule->strip_x && request.schedule->mma != request.mma) {
    throw Error(ErrorCode::bad_schedule,
                "the schedule \"" + request.text + "\" is for Hopper, and the target is " + arch,
                "Begin it with mma, or leave the choice to the heuristic.");
  }
  return request;
}

}  // namespace postlude::inline v0::cuda
