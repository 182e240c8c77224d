// Schedules as text, and back.
#include "cuda/choose/schedule.h"

#include "core/divide.h"

#include <postlude/error.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace postlude::inline v0::cuda {

static const char* kind(const Schedule& s) {
  return s.mma ? "mma" : s.ping_pong ? "pingpong" : s.abreast ? "abreast" : "cooperative";
}

std::string to_string(const Schedule& s) {
  char text[160];
  if (s.images && !s.strips) {
    std::snprintf(text, sizeof text, "bands %dx%d sub %dx%d aux %d rows %d images %d", s.bm, s.bn, s.sub_n, s.d_buffers,
                  s.aux_stages, s.strip_y, s.images);
    return text + (s.ring ? " ring " + std::to_string(s.ring) : std::string()) + (s.beside ? " beside" : "");
  }
  if (s.strips) {
    std::snprintf(text, sizeof text, "direct %dx%d strip %dx%d", s.strips, s.bn, s.strip_x, s.strip_y);
    return text + (s.images ? " images " + std::to_string(s.images) : std::string());
  }
  if (s.strip_x) {
    std::snprintf(text, sizeof text, "stencil %dx%d sub %dx%d aux %d strip %dx%d", s.bm, s.bn, s.sub_n, s.d_buffers,
                  s.aux_stages, s.strip_x, s.strip_y);
    return text;
  }
  std::snprintf(text, sizeof text, "%s %dx%dx%d sub %dx%d aux %d raster %d", kind(s), s.bm, s.bn, s.stages, s.sub_n,
                s.d_buffers, s.aux_stages, s.raster);
  const std::string cluster = " cluster " + std::to_string(s.cluster_m) + "x" + std::to_string(s.cluster_n);
  return text + (cluster_tiles(s) > 1 ? cluster : "") + (s.meets ? " meets" : "") +
         (s.split > 1 ? " split " + std::to_string(s.split) : "") + (s.by_memory ? " by memory" : "") +
         (s.in_shares ? " in shares" : "") + (s.at_end ? " at end" : "") + (s.shifted_a ? " A" : "") +
         (s.shifted_a && s.shifted ? " and B" : "") + (s.shifted || s.shifted_a ? " shifted" : "") +
         (s.again ? " again" : "") + (s.parks ? " parks" : "") + (s.looped ? " looped" : "");
}

// What follows from a direct stencil's strips: a row's pixels, four a fragment, are the columns of a subtile.
Schedule direct(Schedule s) {
  s.mma = true, s.stages = 2, s.raster = 1, s.d_buffers = 1, s.aux_stages = 0, s.bm = 64;
  s.sub_n = static_cast<int>(std::min<std::int64_t>(1 << 20, 16 * ceil_div(std::int64_t{s.strip_x}, 4)));
  return s;
}

// Where a text stops being a schedule, of whose first eight parts `read` were found, and behind these `rest`.
static std::string unread(std::string_view kind, int read, std::string_view rest) {
  if (kind == "stencil") return "write it as \"stencil 256x32 sub 32x1 aux 2 strip 14x4\"";
  if (kind == "bands") return "write it as \"bands 256x32 sub 32x1 aux 2 rows 2 images 1\"";
  if (kind == "direct") return "write it as \"direct 4x96 strip 4x8\"";
  if (kind != "pingpong" && kind != "cooperative" && kind != "abreast" && kind != "mma")
    return "it begins with none of pingpong, cooperative, abreast, mma, stencil, bands and direct";
  if (read == 8)
    return "\"" + std::string(rest.substr(rest.find_first_not_of(' '))) + "\" is unknown, or has another place";
  return "behind \"" + std::string(kind) + "\" it has no " +
         (read < 4   ? "tile and stages, as 128x128x4"
          : read < 6 ? "sub 64x2"
          : read < 7 ? "aux 0"
                     : "raster 8");
}

