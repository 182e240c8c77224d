#include "te/convolution.h"

#include "loop/main_loop.h"
#include "te/linear.h"

#include <algorithm>

namespace postlude::inline v0::te {
namespace {

constexpr std::int64_t most_shift = 1 << 20;

// An index as a sum of axes with factors and a constant; nothing where it is another.
struct Affine {
  std::vector<std::pair<AxisPtr, std::int64_t>> terms;
  std::int64_t constant = 0;
};
std::optional<Affine> affine(const Expr& index) {
  const Polynomial p = polynomial(index);
  Affine result{{}, p.constant};
  for (const Polynomial::Term& term : p.terms) {
    if (term.atoms.size() != 1 || term.atoms[0]->kind != ExprNode::Kind::axis) return {};
    result.terms.emplace_back(term.atoms[0]->axis, term.factor);
  }
  return result;
}

// where(a & b, X[...], 0): what is read, and the conditions.
const ExprNode* read_of(const Expr& x, std::vector<Expr>& conditions) {
  if (x->kind == ExprNode::Kind::read) return x.node().get();
  if (x->kind != ExprNode::Kind::operation || x->op != Op::where) return nullptr;
  const Expr& otherwise = x->args[2];
  if (otherwise->kind != ExprNode::Kind::constant || otherwise->value.value() != 0) return nullptr;
  split_and(x->args[0], conditions);
  return read_of(x->args[1], conditions);
}

// With the elements of elementwise stages where they are read, such as of one that pads; nothing
// where such a stage rounds what it stores.
std::optional<Expr> inlined(Expr x, const ScheduleNode& schedule) {
  for (bool again = true; again;) {
    again = false;
    bool rounds = false;
    x = substitute(x, {}, [&](const ExprNode& read, std::vector<Expr> index) {
      const StagePtr stage = stage_of(schedule, read.tensor);
      if (!stage || stage->op->reduction()) return Tensor(read.tensor, read.component).at(std::move(index));
      const auto component = static_cast<std::size_t>(read.component);
      rounds |= stage->op->body[component]->type != stage->op->dtypes[component];
      Substitution at;
      for (std::size_t d = 0; d < index.size(); ++d) at[stage->op->axes[d].get()] = index[d];
      again = true;
      return substitute(stage->op->body[component], at);
    });
    if (rounds) return {};
  }
  return x;
}

// What one expression is, found index by index.
class Finding {
 public:
  Finding(const OperationNode& op, const ExprNode& x, const ExprNode& w) : op_(op), x_(x), w_(w) {}

  std::optional<Convolution> run(const std::vector<Expr>& conditions) {
    for (const AxisPtr& axis : op_.reduce_axes)
      if (!same(axis->begin, 0)) return {};
    for (std::size_t d = 0; d < x_.args.size(); ++d)
      if (!x_index(static_cast<int>(d))) return {};
    if (taps_ == 0 || conv_.spatial.size() > 3) return {};
    for (const AxisPtr& axis : op_.reduce_axes)
      if (place(op_.reduce_axes, axis) >= 0 && !used_.count(axis.get())) return {};
    if (!w_indices() || !y_axes()) return {};
    for (const Expr& condition : conditions)
      if (!guards(condition)) return {};
    std::sort(conv_.spatial.begin(), conv_.spatial.end(), [](const auto& a, const auto& b) { return a.y < b.y; });
    return conv_;
  }

 private:
  static int place(const std::vector<AxisPtr>& axes, const AxisPtr& axis) {
    const auto found = std::find(axes.begin(), axes.end(), axis);
    return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
  }
  static bool is_whole(const Expr& extent, const ExprNode& read, int d) {
    return same(extent, read.tensor->shape[static_cast<std::size_t>(d)]);
  }
  // W is read at axes by themselves.
  [[nodiscard]] int w_axis(const AxisPtr& axis) const {
    for (std::size_t d = 0; d < w_.args.size(); ++d)
      if (w_.args[d]->kind == ExprNode::Kind::axis && w_.args[d]->axis == axis) return static_cast<int>(d);
    return -1;
  }

