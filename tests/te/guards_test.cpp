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

}  // namespace
}  // namespace postlude
