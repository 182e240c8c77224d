#include "fuzz/inputs.h"

#include "cli/npy.h"
#include "cuda/run/cache.h"
#include "graph/ir/equal.h"

#include <postlude/parse.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace postlude::fuzz {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Words that a random byte would not find.
constexpr const char* words[] = {"acc",
                                 "(",
                                 ")",
                                 "[",
                                 "]",
                                 "{",
                                 "}",
                                 ",",
                                 ":",
                                 "=",
                                 "+",
                                 "-",
                                 "*",
                                 "**",
                                 "/",
                                 "//",
                                 "%",
                                 "~",
                                 "&",
                                 "|",
                                 "<",
                                 ">=",
                                 "==",
                                 "\n",
                                 "\n    ",
                                 "    ",
                                 "\t",
                                 "\\\n",
                                 "#",
                                 "'",
                                 "\"",
                                 "\"\"\"",
                                 "def f(x):",
                                 "return ",
                                 "lambda a, b: ",
                                 "chunk(acc, 2)",
                                 "concat((acc, acc))",
                                 "sum(acc, axis=1)",
                                 "reduce((acc, acc), combine=lambda a, b, c, d: (a, b), identity=(0, 1))",
                                 "[0]",
                                 "post.",
                                 ": bf16",
                                 ": row",
                                 "inf",
                                 "nan",
                                 "-inf",
                                 "1e308",
                                 "0x7fffffffffffffff",
                                 "9223372036854775808",
                                 "True",
                                 "None",
                                 "axis=",
                                 "group=2",
                                 "if ",
                                 "random(1)",
                                 "max(",
                                 "gelu(",
                                 "cast(acc, e4m3)",
                                 "_",
                                 "D"};

std::size_t below(Choices& choices, std::size_t count) {
  return static_cast<std::size_t>(choices.below(static_cast<std::int64_t>(count)));
}

// Some bytes of it changed, lost, repeated or new.
void damage(Choices& choices, std::string& bytes) {
  for (std::int64_t change = 1 + choices.below(4); change > 0; --change) {
    const std::size_t at = below(choices, bytes.size() + 1), length = std::min(below(choices, 12), bytes.size() - at);
    switch (choices.below(6)) {
      case 0: bytes.resize(at); break;
      case 1: bytes.erase(at, length); break;
      case 2: bytes.insert(at, bytes.substr(below(choices, bytes.size() + 1), 16)); break;
      case 3: bytes.insert(at, length, static_cast<char>(choices.next())); break;
      default:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << choices.below(8)));
    }
  }
}

// A new folder under the temporary one, gone with the object.
struct Folder {
  fs::path path;
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "postlude-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

}  // namespace

std::vector<std::string> texts() {
  std::vector<std::string> texts;
  for (const char* folder : {"/epilogues", "/tests/fuzz/corpus"}) {
    for (const auto& entry : fs::directory_iterator(POSTLUDE_SOURCE_DIR + std::string(folder)))
      texts.push_back(contents(entry.path()));
  }
  for (const char* golden : {"/tests/graph/language.golden", "/tests/errors/text.golden"}) {
    std::istringstream lines(contents(POSTLUDE_SOURCE_DIR + std::string(golden)));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("=== ") || line == "---") texts.emplace_back();
      else if (!texts.empty()) texts.back() += line + '\n';
    }
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

std::string mutated_text(Choices& choices, const std::vector<std::string>& corpus) {
  std::string text = choices.pick(corpus);
  for (std::int64_t change = 1 + choices.below(4); change > 0; --change) {
    const std::size_t at = below(choices, text.size() + 1), length = std::min(below(choices, 12), text.size() - at);
    switch (choices.below(6)) {
      case 0: text.insert(at, choices.pick(words)); break;
      case 1: text.replace(at, length, choices.pick(words)); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(below(choices, text.size() + 1), text.substr(at, below(choices, 200))); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(choices.next());
        break;
      default: {
        const std::string& other = choices.pick(corpus);
        text.insert(at, other, below(choices, other.size() + 1), below(choices, 200));
      }
    }
  }
  return text;
}

std::string random_npy(Choices& choices) {
  constexpr const char* types[] = {"<f4", ">f4", "<f8", "<f2", "|b1", "|i1", "|u1",
                                   "<i2", ">i4", "<i8", "<u8", "<V2", "|V1", "|O",
                                   "<c8", "<U4", "f4",  "<f3", "",    "=f4", "[('x', '<f4')]"};
  constexpr const char* extents[] = {
      "0",    "1",   "2", "3", "7", "2L", "-1", "4294967296", "9223372036854775807", "92233720368547758070",
      "True", "1.0", ""};
  const std::string type = choices.pick(types);
  std::string shape;
  std::int64_t count = 1;
  for (std::int64_t axes = choices.below(6); axes > 0; --axes) {
    const std::string extent = extents[choices.chance(90) ? choices.below(5) : choices.below(std::size(extents))];
    count *= extent.size() == 1 ? std::stoll(extent) : 1;
    shape += extent + (axes > 1 || choices.chance(95) ? "," : "");
  }
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + (choices.chance(30) ? "True" : "False") +
                       ", 'shape': (" + shape + "), }\n";
  const auto version = choices.chance(95) ? 1 + choices.below(3) : choices.below(256);
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  const std::size_t said = header.size() + (choices.chance(95) ? 0 : below(choices, 70000));
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(said >> (8 * i) & 0xff);
  bytes += header;
  const std::int64_t width = type.size() == 3 && type[2] >= '1' && type[2] <= '8' ? type[2] - '0' : 1;
  for (std::int64_t i = 0; i < count * width; ++i) bytes += static_cast<char>(choices.next());
  if (choices.chance(30)) damage(choices, bytes);
  return bytes;
}