  bool x_index(int d) {
    const auto index = affine(x_.args[static_cast<std::size_t>(d)]);
    if (!index || index->terms.empty() || index->terms.size() > 2) return false;
    AxisPtr pixel, tap;
    Convolution::Spatial spatial;
    for (const auto& [axis, factor] : index->terms) {
      if (factor < 1 || factor > most_shift || !used_.emplace(axis.get(), d).second) return false;
      if (place(op_.axes, axis) >= 0) pixel = axis, spatial.stride = static_cast<std::int32_t>(factor);
      else if (place(op_.reduce_axes, axis) >= 0) tap = axis, spatial.dilation = static_cast<std::int32_t>(factor);
      else return false;
    }
    const bool plain = index->terms.size() == 1 && index->terms[0].second == 1 && index->constant == 0;
    if (!pixel) {  // a channel
      if (!plain || conv_.channel_x >= 0 || !is_whole(tap->extent, x_, d)) return false;
      conv_.channel_x = d;
      conv_.channel_w = w_axis(tap);
      return conv_.channel_w >= 0;
    }
    if (plain && conv_.batch_x < 0 && w_axis(pixel) < 0 && is_whole(pixel->extent, x_, d)) {
      conv_.batch_x = d;
      conv_.batch_y = place(op_.axes, pixel);
      return true;
    }
    if (std::abs(index->constant) > most_shift || w_axis(pixel) >= 0) return false;
    spatial.x = d;
    spatial.y = place(op_.axes, pixel);
    spatial.shift = index->constant;
    if (tap && (spatial.w = w_axis(tap)) < 0) return false;
    taps_ += tap != nullptr;
    conv_.spatial.push_back(spatial);
    return true;
  }

  // Each index of W is a channel, a tap or a filter, and goes over its whole axis.
  bool w_indices() {
    std::vector<bool> known(w_.args.size());
    if (conv_.channel_w >= 0) known[static_cast<std::size_t>(conv_.channel_w)] = true;
    for (const auto& spatial : conv_.spatial)
      if (spatial.w >= 0) known[static_cast<std::size_t>(spatial.w)] = true;
    for (std::size_t d = 0; d < w_.args.size(); ++d) {
      const Expr& index = w_.args[d];
      if (index->kind != ExprNode::Kind::axis || !is_whole(index->axis->extent, w_, static_cast<int>(d))) return false;
      if (known[d]) continue;
      if (conv_.filter_w >= 0 || place(op_.axes, index->axis) < 0 || used_.count(index->axis.get())) return false;
      conv_.filter_w = static_cast<int>(d);
      conv_.filter_y = place(op_.axes, index->axis);
      used_.emplace(index->axis.get(), -1);
    }
    return true;
  }
  bool y_axes() {
    return std::all_of(op_.axes.begin(), op_.axes.end(), [&](const AxisPtr& axis) { return used_.count(axis.get()); });
  }

  // A condition may only keep an index within X.
  bool guards(const Expr& condition) {
    const std::vector<Expr> bounds = at_least_zero(condition);
    return bounds.size() == 1 && std::any_of(conv_.spatial.begin(), conv_.spatial.end(), [&](auto& spatial) {
             const auto d = static_cast<std::size_t>(spatial.x);
             const bool below = same(bounds[0], x_.args[d]),
                        above = same(bounds[0], x_.tensor->shape[d] - Expr(1) - x_.args[d]);
             spatial.guarded_below |= below;
             spatial.guarded_above |= above;
             return below || above;
           });
  }

