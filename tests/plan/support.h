// Helpers that the tests of plans share.
#pragma once

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace postlude_test {

using namespace postlude;

// A float array with its shape.
struct Array {
  std::vector<float> values;
  std::vector<std::int64_t> shape;

  Array(std::vector<std::int64_t> shape, float start = 0.25f) : shape(std::move(shape)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : this->shape) count *= extent;
    values.resize(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)) +
                  1);  // one more: an address even when empty
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<float>(i * 7 % 11) * 0.125f - 0.5f;
  }
  [[nodiscard]] Tensor view() const { return Tensor(values.data(), f32, shape); }
};

// The Error that `action` throws. Fails where it throws none.
template <class Action>
Error error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) { return error; }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::internal, "nothing was thrown");
}

#define EXPECT_ERROR(expected_code, text, ...)                                                        \
  do {                                                                                                \
    const postlude::Error error = postlude_test::error_of([&] { __VA_ARGS__; });                      \
    EXPECT_EQ(postlude::to_string(error.code()), postlude::to_string(expected_code)) << error.what(); \
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();               \
  } while (false)

}  // namespace postlude_test
