#include "te/product.h"

#include <algorithm>

namespace postlude::inline v0::te {
namespace {

// The place of each index of a read among `axes`; nothing where an index is no axis by itself, or
// one occurs twice.
std::optional<std::vector<int>> places(const ExprNode& read, const std::vector<AxisPtr>& axes) {
  std::vector<int> result(axes.size(), -1);
  for (std::size_t d = 0; d < read.args.size(); ++d) {
    const Expr& index = read.args[d];
    if (index->kind != ExprNode::Kind::axis) return {};
    const auto at = static_cast<std::size_t>(std::find(axes.begin(), axes.end(), index->axis) - axes.begin());
    if (at == axes.size() || result[at] >= 0) return {};
    result[at] = static_cast<int>(d);
  }
  return result;
}

bool is_whole(const Expr& extent, const ExprNode& read, int d) {
  return same(extent, read.tensor->shape[static_cast<std::size_t>(d)]);
}

v0::Tensor view(const v0::Tensor& array, std::span<const int> axes) {
  v0::Tensor result = array;
  result.rank = 0;
  for (const int axis : axes) {
    if (axis < 0) continue;
    result.shape[static_cast<std::size_t>(result.rank)] = array.shape[static_cast<std::size_t>(axis)];
    result.strides[static_cast<std::size_t>(result.rank++)] = array.strides[static_cast<std::size_t>(axis)];
  }
  return result;
}

// The stage that a schedule computes alone, or followed by an epilogue behind it; null: there are others.
OperationPtr lone_stage(const ScheduleNode& schedule) {
  const std::shared_ptr<const Followed> followed = schedule.outputs[0].op().node()->followed;
  for (const Tensor& output : schedule.outputs)
    if (output.op().node()->followed != followed) return nullptr;
  if (!followed)
    return schedule.stages.size() == 1 && schedule.outputs.size() == 1 ? schedule.outputs[0].op().node() : nullptr;
  const OperationPtr origin = followed->accumulator.op().node();
  const bool by_columns = followed->column + 1 == origin->axes.size();
  return by_columns && schedule.outputs.size() == followed->graph.outputs().size() ? origin : nullptr;
}

// The two placeholders over whose products a stage sums along one axis, from its beginning; null: it does not.
std::pair<const ExprNode*, const ExprNode*> factors(const OperationNode& op) {
  const Reduction* const reduction = op.reduction();
  if (!reduction || reduction->reducer->known != Known::sum || reduction->axes.size() != 1 ||
      !reduction->where.empty() || op.dtypes[0] != DType::f32 || !same(reduction->axes[0]->begin, 0))
    return {};
  const Expr& source = reduction->sources[0];
  if (source->kind != ExprNode::Kind::operation || source->op != Op::mul) return {};
  const Expr &x = source->args[0], &y = source->args[1];
  for (const Expr& read : {x, y})
    if (read->kind != ExprNode::Kind::read || !read->tensor->is_placeholder() || !is_float(read->tensor->dtypes[0]))
      return {};
  if (x->tensor->dtypes[0] != y->tensor->dtypes[0]) return {};
  return {x.node().get(), y.node().get()};
}

// Which of them are A and B, and where their axes lie, into `product`; null: no matrices.
std::pair<const ExprNode*, const ExprNode*> matrices(const OperationNode& op, Product& product) {
  auto [a, b] = factors(op);
  if (!a) return {};
  std::vector<AxisPtr> axes = op.axes;
  axes.push_back(op.reduction()->axes[0]);
  const std::size_t m = product.batched ? 1 : 0, n = m + 1, last = n + 1;
  auto a_places = places(*a, axes), b_places = places(*b, axes);
  if (!a_places || !b_places) return {};
  if ((*a_places)[m] < 0) {
    std::swap(a, b);
    std::swap(a_places, b_places);
  }
  const auto &pa = *a_places, &pb = *b_places;
  if (pa[m] < 0 || pa[n] >= 0 || pa[last] < 0 || pb[m] >= 0 || pb[n] < 0 || pb[last] < 0) return {};
  if (product.batched && pa[0] < 0 && pb[0] < 0) return {};
  for (std::size_t d = 0; d < axes.size(); ++d) {
    if (pa[d] >= 0 && !is_whole(axes[d]->extent, *a, pa[d])) return {};
    if (pb[d] >= 0 && !is_whole(axes[d]->extent, *b, pb[d])) return {};
  }
  product.a_axes = {product.batched ? pa[0] : -1, pa[m], pa[last]};
  product.b_axes = {product.batched ? pb[0] : -1, pb[last], pb[n]};
  return {a, b};
}

}  // namespace

std::optional<Product> find_product(const ScheduleNode& schedule, const Nest& nest, const Target& target) {
  if (!schedule.calls.empty()) return {};
  const OperationPtr origin = lone_stage(schedule);
  const std::shared_ptr<const Followed> followed = schedule.outputs[0].op().node()->followed;
  if (!origin || (origin->axes.size() != 2 && (origin->axes.size() != 3 || followed))) return {};
  Product product;
  product.batched = origin->axes.size() == 3;
  const auto [a, b] = matrices(*origin, product);
  if (!a) return {};
  const auto argument = [&](const OperationPtr& operation, int component) {
    const auto found = nest.buffers.find({operation.get(), component});
    return found == nest.buffers.end() ? -1 : found->second->argument;
  };
  product.a = argument(a->tensor, 0);
  product.b = argument(b->tensor, 0);
  Graph graph;
  if (followed) {
    graph = followed->graph;
    for (const auto& [name, tensor] : followed->operands) {
      product.bound.emplace_back(name, argument(tensor.op().node(), tensor.component()));
      if (!tensor.op().node()->is_placeholder()) return {};
    }
    for (const Tensor& output : schedule.outputs)
      product.bound.emplace_back(output.name(), argument(output.op().node(), 0));
  } else {
    GraphBuilder builder("product");
    builder.output("D", builder.accumulator(), DType::f32);
    graph = builder.finish();
    product.bound.emplace_back("D", argument(origin, 0));
  }
  if (product.a < 0 || product.b < 0 ||
      std::any_of(product.bound.begin(), product.bound.end(), [](const auto& x) { return x.second < 0; }))
    return {};
  CompileOptions options;
  for (const auto& [name, number] : product.bound)
    options.dtypes.emplace_back(name, nest.arguments[static_cast<std::size_t>(number)]->type);
  const Gemm gemm{.a = a->tensor->dtypes[0], .b = b->tensor->dtypes[0], .batched = product.batched};
  if (!supports(gemm, graph, target, options)) return {};
  product.plan = compile(gemm, graph, target, options);
  return product;
}

void Product::run(std::span<const v0::Tensor> arrays, void* stream) const {
  std::vector<Binding> bindings{{"A", view(arrays[static_cast<std::size_t>(a)], a_axes)},
                                {"B", view(arrays[static_cast<std::size_t>(b)], b_axes)}};
  for (const auto& [name, number] : bound) bindings.push_back({name, arrays[static_cast<std::size_t>(number)]});
  Call call = plan.bind(bindings, stream);
  call.run(stream);
}

}  // namespace postlude::inline v0::te