  const OperationNode& op_;
  const ExprNode &x_, &w_;
  Convolution conv_;
  std::map<const AxisNode*, int> used_;
  int taps_ = 0;
};

template <std::size_t Rank>
Problem problem_of(const Convolution& c, const std::vector<std::array<std::int32_t, 2>>& padding) {
  Conv<Rank> conv;
  conv.x = c.x_type;
  conv.w = c.w_type;
  for (std::size_t d = 0; d < Rank; ++d) {
    conv.stride[d] = c.spatial[d].stride;
    conv.dilation[d] = c.spatial[d].dilation;
    conv.padding[d] = padding[d];
  }
  return conv;
}

v0::Tensor viewed(const v0::Tensor& array, const std::vector<int>& axes) {
  v0::Tensor result = array;
  result.rank = 0;
  for (const int axis : axes) {
    const auto to = static_cast<std::size_t>(result.rank++);
    result.shape[to] = axis < 0 ? 1 : array.shape[static_cast<std::size_t>(axis)];
    result.strides[to] = axis < 0 ? 0 : array.strides[static_cast<std::size_t>(axis)];
  }
  return result;
}

}  // namespace

Problem Convolution::problem(const Padding& padding) const {
  if (spatial.size() == 1) return problem_of<1>(*this, padding);
  return spatial.size() == 2 ? problem_of<2>(*this, padding) : problem_of<3>(*this, padding);
}

Graph Convolution::graph() const {
  GraphBuilder builder("convolution");
  builder.output("D", builder.accumulator(), y_type);
  return builder.finish();
}

const Plan& Convolution::plan(const Padding& padding) const {
  const std::scoped_lock lock(plans_->mutex);
  const auto found = plans_->made.find(padding);
  if (found != plans_->made.end()) return found->second;
  return plans_->made.emplace(padding, compile(problem(padding), graph(), target)).first->second;
}

bool Convolution::is_supported() const {
  return static_cast<bool>(supports(problem(Padding(spatial.size())), graph(), target));
}

std::string Convolution::explain() const {
  Padding padding;
  for (const Spatial& s : spatial) {
    const auto before = static_cast<std::int32_t>(std::max<std::int64_t>(-s.shift, 0));
    padding.push_back({before, s.guarded_above ? before : 0});
  }
  return "it runs on the main loop " + std::string(problem(padding).loop().name()) +
         ", because no call schedules it\n" + plan(padding).explain();
}

bool Convolution::run(std::span<const v0::Tensor> arrays, void* stream) const {
  const v0::Tensor &xs = arrays[static_cast<std::size_t>(x)], &ws = arrays[static_cast<std::size_t>(w)],
                   &ys = arrays[static_cast<std::size_t>(y)];
  if (xs.elements() == 0 || ws.elements() == 0 || ys.elements() == 0) return false;
  std::vector<int> x_axes{batch_x, channel_x}, w_axes{filter_w, channel_w};
  for (const Spatial& s : spatial) {
    x_axes.push_back(s.x);
    w_axes.push_back(s.w);
  }
  v0::Tensor image = viewed(xs, x_axes);
  const v0::Tensor filter = viewed(ws, w_axes);
  // How many zeros an axis has, or how much of the image nothing reads.
  Padding padding;
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    const Spatial& s = spatial[d];
    const std::int64_t shift = std::max<std::int64_t>(s.shift, 0), before = shift - s.shift;
    image.data = static_cast<char*>(image.data) + shift * image.strides[d + 2] * size_of(image.dtype);
    std::int64_t& size = image.shape[d + 2];
    const std::int64_t read =
        (ys.shape[static_cast<std::size_t>(s.y)] - 1) * s.stride + s.dilation * (filter.shape[d + 2] - 1) + 1 - before;
    const std::int64_t after = std::max<std::int64_t>(read - (size - shift), 0);
    size = read - after;
    if (size < 1 || after > most_shift || (before > 0 && !s.guarded_below) || (after > 0 && !s.guarded_above))
      return false;
    padding.push_back({static_cast<std::int32_t>(before), static_cast<std::int32_t>(after)});
  }
  // The pixels as one axis.
  v0::Tensor out = viewed(ys, {batch_y, spatial.back().y, filter_y});
  std::int64_t pixels = 1;
  for (std::size_t d = spatial.size(); d-- > 0;) {
    const auto axis = static_cast<std::size_t>(spatial[d].y);
    if (ys.shape[axis] > 1 && pixels > 1 && ys.strides[axis] != pixels * out.strides[1]) return false;
    if (pixels == 1) out.strides[1] = ys.strides[axis];
    pixels *= ys.shape[axis];
  }
  out.shape[1] = pixels;
  plan(padding).bind({{"X", image}, {"W", filter}, {"D", out}}, stream).run(stream);
  return true;
}

FoundConvolution find_convolution(const ScheduleNode& schedule, const Nest& nest, const Target& target) {
  if (!schedule.calls.empty() || schedule.outputs.size() != 1) return {};
  const OperationPtr output = schedule.outputs[0].op().node();
  const OperationNode& op = *output;
  const Reduction* const reduction = op.reduction();
  if (!reduction || reduction->reducer->known != Known::sum || !reduction->where.empty() || op.dtypes[0] != DType::f32)
    return {};
  const std::optional<Expr> source = inlined(reduction->sources[0], schedule);
  if (!source || (*source)->kind != ExprNode::Kind::operation || (*source)->op != Op::mul) return {};
  for (const bool swapped : {false, true}) {
    std::vector<Expr> conditions;
    const ExprNode* const x = read_of((*source)->args[swapped ? 1 : 0], conditions);
    const ExprNode* const w = (*source)->args[swapped ? 0 : 1].node().get();
    if (!x || w->kind != ExprNode::Kind::read) continue;
    const auto argument = [&](const OperationPtr& operation) {
      const auto found = nest.buffers.find({operation.get(), 0});
      return found == nest.buffers.end() || !is_float(operation->dtypes[0]) ? -1 : found->second->argument;
    };
    if (!x->tensor->is_placeholder() || !w->tensor->is_placeholder()) continue;
    auto found = Finding(op, *x, *w).run(conditions);
    if (!found) continue;
    found->x = argument(x->tensor);
    found->w = argument(w->tensor);
    found->y = argument(output);
    if (found->x < 0 || found->w < 0 || found->y < 0) return {};
    found->x_type = x->tensor->dtypes[0];
    found->w_type = w->tensor->dtypes[0];
    found->target = target;
    const std::string what = "a convolution of " + x->tensor->name + " by " + w->tensor->name + ": ";
    if (found->filter_w < 0) return {{}, what + "loops, because it has one filter, and the main loop computes many\n"};
    if (!found->is_supported()) return {{}, what + "loops, because the main loop does not take it\n"};
    return {std::move(found), what};
  }
  return {};
}

}  // namespace postlude::inline v0::te
