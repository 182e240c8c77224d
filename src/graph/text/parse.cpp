#include <postlude/parse.h>

#include "graph/text/elaborator.h"

#include <cstdio>
#include <memory>

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
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  const std::unique_ptr<std::FILE, Close> stream(file.find('\0') == std::string::npos ? std::fopen(file.c_str(), "rb")
                                                                                      : nullptr);
  if (!stream)
    throw Error(ErrorCode::cannot_read, "cannot read " + quoted(file),
                "Give the path of an epilogue: FILE.py or FILE.py:NAME.");
  const ParseLimits limits;
  std::string text;
  char block[1 << 16];
  std::size_t read = 0;
  while ((read = std::fread(block, 1, sizeof block, stream.get())) > 0) {
    text.append(block, read);
    if (text.size() > limits.bytes) break;  // parse() says so
  }
  if (std::ferror(stream.get()) != 0)
    throw Error(ErrorCode::cannot_read, "cannot read " + quoted(file),
                "Give the path of an epilogue: FILE.py or FILE.py:NAME.");
  return parse(text, name, file, limits);
}

}  // namespace postlude::inline v0
