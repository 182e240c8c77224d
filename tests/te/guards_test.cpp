// Indices behind conditions: where these show that they stay within a tensor, where nothing shows it, and where they
// leave.
#include "te/guards.h"

#include <gtest/gtest.h>

namespace postlude {
namespace {

using By = GuardedPrograms::By;

TEST(Guards, HoldIndices) {
  const GuardedPrograms programs;
  for (const Guarded& program : programs.all) {
    for (const By by : {By::description, By::parts, By::threads}) {
      const te::Module module = te::build(programs.scheduled(program, by), programs.arguments(program), Target::cpu(2));
      for (const std::int64_t n : {1, 2, 7, 16}) {
        const auto [is, wanted] =
            programs.run(program, n, Device::cpu, [&](const std::vector<Tensor>& arrays) { module(arrays); });
        EXPECT_EQ(is, wanted) << program.name << " of " << n << "\n" << module.print();
      }
      // What a condition shows is not looked at again.
      const bool holds =
          module.print().find("min(") != std::string::npos || module.print().find("max(") != std::string::npos;
      EXPECT_EQ(holds, program.is_held) << module.print();
    }
    const te::Module chosen = te::build({program.result}, programs.arguments(program), Target::cpu(1));
    const auto [is, wanted] =
        programs.run(program, 9, Device::cpu, [&](const std::vector<Tensor>& arrays) { chosen(arrays); });
    EXPECT_EQ(is, wanted) << program.name;
  }
}

// A condition without a tensor chooses a strip's one value by the size that the call has.
TEST(Guards, ChooseIndicesBySizes) {
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n}, "A");
  const te::Tensor place = te::compute(
      {n},
      [&](const te::Axes& i) {
        return te::apply("where", {i[0] < n - 1, i[0], -1});
      },
      "P");
  const te::Tensor sum = te::compute(
      {n}, [&](const te::Axes& i) { return place(i[0]) + te::cast(a(i[0]), i64); }, "S");
  te::Schedule s = te::create_schedule({sum});
  s[place].compute_at(s[sum], sum.op().axis()[0]);
  std::vector<float> x = {10, 20, 30, 40};
  std::vector<std::int64_t> y(4);
  te::build(s, {a, sum}, Target::cpu(1))({Tensor(x.data(), f32, {4}), Tensor(y.data(), i64, {4})});
  EXPECT_EQ(y, (std::vector<std::int64_t>{10, 21, 32, 39}));
}

}  // namespace
}  // namespace postlude
