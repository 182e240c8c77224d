#include "core/fill.h"

#include <postlude/error.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace postlude::inline v0 {

std::string fill(std::string_view text, std::initializer_list<Hole> holes) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string filled;
  std::uint64_t used = 0;  // bits of holes
  for (std::size_t at = text.find('$'); at != text.npos; at = text.find('$')) {
    const bool braces = at + 1 < text.size() && text[at + 1] == '{';
    const std::size_t begin = at + (braces ? 2 : 1);
    std::size_t end = begin;
    while (end < text.size() && in_name(text[end])) ++end;
    const std::string_view name = text.substr(begin, end - begin);
    const auto* const hole = std::find_if(holes.begin(), holes.end(), [&](const Hole& h) { return h.name == name; });
    const bool closed = !braces || (end < text.size() && text[end] == '}');
    if (hole == holes.end() || !closed)
      throw Error(ErrorCode::internal, "nothing fills \"" + std::string(text.substr(at, end - at)) + "\"");
    used |= std::uint64_t{1} << (hole - holes.begin());
    filled.append(text.substr(0, at)).append(hole->text);
    text.remove_prefix(end + (braces ? 1 : 0));
  }
  for (const Hole& hole : holes)
    if ((used >> (&hole - holes.begin()) & 1) == 0)
      throw Error(ErrorCode::internal, "no hole is called \"" + std::string(hole.name) + "\"");
  return filled.append(text);
}

}  // namespace postlude::inline v0