Error unreadable(std::string_view text, const std::string& why) {
  return {ErrorCode::bad_schedule, "the schedule " + postlude::quoted(text) + " cannot be read: " + why,
          "Write it as explain prints it, such as \"" + to_string(Schedule{}) + "\"."};
}

// %9d: a longer number would wrap.
Schedule parse_schedule(std::string_view text) {
  Schedule s;
  char kind[16] = {};
  int length = 0, more = 0;
  const std::string copy(text.substr(0, 200));
  if (std::sscanf(copy.c_str(), "stencil %9dx%9d sub %9dx%9d aux %9d strip %9dx%9d%n", &s.bm, &s.bn, &s.sub_n,
                  &s.d_buffers, &s.aux_stages, &s.strip_x, &s.strip_y, &length) == 7 &&
      static_cast<std::size_t>(length) == text.size() && s.strip_x > 0) {
    s.mma = true, s.stages = 2, s.raster = 1;
    return s;
  }
  s = Schedule{};
  if (std::sscanf(copy.c_str(), "direct %9dx%9d strip %9dx%9d%n", &s.strips, &s.bn, &s.strip_x, &s.strip_y, &length) ==
          4 &&
      s.strips > 0 && s.strip_x > 0) {
    if (std::sscanf(copy.c_str() + length, " images %9d%n", &s.images, &more) == 1) length += more;
    if (static_cast<std::size_t>(length) == text.size() && s.images >= (more ? 1 : 0)) return direct(s);
  }
  s = Schedule{}, more = 0;
  if (std::sscanf(copy.c_str(), "bands %9dx%9d sub %9dx%9d aux %9d rows %9d images %9d%n", &s.bm, &s.bn, &s.sub_n,
                  &s.d_buffers, &s.aux_stages, &s.strip_y, &s.images, &length) == 7 &&
      s.images > 0) {
    if (std::sscanf(copy.c_str() + length, " ring %9d%n", &s.ring, &more) == 1) {
      length += more;
      s.beside = s.ring > 0 && copy.substr(static_cast<std::size_t>(length)) == " beside";
      if (s.beside) length += 7;
    }
    s.mma = true, s.stages = 2, s.raster = 1, s.strip_x = 8;
    if (static_cast<std::size_t>(length) == text.size() && s.ring >= 0) return s;
  }
  s = Schedule{}, more = 0;
  const int read = std::sscanf(copy.c_str(), "%15s %9dx%9dx%9d sub %9dx%9d aux %9d raster %9d%n", kind, &s.bm, &s.bn,
                               &s.stages, &s.sub_n, &s.d_buffers, &s.aux_stages, &s.raster, &length);
  if (read == 8 && std::sscanf(copy.c_str() + length, " cluster %9dx%9d%n", &s.cluster_m, &s.cluster_n, &more) == 2)
    length += std::exchange(more, 0);
  const auto take = [&](std::string_view word) {
    const bool found = std::string_view(copy).substr(length).starts_with(word);
    if (found) length += static_cast<int>(word.size());
    return found;
  };
  s.meets = take(" meets");
  if (read == 8 && std::sscanf(copy.c_str() + length, " split %9d%n", &s.split, &more) == 1) length += more;
  s.by_memory = more && take(" by memory");
  s.in_shares = s.by_memory && take(" in shares");
  s.at_end = s.by_memory && take(" at end");
  const bool both = take(" A and B shifted");
  s.shifted_a = both || take(" A shifted"), s.shifted = both || take(" shifted"), s.again = take(" again");
  s.parks = take(" parks"), s.looped = take(" looped");
  const std::string_view name = kind;
  if (read != 8 || static_cast<std::size_t>(length) != text.size() ||
      (name != "pingpong" && name != "cooperative" && name != "abreast" && name != "mma")) {
    throw unreadable(text, unread(kind, read, std::string_view(copy).substr(length)));
  }
  s.mma = name == "mma";
  s.ping_pong = name != "cooperative" && name != "abreast", s.abreast = name == "abreast";
  return s;
}

}  // namespace postlude::inline v0::cuda
