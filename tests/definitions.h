// A function of the prelude against the bounds that the reference finds for its definition.
#pragma once

#include "graph/ir/typing.h"
#include "reference/body.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace postlude {

// How it is called, with 1.75 for a second parameter.
inline std::string call_text(const std::string& name, std::size_t parameters) {
  return "def f(acc):\n    D: f32 = " + name + "(acc" + (parameters > 1 ? ", 1.75" : "") + ")\n    return D\n";
}

// Whether y[i] is what it may be of x[i].
inline void expect_error_of_definition(const std::string& name, std::size_t parameters, const std::vector<float>& x,
                                       const std::vector<float>& y) {
  const Graph graph = parse(call_text(name, parameters));
  const auto call = std::find_if(graph.data().nodes.begin(), graph.data().nodes.end(),
                                 [](const Node& n) { return n.op == Op::call; });
  const std::vector<TypeState> types(parameters, {.type = DType::f32});
  Typing typing;
  const reference::Body body(*call, types, DType::f32, typing);
  std::vector<reference::Cell> scratch;
  double worst = 0;
  float at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::array<reference::Cell, 2> in = {reference::cell(reference::point(static_cast<double>(x[i]))),
                                               reference::cell(reference::point(1.75))};
    reference::Cell out;
    body.run(std::span(in).first(parameters), {}, scratch, {&out, 1});
    const reference::Real& r = out.real;
    const auto got = static_cast<double>(y[i]);
    double error = 0;  // over its bound
    if (is_anything(r)) continue;
    if (is_nan(r)) error = std::isnan(got) ? 0 : HUGE_VAL;
    else if (std::isnan(got) || (is_point(r) && (got != r.value || std::signbit(got) != std::signbit(r.value))))
      error = HUGE_VAL;
    else if (got > r.value) error = (got - r.value) / (r.high - r.value);
    else if (got < r.value) error = (r.value - got) / (r.value - r.low);
    if (error > worst) worst = error, at = x[i];
  }
  EXPECT_LE(worst, 1) << name << " of " << at;
  testing::Test::RecordProperty(name, std::to_string(worst));
}

}  // namespace postlude
