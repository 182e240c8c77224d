// A user's program: relu(A B + bias) and its row maxima, checked.
#include <postlude/plan.h>

#include <cstdio>

int main() {
  using namespace postlude;
  GraphBuilder g("consumer");
  const Value z = g.accumulator() + g.row("bias", f32);
  g.output("D", max(z, 0));
  g.output("amax", max(abs(z), Axis::n));
  const Plan plan = compile(Gemm{}, g.finish());

  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, -1, 2, -2, 3, -3}, bias[] = {1, 1};  // A 2 x 3, B 3 x 2
  float d[4], amax[2];
  plan.bind({{"A", Tensor(a, f32, {2, 3})},
             {"B", Tensor(b, f32, {3, 2})},
             {"bias", Tensor(bias, f32, {2})},
             {"D", Tensor(d, f32, {2, 2})},
             {"amax", Tensor(amax, f32, {2})}})
      .run();
  const bool right = d[0] == 15 && d[1] == 0 && d[2] == 33 && d[3] == 0 && amax[0] == 15 && amax[1] == 33;
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
