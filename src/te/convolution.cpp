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
    if (!w_indices() || !y_axes() || (group_filter_ && w_axis(group_filter_) != conv_.filter_w)) return {};
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

  // f // (a group's filters) * (a group's channels) + c.
  bool channel_of_group(int d) {
    const Polynomial p = polynomial(x_.args[static_cast<std::size_t>(d)]);
    if (p.constant != 0 || p.terms.size() != 2 || conv_.channel_x >= 0) return false;
    for (const std::size_t first : {0, 1}) {
      const Polynomial::Term &plain = p.terms[first], &group = p.terms[1 - first];
      if (plain.factor != 1 || plain.atoms.size() != 1 || plain.atoms[0]->kind != ExprNode::Kind::axis) continue;
      const AxisPtr channel = plain.atoms[0]->axis;
      if (place(op_.reduce_axes, channel) < 0) continue;
      Expr size = group.factor, number;
      for (const Expr& atom : group.atoms) {
        const bool divides = atom->kind == ExprNode::Kind::operation && atom->op == Op::floordiv;
        const bool alone = atom->kind == ExprNode::Kind::axis && place(op_.axes, atom->axis) >= 0;
        if (number.empty() && (divides || alone)) number = atom;
        else size = size * atom;
      }
      if (number.empty() || !same(size, channel->extent)) continue;
      const Expr& filter = number->kind == ExprNode::Kind::axis ? number : number->args[0];
      if (filter->kind != ExprNode::Kind::axis || place(op_.axes, filter->axis) < 0 || w_axis(filter->axis) < 0)
        continue;
      const Expr filters = number->kind == ExprNode::Kind::axis ? Expr(1) : number->args[1];
      bool varies = false;
      visit(filters, [&](const ExprNode& node) {
        varies |= node.kind == ExprNode::Kind::read ||
                  (node.kind == ExprNode::Kind::axis && node.axis->kind != AxisNode::Kind::size);
      });
      if (varies || !used_.emplace(channel.get(), d).second) return false;
      conv_.channel_x = d;
      conv_.channel_w = w_axis(channel);
      conv_.group_filters = filters;
      group_filter_ = filter->axis;
      return conv_.channel_w >= 0;
    }
    return false;
  }
  bool x_index(int d) {
    if (channel_of_group(d)) return true;
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
    if (plain && conv_.group_x < 0 && w_axis(pixel) >= 0 && is_whole(pixel->extent, x_, d)) {
      conv_.group_x = d;
      conv_.group_w = w_axis(pixel);
      conv_.group_y = place(op_.axes, pixel);
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
    if (conv_.group_w >= 0) known[static_cast<std::size_t>(conv_.group_w)] = true;
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
  AxisPtr group_filter_;  // which filter a group's number is made of
  int taps_ = 0;
};

template <std::size_t Rank>
Problem problem_of(const Convolution& c, const std::vector<std::array<std::int32_t, 2>>& padding, std::int32_t groups) {
  Conv<Rank> conv;
  conv.x = c.x_type;
  conv.w = c.w_type;
  conv.groups = groups;
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

// Axes of an array as one, outermost first; nothing where they are none.
struct Joined {
  std::int64_t size = 1, stride = 0;
};
std::optional<Joined> joined(const v0::Tensor& array, const std::vector<int>& axes) {
  Joined result;
  for (std::size_t d = axes.size(); d-- > 0;) {
    if (axes[d] < 0) continue;
    const std::int64_t size = array.shape[static_cast<std::size_t>(axes[d])],
                       stride = array.strides[static_cast<std::size_t>(axes[d])];
    if (size > 1 && result.size > 1 && stride != result.size * result.stride) return {};
    if (result.size == 1) result.stride = stride;
    result.size *= size;
  }
  return result;
}
void set_axis(v0::Tensor& view, std::size_t axis, const Joined& to) {
  view.shape[axis] = to.size;
  view.strides[axis] = to.stride;
}

}  // namespace

Problem Convolution::problem(const Constants& constants) const {
  if (spatial.size() == 1) return problem_of<1>(*this, constants.padding, constants.groups);
  return spatial.size() == 2 ? problem_of<2>(*this, constants.padding, constants.groups)
                             : problem_of<3>(*this, constants.padding, constants.groups);
}

const Plan* Convolution::plan(const Constants& constants) const {
  const std::scoped_lock lock(plans_->mutex);
  auto found = plans_->made.find(constants);
  if (found == plans_->made.end()) {
    found = plans_->made.emplace(constants, std::nullopt).first;
    if (supports(problem(constants), graph, target, options))
      found->second = compile(problem(constants), graph, target, options);
  }
  return found->second ? &*found->second : nullptr;
}

bool Convolution::is_supported() const {
  Constants constants;
  constants.padding.resize(spatial.size());
  return static_cast<bool>(supports(problem(constants), graph, target, options));
}

std::string Convolution::explain() const {
  Constants constants;
  for (const Spatial& s : spatial) {
    const auto before = static_cast<std::int32_t>(std::max<std::int64_t>(-s.shift, 0));
    constants.padding.push_back({before, s.guarded_above ? before : 0});
  }
  return "it runs on the main loop " + std::string(problem(constants).loop().name()) +
         ", because no call schedules it\n" + plan(constants)->explain();
}

// How many zeros each axis of the image has; what nothing reads is cut off.
bool Convolution::cut(v0::Tensor& image, const v0::Tensor& filter, const std::vector<std::int64_t>& out,
                      Constants& constants) const {
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    const Spatial& s = spatial[d];
    const std::int64_t shift = std::max<std::int64_t>(s.shift, 0), before = shift - s.shift;
    image.data = static_cast<char*>(image.data) + shift * image.strides[d + 2] * size_of(image.dtype);
    std::int64_t& size = image.shape[d + 2];
    const std::int64_t read = (out[d] - 1) * s.stride + s.dilation * (filter.shape[d + 2] - 1) + 1 - before;
    const std::int64_t after = std::max<std::int64_t>(read - (size - shift), 0);
    size = read - after;
    if (size < 1 || after > most_shift || (before > 0 && !s.guarded_below) || (after > 0 && !s.guarded_above))
      return false;
    constants.padding.push_back({static_cast<std::int32_t>(before), static_cast<std::int32_t>(after)});
  }
  return true;
}

