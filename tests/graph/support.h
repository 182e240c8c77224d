// Helpers that the graph's tests share.
#pragma once

#include <postlude/error.h>

#include <gtest/gtest.h>

namespace postlude {

// The code of the error that action() throws; a failure of the test if it throws none.
inline ErrorCode code_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

}  // namespace postlude
