#include <postlude/parse.h>

#include "graph/text/elaborator.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

namespace postlude::inline v0 {

namespace {

Source source_of(std::string_view text, std::string_view file) {
  return {std::string(file), std::make_shared<const std::string>(text)};
}

}  // namespace

Graph parse(std::string_view text, std::string_view name, std::string_view file, const ParseLimits& limits) {
  const Source source = source_of(text, file);
  const text::Tree tree = text::read(source, limits);
  return text::Elaborator(source, tree, limits, find_function).epilogue(name);
}

std::vector<std::string> epilogue_names(std::string_view text, std::string_view file) {
  const Source source = source_of(text, file);
  const text::Tree tree = text::read(source, {});
  std::vector<std::string> names;
  for (const text::Def& def : tree.defs)
    if (!def.nested) names.emplace_back(def.name);
  return names;
}

Graph parse_file(const std::string& path) {
  std::string file = path, name;
  // A colon after the last slash separates the name; "C:\x.py" has none that a def could be called.
  if (const std::size_t colon = path.rfind(':'); colon != std::string::npos && is_identifier(path.substr(colon + 1))) {
    file = path.substr(0, colon);
    name = path.substr(colon + 1);
  }
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::cannot_read, "cannot read " + postlude::quoted(file) + why,
                "Give the path of an epilogue: FILE.py or FILE.py:NAME.");
  };
  if (file.find('\0') != std::string::npos) fail("");
  // Opening a named pipe waits for a writer; one of /dev (a shell's) has been opened.
  std::error_code unknown;
  const bool pipe = std::filesystem::status(file, unknown).type() == std::filesystem::file_type::fifo;
  if (pipe && !file.starts_with("/dev/")) fail(": it is a named pipe");
  struct Close {
    void operator()(std::FILE* opened) const { std::fclose(opened); }
  };
  const auto system = [] { return ": " + std::generic_category().message(errno != 0 ? errno : EIO); };
  errno = 0;
  const std::unique_ptr<std::FILE, Close> opened(std::fopen(file.c_str(), "rb"));
  if (!opened) fail(system());
  const ParseLimits limits;
  std::string text;
  char block[1 << 16];
  std::size_t read = 0;
  while ((read = std::fread(block, 1, sizeof block, opened.get())) > 0) {
    text.append(block, read);
    if (text.size() > limits.bytes) break;  // parse() says so
  }
  if (std::ferror(opened.get()) != 0) fail(system());
  return parse(text, name, file, limits);
}

}  // namespace postlude::inline v0
