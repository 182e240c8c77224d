#include "fuzz/shrink.h"

#include "fuzz/grammar.h"
#include "graph/ir/verify.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace postlude::fuzz {

namespace {

class Shrinker {
 public:
  Shrinker(const Case& c, const std::function<bool(const Case&)>& fails, int attempts)
      : best_(c), fails_(fails), attempts_(attempts) {}

  Case run() {
    bool progress = true;
    while (progress && attempts_ > 0) {
      progress = false;
      for (bool (Shrinker::*step)() :
           {&Shrinker::outputs, &Shrinker::shapes, &Shrinker::values, &Shrinker::tensors, &Shrinker::dtypes})
        while (attempts_ > 0 && (this->*step)()) progress = true;
    }
    return best_;
  }

 private:
  Case best_;
  const std::function<bool(const Case&)>& fails_;
  int attempts_;

  bool accept(Case candidate) {
    if (attempts_ <= 0) return false;
    --attempts_;
    try {
      candidate.graph = without_unused(candidate.graph);
      if (!divisible(candidate) || !fails_(candidate)) return false;
    } catch (const Error&) {
      return false;  // the candidate means nothing
    }
    best_ = std::move(candidate);
    return true;
  }

  bool outputs() {
    for (std::size_t i = 0; best_.graph.outputs.size() > 1 && i < best_.graph.outputs.size(); ++i) {
      Case c = best_;
      c.graph.outputs.erase(c.graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      if (accept(std::move(c))) return true;
    }
    return false;
  }

  bool geometry() {
    const auto smaller = [&](auto set) {
      Case c = best_;
      Convolution conv = *c.conv;
      set(conv);
      if (!conv.possible()) return false;
      set_convolution(c, conv);
      return accept(std::move(c));
    };
    const auto reduce = [&](auto field, std::int64_t least) {
      Convolution all = *best_.conv;
      const auto now = static_cast<std::int64_t>(field(all));
      for (const std::int64_t to : {least, now / 2, now - 1}) {
        if (to >= now || to < least) continue;
        if (smaller([&](Convolution& c) { field(c) = static_cast<std::remove_reference_t<decltype(field(c))>>(to); }))
          return true;
      }
      return false;
    };
    using Along = Convolution::Along;
    for (std::size_t i = 0; i < best_.conv->axes.size(); ++i) {
      if (best_.conv->axes.size() > 1 &&
          smaller([&](Convolution& c) { c.axes.erase(c.axes.begin() + static_cast<std::ptrdiff_t>(i)); }))
        return true;
      for (const auto& [field, least] : {std::pair(&Along::taps, 1),
                                         {&Along::image, 1},
                                         {&Along::stride, 1},
                                         {&Along::dilation, 1},
                                         {&Along::before, 0},
                                         {&Along::after, 0}}) {
        if (reduce([&, of = field](Convolution& c) -> std::int32_t& { return c.axes[i].*of; }, least)) return true;
      }
    }
    for (std::int64_t Convolution::*size :
         {&Convolution::images, &Convolution::groups, &Convolution::channels, &Convolution::filters})
      if (reduce([&](Convolution& c) -> std::int64_t& { return c.*size; }, 1)) return true;
    return false;
  }

  bool shapes() {
    if (best_.conv) return geometry();
    for (std::int64_t Shape::*size : {&Shape::batch, &Shape::m, &Shape::n, &Shape::k}) {
      const std::int64_t now = best_.shape.*size;
      for (const std::int64_t smaller : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, now / 2, now - 1}) {
        if (smaller >= now || smaller < 0 || (smaller == 0 && size != &Shape::k)) continue;
        Case c = best_;
        c.shape.*size = smaller;
        if (accept(std::move(c))) return true;
      }
    }
    return false;
  }

  // A value by one of its arguments, by the accumulator, or by 1; the last values first.
  bool values() {
    const std::size_t count = best_.graph.nodes.size();
    for (std::size_t i = count; i-- > 1;) {
      const Node& node = best_.graph.nodes[i];
      for (const NodeId a : node.args)
        if (replace(i, a)) return true;
      if (node.op != Op::acc && !node.args.empty() && best_.graph.nodes[0].op == Op::acc && replace(i, 0)) return true;
      if (node.op == Op::constant) continue;
      Case c = best_;
      Node& one = c.graph.nodes[i];
      one = Node{};
      one.literal.real = 1;
      if (accept(std::move(c))) return true;
    }
    return false;
  }
  bool replace(std::size_t from, NodeId to) {
    Case c = best_;
    for (Node& n : c.graph.nodes)
      for (NodeId& a : n.args)
        if (a == static_cast<NodeId>(from)) a = to;
    for (OutputDecl& o : c.graph.outputs)
      if (o.value == static_cast<NodeId>(from)) o.value = to;
    return accept(std::move(c));
  }

  bool tensors() {
    Case c = best_;
    if (c.layout != 0) {
      c.layout = 0;
      if (accept(c)) return true;
      c = best_;
    }
    if (c.values != Values::integers) {
      c.values = static_cast<Values>(static_cast<int>(c.values) - 1);
      if (accept(c)) return true;
      c = best_;
    }
    if (const auto* gemm = c.problem.get_if<Gemm>(); gemm != nullptr && gemm->batched && c.shape.batch == 1) {
      c.problem = c.problem.loop().over({{gemm->a, gemm->b}}, false);
      if (accept(c)) return true;
    }
    return false;
  }

  bool dtypes() {
    for (std::size_t i = 0; i < best_.graph.outputs.size(); ++i) {
      if (best_.graph.outputs[i].dtype == f32) continue;
      Case c = best_;
      c.graph.outputs[i].dtype = f32;
      if (accept(std::move(c))) return true;
    }
    for (std::size_t i = 0; i < best_.graph.operands.size(); ++i) {
      if (best_.graph.operands[i].dtype == f32) continue;
      Case c = best_;
      c.graph.operands[i].dtype = f32;
      if (accept(std::move(c))) return true;
    }
    if (best_.conv && (best_.conv->first != f32 || best_.conv->second != f32)) {
      Case c = best_;
      Convolution conv = *c.conv;
      conv.first = conv.second = f32;
      set_convolution(c, conv);
      return accept(std::move(c));
    }
    const auto* gemm = best_.problem.get_if<Gemm>();
    if (gemm == nullptr || (gemm->a == f32 && gemm->b == f32)) return false;
    Case c = best_;
    c.problem = best_.problem.loop().over({{f32, f32}}, gemm->batched);
    return accept(std::move(c));
  }
};

}  // namespace

Case shrink(const Case& c, const std::function<bool(const Case&)>& fails, int attempts) {
  return Shrinker(c, fails, attempts).run();
}

}  // namespace postlude::fuzz
