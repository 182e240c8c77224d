// Programs whose indices stand behind conditions, and what they give: on a CPU, and as kernels on the host.
#pragma once

#include <postlude/te.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace postlude {

struct Guarded {
  std::string name;
  te::Tensor result;
  bool is_held = false;  // no condition shows an index to be within
  // Element (i, j) of so many rows and columns; x and y read what they are given.
  std::function<float(const std::vector<float>& x, const std::vector<std::int32_t>& y, std::int64_t i, std::int64_t j)>
      wanted;

  // The element at the edge stands for all beyond.
  static float at(const std::vector<float>& x, std::int64_t i) {
    return x[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, static_cast<std::int64_t>(x.size()) - 1))];
  }
};

// Of X (n), of Y (n), some of whose elements are no index of X, and of E, which is empty.
class GuardedPrograms {
 public:
  GuardedPrograms() {
    using te::Axes, te::Expr, te::floordiv, te::floormod;
    using Xs = std::vector<float>;
    using Ys = std::vector<std::int32_t>;
    using Int = std::int64_t;
    const auto where = [](const Expr& condition, const Expr& one, const Expr& other) {
      return te::apply("where", {condition, one, other});
    };
    const auto add = [this](const char* name, bool is_held, const auto& element, const auto& wanted) {
      const te::Tensor c = te::compute(
          {n_, n_}, [&](const Axes& at) { return element(Expr(at[0]), Expr(at[1])); }, "C");
      all.push_back({name, c, is_held, wanted});
    };
    const te::Axis axis = te::reduce_axis(0, n_, "k");
    const Expr k = axis;
    // Within where the condition holds, which no bound of a loop says.
    add(
        "parity", false,
        [&](const Expr& i, const Expr& j) {
          return where((floormod(i - j, 2) == 0) & (i >= j), x_(floordiv(i - j, 2)), 0);
        },
        [](const Xs& x, const Ys&, Int i, Int j) {
          return (i - j) % 2 == 0 && i >= j ? Guarded::at(x, (i - j) / 2) : 0;
        });
    add(
        "half", false, [&](const Expr& i, const Expr&) { return where(i < floordiv(n_, 2), x_(i * 2 + 1), 0); },
        [](const Xs& x, const Ys&, Int i, Int) { return i < Int(x.size()) / 2 ? Guarded::at(x, 2 * i + 1) : 0; });
    add(
        "jump", false,
        [&](const Expr& i, const Expr&) { return where(floormod(i, 2) == 0, x_(i - floormod(i, 2) * 100), 0); },
        [](const Xs& x, const Ys&, Int i, Int) { return i % 2 == 0 ? Guarded::at(x, i) : 0; });
    add(
        "otherwise", false,
        [&](const Expr& i, const Expr& j) { return where((i < 1) | ~(j >= 2), 0, x_(i - 1) + x_(j - 2)); },
        [](const Xs& x, const Ys&, Int i, Int j) {
          return i < 1 || j < 2 ? 0 : Guarded::at(x, i - 1) + Guarded::at(x, j - 2);
        });
    add(
        "sum", false,
        [&](const Expr& i, const Expr&) {
          return te::sum(x_(floordiv(i - k, 2)), {axis}, (floormod(i - k, 2) == 0) & (k <= i));
        },
        [](const Xs& x, const Ys&, Int i, Int) {
          float sum = 0;
          for (Int at = i % 2; at <= i; at += 2) sum += Guarded::at(x, (i - at) / 2);
          return sum;
        });
    // Within too, which nothing shows: a square, and a size that divides.
    add(
        "square", true, [&](const Expr& i, const Expr&) { return where(i * i < n_, x_(i * i), -1); },
        [](const Xs& x, const Ys&, Int i, Int) { return i * i < Int(x.size()) ? Guarded::at(x, i * i) : -1; });
    add(
        "turned", true,
        [&](const Expr& i, const Expr& j) { return where(j > 0, x_(i * 7 - floordiv(i * 7, n_) * n_), 0); },
        [](const Xs& x, const Ys&, Int i, Int j) { return j > 0 ? Guarded::at(x, i * 7 % Int(x.size())) : 0; });
    // Conditions that read say nothing of an index: it is held to the edge, on either side.
    add(
        "next", true, [&](const Expr& i, const Expr&) { return where(x_(i) >= 0, x_(i + 1), 0); },
        [](const Xs& x, const Ys&, Int i, Int) { return Guarded::at(x, i) >= 0 ? Guarded::at(x, i + 1) : 0; });
    add(
        "memory", true, [&](const Expr& i, const Expr& j) { return where(y_(i) != 1, x_(y_(i) - j), 2); },
        [](const Xs& x, const Ys& y, Int i, Int j) { return y[i] != 1 ? Guarded::at(x, y[i] - j) : 2; });
    add(
        "nothing", true, [&](const Expr& i, const Expr&) { return where(y_(i) > 0, e_(y_(i)) + 3, 5); },
        [](const Xs&, const Ys& y, Int i, Int) -> float { return y[i] > 0 ? 3 : 5; });
    twice_ = te::compute(
        {n_}, [&](const Axes& at) { return x_(at[0]) * 2; }, "T");
    add(
        "stage", true, [&](const Expr& i, const Expr& j) { return where(y_(i) > 0, twice_(j + 1), twice_(j - 1)); },
        [](const Xs& x, const Ys& y, Int i, Int j) { return 2 * Guarded::at(x, y[i] > 0 ? j + 1 : j - 1); });
    add(
        "sum of memory", true, [&](const Expr& i, const Expr&) { return te::sum(x_(k + i), {axis}, y_(k) > 0); },
        [](const Xs& x, const Ys& y, Int i, Int) {
          float sum = 0;
          for (Int at = 0; at < Int(x.size()); ++at) sum += y[at] > 0 ? Guarded::at(x, at + i) : 0;
          return sum;
        });
  }