// What follows: its pixels as one axis, its columns the filters of all groups.
bool Convolution::bind_behind(std::span<const v0::Tensor> arrays, std::vector<Binding>& bindings) const {
  for (const Bound& each : bound) {
    const v0::Tensor& array = arrays[static_cast<std::size_t>(each.argument)];
    const bool rows = each.axes.has(v0::Axis::m), columns = each.axes.has(v0::Axis::n);
    // Where Y's axes lie in it.
    std::vector<int> at(y_shape.size(), -1);
    int next = 0;
    for (std::size_t d = 0; d < at.size(); ++d)
      if (static_cast<int>(d) == filter_y || static_cast<int>(d) == group_y ? columns : rows) at[d] = next++;
    const auto of = [&](int axis) { return axis < 0 ? -1 : at[static_cast<std::size_t>(axis)]; };
    std::vector<int> pixels;
    for (const Spatial& s : spatial) pixels.push_back(of(s.y));
    const auto row = joined(array, pixels), column = joined(array, {of(group_y), of(filter_y)});
    if (!row || !column) return false;
    v0::Tensor view = viewed(array, {});
    if (rows) {
      view = viewed(array, {of(batch_y), -1});
      set_axis(view, 1, *row);
    }
    if (columns) set_axis(view, static_cast<std::size_t>(view.rank++), *column);
    bindings.push_back({each.name, view});
  }
  return true;
}

