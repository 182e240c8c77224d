#include "fuzz/corpus.h"

#include "fuzz/choices.h"
#include "fuzz/inputs.h"
#include "graph/ir/ir.h"

#include <postlude/parse.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace postlude::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_kept = 4096;  // bytes: long texts make slow cases

std::uint64_t hash(std::string_view text) {
  std::uint64_t h = text.size();
  for (const char c : text) h = mix(h ^ static_cast<unsigned char>(c));
  return h;
}

// A message without what is the text's own: names in quotes, and numbers.
std::string words_of(const std::string& message) {
  std::string words;
  bool quoted = false;
  for (const char c : message) {
    if (c == '\'') quoted = !quoted;
    else if (!quoted && !std::isdigit(static_cast<unsigned char>(c))) words += c;
  }
  return words;
}

}  // namespace

std::set<std::uint64_t> features(std::string_view text) {
  std::set<std::uint64_t> found;
  try {
    const Graph graph = parse(text, {}, "corpus.py", text_limits);
    const std::vector<Node>& nodes = graph.data().nodes;
    const auto add = [&](const auto&... parts) {
      std::uint64_t h = 0;
      (..., (h = mix(h ^ static_cast<std::uint64_t>(parts))));
      found.insert(h);
    };
    for (const Node& node : nodes) {
      add(node.op, node.reduction, node.axes.bits, node.dtype, node.round, node.group > 0, node.pieces > 0);
      for (const NodeId argument : node.args) add(node.op, nodes[static_cast<std::size_t>(argument)].op);
    }
    for (const OperandDecl& operand : graph.data().operands) add(1000, operand.axes.bits, operand.dtype.has_value());
    for (const OutputDecl& output : graph.data().outputs) add(1001, output.dtype.has_value(), output.axes.has_value());
  } catch (const Error& error) { found.insert(hash(words_of(error.message()))); }
  return found;
}

Corpus::Corpus(std::string folder, std::size_t most) : folder_(std::move(folder)), texts_(fuzz::texts()) {
  if (folder_.empty()) return;
  fs::create_directories(folder_);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // their names are numbers of six digits
  next_ = files.size();
  found_ = std::min(most, files.size());
  for (std::size_t i = 0; i < found_; ++i) {
    std::ifstream file(files[i], std::ios::binary);
    texts_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  for (const std::string& text : texts_) seen_.merge(features(text));
}

std::uint64_t Corpus::digest() const {
  std::uint64_t h = texts_.size();
  for (const std::string& text : texts_) h = mix(h ^ hash(text));
  return h;
}

void Corpus::see(std::string_view text) {
  if (folder_.empty() || text.size() > longest_kept) return;
  std::set<std::uint64_t> shown = features(text);
  if (std::includes(seen_.begin(), seen_.end(), shown.begin(), shown.end())) return;
  seen_.merge(shown);
  char name[16];
  // "x": two runs at once do not write one file.
  for (std::FILE* file = nullptr; file == nullptr && next_ < 1'000'000; ++next_) {
    std::snprintf(name, sizeof name, "/%06zu.py", next_);
    if ((file = std::fopen((folder_ + name).c_str(), "wxb")) == nullptr) continue;
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
}

}  // namespace postlude::fuzz
