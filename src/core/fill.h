// Text with holes that have names, for whoever writes code.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace postlude::inline v0 {

struct Hole {
  std::string_view name, text;
};

// `text` with each $name, or ${name} where a letter or digit follows, in place of which the hole's text stands, as it
// is. Throws internal for a name that has no hole, and for a hole that is not in the text.
[[nodiscard]] std::string fill(std::string_view text, std::initializer_list<Hole> holes);

}  // namespace postlude::inline v0