bool Convolution::run(std::span<const v0::Tensor> arrays, const Sizes& sizes, void* stream) const {
  const v0::Tensor &xs = arrays[static_cast<std::size_t>(x)], &ws = arrays[static_cast<std::size_t>(w)];
  std::int64_t elements = xs.elements() * ws.elements();
  std::vector<std::int64_t> out;
  for (const Expr& extent : y_shape) elements *= evaluate(extent, sizes);
  for (const Spatial& s : spatial) out.push_back(evaluate(y_shape[static_cast<std::size_t>(s.y)], sizes));
  if (elements == 0) return false;
  std::vector<int> x_axes{batch_x, -1}, w_axes{-1, channel_w};
  for (const Spatial& s : spatial) {
    x_axes.push_back(s.x);
    w_axes.push_back(s.w);
  }
  v0::Tensor image = viewed(xs, x_axes), filter = viewed(ws, w_axes);
  const auto channels = joined(xs, {group_x, channel_x}), filters = joined(ws, {group_w, filter_w});
  if (!channels || !filters) return false;
  set_axis(image, 1, *channels);
  set_axis(filter, 0, *filters);
  Constants constants;
  if (group_x >= 0) constants.groups = static_cast<std::int32_t>(xs.shape[static_cast<std::size_t>(group_x)]);
  if (!group_filters.empty()) {
    const std::int64_t one = evaluate(group_filters, sizes);
    if (one < 1 || filters->size % one != 0) return false;
    constants.groups = static_cast<std::int32_t>(filters->size / one);
    image.shape[1] = constants.groups * filter.shape[1];
  }
  std::vector<Binding> bindings;
  if (!cut(image, filter, out, constants) || !bind_behind(arrays, bindings)) return false;
  bindings.push_back({"X", image});
  bindings.push_back({"W", filter});
  const Plan* const made = plan(constants);
  if (made) made->bind(bindings, stream).run(stream);
  return made != nullptr;
}

namespace {

// The epilogue that follows, or none: what it binds; false where loops have to run it.
bool find_behind(const ScheduleNode& schedule, const Nest& nest, const Followed* followed, Convolution& conv) {
  const auto add = [&](const std::string& name, const Tensor& tensor, v0::Axes axes) {
    const auto found = nest.buffers.find({tensor.op().node().get(), tensor.component()});
    if (found == nest.buffers.end() || found->second->argument < 0) return false;
    conv.bound.push_back({name, found->second->argument, axes});
    conv.options.dtypes.emplace_back(name, found->second->type);
    return true;
  };
  if (!followed) {
    GraphBuilder builder("convolution");
    builder.output("D", builder.accumulator(), DType::f32);
    conv.graph = builder.finish();
    return add("D", schedule.outputs[0], v0::Axis::m | v0::Axis::n);
  }
  // A group's filters are no columns of an epilogue where groups are an axis.
  if (conv.group_y >= 0 || static_cast<int>(followed->column) != conv.filter_y) return false;
  conv.graph = followed->graph;
  for (const auto& [name, axes] : followed->axes) {
    const auto operand = std::find_if(followed->operands.begin(), followed->operands.end(),
                                      [&, &name = name](const auto& x) { return x.first == name; });
    const auto output = std::find_if(schedule.outputs.begin(), schedule.outputs.end(),
                                     [&, &name = name](const auto& x) { return x.op().name() == name; });
    if (operand != followed->operands.end()) {
      if (!operand->second.op().node()->is_placeholder() || !add(name, operand->second, axes)) return false;
    } else if (output == schedule.outputs.end() || !add(name, *output, axes)) {
      return false;
    }
  }
  return true;
}

}  // namespace

FoundConvolution find_convolution(const ScheduleNode& schedule, const Nest& nest, const Target& target) {
  if (!schedule.calls.empty()) return {};
  const std::shared_ptr<const Followed> followed = schedule.outputs[0].op().node()->followed;
  if (schedule.outputs.size() != (followed ? followed->graph.outputs().size() : 1)) return {};
  for (const Tensor& output : schedule.outputs)
    if (output.op().node()->followed != followed) return {};
  const OperationPtr origin = followed ? followed->accumulator.op().node() : schedule.outputs[0].op().node();
  const OperationNode& op = *origin;
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
    if (found->x < 0 || found->w < 0) return {};
    found->x_type = x->tensor->dtypes[0];
    found->w_type = w->tensor->dtypes[0];
    found->target = target;
    found->y_shape = op.shape;
    if (!find_behind(schedule, nest, followed.get(), *found)) return {};
    const std::string what = "a convolution of " + x->tensor->name + " by " + w->tensor->name +
                             (found->is_grouped() ? " in groups" : "") + (followed ? " and its epilogue: " : ": ");
    if (found->filter_w < 0 && found->group_w < 0)
      return {{}, what + "loops, because it has one filter, and the main loop computes many\n"};
    if (!found->is_supported()) return {{}, what + "loops, because the main loop does not take it\n"};
    return {std::move(found), what};
  }
  return {};
}

}  // namespace postlude::inline v0::te
