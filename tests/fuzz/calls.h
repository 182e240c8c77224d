// Random sequences of calls of the public interface, mistakes among them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace postlude::fuzz {

// Graphs and plans that sequences make and share, from any thread.
class Shared;
[[nodiscard]] std::shared_ptr<Shared> make_shared_pool();

// Makes a sequence of calls. "" or what is wrong. What must hold:
//   - a call returns or throws an Error, never one of kind 09xx; what a user's function throws
//     reaches the caller
//   - supports() says what compile() does, and check() says what bind() does
//   - a call that runs twice writes the same bits, and verify() has nothing against them
// Tensors that are bound and would be read behind their memory are never run.
[[nodiscard]] std::string check_calls(std::uint64_t seed, Shared& shared);

}  // namespace postlude::fuzz
