// What comes from outside as bytes: texts, .npy files, entries of the cache of kernels. Any bytes
// are an input or a typed error.
#pragma once

#include "fuzz/choices.h"

#include <postlude/parse.h>

#include <string>
#include <string_view>
#include <vector>

namespace postlude::fuzz {

// Of texts nobody would write: they are small, and so are those that parse.
inline constexpr ParseLimits text_limits{.bytes = 1 << 20, .nodes = 20'000, .nesting = 100};

// The repository's epilogues, the texts of its goldens and tests/fuzz/corpus, in order.
[[nodiscard]] std::vector<std::string> texts();

// One of `corpus` with some changes: bytes, words of the language, parts of others.
[[nodiscard]] std::string mutated_text(Choices& choices, const std::vector<std::string>& corpus);
// A .npy file, most of them with a header that numpy could have written, or nearly.
[[nodiscard]] std::string random_npy(Choices& choices);

// "" or what is wrong. A text gives a graph or an Error of the text's or graph's kind; what a graph
// prints parses back to the same graph.
[[nodiscard]] std::string check_text(std::string_view text);
// A file gives an array of what its header says, which written and read again is the same, or bad_npy.
[[nodiscard]] std::string check_npy(const std::string& bytes, Choices& choices);
// A folder of entries that are damaged, replaced or left half-written gives the entry or a miss.
[[nodiscard]] std::string check_cache(Choices& choices);

}  // namespace postlude::fuzz
