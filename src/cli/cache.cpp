// postlude cache: the folder of compiled kernels.
#include "cli/commands.h"
#include "core/cache_folder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <system_error>

namespace postlude::inline v0::cli {
namespace {

namespace fs = std::filesystem;

struct Contents {
  std::int64_t files = 0;
  std::uintmax_t bytes = 0;
};

// Regular files directly in the folder: the cache makes no other.
template <class Visit>
void for_each_entry(const std::string& path, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->symlink_status(error).type() == fs::file_type::regular) visit(*at);
  }
}

Contents contents_of(const std::string& path) {
  Contents contents;
  for_each_entry(path, [&](const fs::directory_entry& entry) {
    std::error_code error;
    const std::uintmax_t size = entry.file_size(error);
    if (error) return;
    ++contents.files;
    contents.bytes += size;
  });
  return contents;
}

}  // namespace

Command add_cache(CLI::App& app, bool& json) {
  auto clear = std::make_shared<bool>(false);
  CLI::App* cache =
      app.add_subcommand("cache", "The folder where compiled GPU kernels are kept (the CPU compiles none)");
  cache->add_flag("--clear", *clear, "Remove its entries");
  return {cache, [clear, &json] {
            const core::CacheFolder folder = core::cache_folder(false);
            const bool usable = folder.exists && folder.unusable.empty();
            if (*clear && folder.exists && !usable) {
              throw Error(ErrorCode::cannot_write, folder.unusable, "What lies there is not touched.");
            }
            const Contents before = usable ? contents_of(folder.path) : Contents{};
            if (*clear && usable) {
              for_each_entry(folder.path, [](const fs::directory_entry& entry) {
                std::error_code error;
                if (!fs::remove(entry.path(), error) && error) {
                  throw Error(ErrorCode::cannot_write,
                              postlude::quoted(entry.path().string()) + " cannot be removed: " + error.message(),
                              "Check the folder's owner.");
                }
              });
            }
            if (json) {
              Json object = {{"folder", folder.path}, {"exists", folder.exists}, {"usable", folder.unusable.empty()},
                             {"files", before.files}, {"bytes", before.bytes},   {"cleared", *clear}};
              if (!folder.unusable.empty()) object["reason"] = folder.unusable;
              print(object);
              return Exit::ok;
            }
            std::string text = "folder   " + (folder.path.empty() ? "none" : folder.path) + "\n";
            if (!folder.unusable.empty()) text += "not used " + folder.unusable + "\n";
            else if (!folder.exists) text += "entries  none: it is made when a kernel is first compiled\n";
            else text += fmt::format("{}  {} ({} bytes)\n", *clear ? "removed" : "entries", before.files, before.bytes);
            print(text);
            return Exit::ok;
          }};
}

}  // namespace postlude::inline v0::cli