  std::vector<Guarded> all;
  [[nodiscard]] std::vector<te::Tensor> arguments(const Guarded& program) const { return {x_, y_, e_, program.result}; }

  // One of a few schedules: as described, split with a rest, a GPU's; what another stage makes is made in its loops.
  enum class By { description, parts, threads };
  [[nodiscard]] te::Schedule scheduled(const Guarded& program, By by) const {
    te::Schedule s = te::create_schedule(program.result);
    if (by == By::description) return s;
    te::Stage stage = s[program.result];
    const te::Axes axes = stage.op().axis();
    const auto [outer, inner] = stage.split(axes[1], 4);
    if (by == By::threads) {
      stage.bind(axes[0], te::thread_axis("blockIdx.x"));
      stage.bind(inner, te::thread_axis("threadIdx.x"));
    }
    if (program.name == "stage" && by == By::parts) s[twice_].compute_at(stage, outer);
    return s;
  }

  // Runs a program for n elements, on the arrays that `on` has; C as it is and as it should be.
  template <class Run>
  std::pair<std::vector<float>, std::vector<float>> run(const Guarded& program, std::int64_t n, Device on,
                                                        const Run& run) const {
    std::vector<float> x, e, c(static_cast<std::size_t>(n * n), -77), wanted;
    std::vector<std::int32_t> y;
    for (std::int64_t i = 0; i < n; ++i) {
      x.push_back(static_cast<float>(i * 5 % 7 - 2));
      y.push_back(static_cast<std::int32_t>(i * 11 % 9 - 3) * (i % 4 == 3 ? 1000 : 1));
    }
    run(std::vector<Tensor>{Tensor(x.data(), f32, {n}).on(on), Tensor(y.data(), i32, {n}).on(on),
                            Tensor(e.data(), f32, {0}).on(on), Tensor(c.data(), f32, {n, n}).on(on)});
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) wanted.push_back(program.wanted(x, y, i, j));
    return {c, wanted};
  }

 private:
  te::Expr n_ = te::var("n"), l_ = te::var("l");
  te::Tensor x_ = te::placeholder({n_}, "X"), y_ = te::placeholder({n_}, "Y", i32), e_ = te::placeholder({l_}, "E"),
             twice_;
};

}  // namespace postlude