std::string check_text(std::string_view text) {
  const auto wrong = [&](const std::string& what) { return what + "\n--- text\n" + std::string(text) + "\n---"; };
  Graph graph;
  try {
    graph = parse(text, {}, "fuzz.py", text_limits);
  } catch (const Error& error) {
    const bool kind = static_cast<int>(error.code()) < 300;
    return kind ? "" : wrong(std::string("an error of the wrong kind: ") + error.what());
  }
  const std::string printed = graph.print();
  try {
    const Graph again = parse(printed, {}, "printed.py");
    if (!same(graph.data(), again.data())) return wrong("the printed graph is another one:\n" + printed);
    if (again.print() != printed) return wrong("the printed graph prints otherwise:\n" + printed);
  } catch (const Error& error) { return wrong("the printed graph does not parse:\n" + printed + error.what()); }
  return "";
}

std::string check_npy(const std::string& bytes, Choices& choices) {
  static const Folder folder;
  const std::string path = (folder.path / "x.npy").string();
  const auto want = choices.chance(50) ? std::nullopt : std::optional(static_cast<DType>(choices.below(dtype_count)));
  const auto wrong = [](const std::string& what) { return "a .npy file: " + what; };
  try {
    overwrite(path, bytes);
    cli::Array array = cli::read_npy(path, want);
    if (want && array.dtype != *want) return wrong("the array is not of the dtype that was asked for");
    if (static_cast<std::int64_t>(array.bytes.size()) != array.elements() * size_of(array.dtype))
      return wrong("the array has " + std::to_string(array.bytes.size()) + " bytes");
    if (array.shape.size() > Tensor::max_rank) return wrong("the array has too many axes");
    // A bf16 or fp8 is written as an f4 that has its value, and NaNs of other payloads are one then.
    cli::write_npy(path, array.view());
    const cli::Array once = cli::read_npy(path, array.dtype);
    cli::write_npy(path, cli::read_npy(path, array.dtype).view());
    const cli::Array again = cli::read_npy(path, array.dtype);
    if (once.shape != array.shape || once.bytes != again.bytes)
      return wrong("the array is another one when read again");
    const bool widened = is_float(array.dtype) && array.dtype != f32 && array.dtype != f16;
    if (!widened && once.bytes != array.bytes) return wrong("the array is another one after it was written");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_npy) return wrong(std::string("an error of the wrong kind: ") + error.what());
  }
  return "";
}

std::string check_cache(Choices& choices) {
  static const Folder parent;
  const fs::path folder = parent.path / "cache";
  setenv("POSTLUDE_CACHE_DIR", folder.c_str(), 1);
  const auto made = [](int key, int version) {
    return std::string(static_cast<std::size_t>(1 + 700 * key), static_cast<char>('a' + version));
  };
  const auto name = [](int key) { return "key " + std::to_string(key); };
  const auto get = [&](int key, int version) { return cuda::cached(name(key), [&] { return made(key, version); }); };
  // An entry is whole if it is what some version made.
  const auto whole = [&](int key, const std::string& entry) {
    for (int version = 0; version < 8; ++version)
      if (entry == made(key, version)) return true;
    return false;
  };
  const auto entries = [&] {
    std::vector<fs::path> found;
    if (fs::is_directory(folder)) {
      for (const auto& file : fs::directory_iterator(folder))
        if (file.path().extension() == ".cubin") found.push_back(file.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  for (std::int64_t step = 2 + choices.below(8); step > 0; --step) {
    const int key = static_cast<int>(choices.below(3)), version = static_cast<int>(choices.below(8));
    const std::string entry = get(key, version);
    if (!whole(key, entry)) return "key " + std::to_string(key) + " gives an entry that nobody made: " + entry;
    const auto found = entries();
    if (found.empty()) continue;
    const fs::path path = choices.pick(found), other = choices.pick(found);
    std::error_code ignored;
    switch (choices.below(9)) {
      case 0: {
        std::string bytes = contents(path);
        damage(choices, bytes);
        overwrite(path, bytes);
        break;
      }
      case 1: fs::remove(path, ignored); break;
      case 2: fs::copy_file(other, path, fs::copy_options::overwrite_existing, ignored); break;
      case 3:
        fs::remove(path, ignored);
        fs::create_symlink(other, path, ignored);
        break;
      case 4:
        fs::remove(path, ignored);
        fs::create_directory(path, ignored);
        break;
      case 5: fs::permissions(path, fs::perms::all, ignored); break;
      case 6: fs::permissions(folder, choices.chance(50) ? fs::perms::all : fs::perms::owner_all, ignored); break;
      case 7: overwrite(folder / (".writing-" + std::to_string(step)), contents(path)); break;
      default:
        // A writer that is killed leaves an entry that is whole, or none.
        fs::remove_all(path, ignored);
        if (const pid_t writer = fork(); writer == 0) {
          for (int round = 0;; ++round) {
            (void)get(key, round % 8);
            for (const fs::path& written : entries()) fs::remove(written, ignored);
          }
        } else if (writer > 0) {
          usleep(static_cast<useconds_t>(choices.below(3000)));
          kill(writer, SIGKILL);
          waitpid(writer, nullptr, 0);
        }
    }
  }
  fs::permissions(folder, fs::perms::owner_all);
  fs::remove_all(folder);
  return "";
}

}  // namespace postlude::fuzz
