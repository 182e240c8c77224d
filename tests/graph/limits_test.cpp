// Large, deep, cut and hostile texts: a graph or an Error with a place, in bounded time, memory and
// stack.
#include "graph/ir/equal.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace postlude {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The code of the error that the text gives, internal if it gives none.
ErrorCode parse_code(const std::string& text, const ParseLimits& limits = {}) {
  try {
    (void)parse(text, {}, "<text>", limits);
  } catch (const Error& error) { return error.code(); }
  return ErrorCode::internal;
}

std::string repeated(int times, const auto& line) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line(i);
  return text;
}
std::string numbered(const char* before, int i, const char* after) { return before + std::to_string(i) + after; }

TEST(Limits, TextCutAtAnyByte) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(POSTLUDE_SOURCE_DIR "/epilogues"))
    if (entry.path().stem() != "prelude") texts.push_back(read(entry.path()));
  std::istringstream golden(read(POSTLUDE_SOURCE_DIR "/tests/graph/language.golden"));
  bool printed = false;
  for (std::string line; std::getline(golden, line);) {
    if (line.starts_with("=== ")) texts.emplace_back();
    else if (line != "---" && !printed) texts.back() += line + '\n';
    printed = line == "---" || (printed && !line.starts_with("=== "));
  }
  ASSERT_GE(texts.size(), 60u);
  for (const std::string& text : texts) {
    for (std::size_t end = 0; end < text.size(); ++end) {
      try {
        (void)parse(std::string_view(text).substr(0, end));
      } catch (const Error& error) {
        ASSERT_NE(error.code(), ErrorCode::internal) << error.what();
        ASSERT_LT(static_cast<int>(error.code()), 300) << error.what();
        ASSERT_LE(error.where().span.line, std::count(text.begin(), text.end(), '\n') + 1) << error.what();
        ASSERT_TRUE(error.where().span.line > 0 || error.code() == ErrorCode::no_epilogue) << error.what();
      }
    }
  }
}

TEST(Limits, BytesThatAreNoText) {
  const std::string text = "def e(acc):\n    return acc + 1\n";
  EXPECT_EQ(parse_code(""), ErrorCode::no_epilogue);
  EXPECT_EQ(parse_code(std::string(1, '\0')), ErrorCode::syntax);
  EXPECT_EQ(parse_code(text + '\0'), ErrorCode::syntax);
  for (const char* bytes :
       {"\xff", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_EQ(parse_code(text + "# " + bytes + "\n"), ErrorCode::syntax);
    EXPECT_EQ(parse_code("def e(acc): return acc + " + std::string(bytes) + "\n"), ErrorCode::syntax);
  }
  EXPECT_EQ(parse_code("def e(acc): return acc + \xe2\x88\x9e\n"), ErrorCode::syntax);  // the sign of infinity
  EXPECT_EQ(parse_code("def e(acc): return acc + '\xe2\x88\x9e'\n"), ErrorCode::unsupported_syntax);
}

TEST(Limits, NamesNumbersAndStringsOfAMegabyte) {
  const std::size_t megabyte = 1 << 20;
  const std::string name(megabyte, 'x');
  EXPECT_EQ(parse_code("def " + name + "(acc): return acc"), ErrorCode::text_limit);
  EXPECT_EQ(parse_code("def e(acc): return acc + " + name), ErrorCode::text_limit);
  EXPECT_EQ(parse_code("def e(acc): return acc + " + std::string(megabyte, '9')), ErrorCode::syntax);
  EXPECT_EQ(parse_code("def e(acc): return acc + 0." + std::string(megabyte, '3')), ErrorCode::internal);  // a third
  EXPECT_EQ(parse_code("def e(acc): return acc + 1e" + std::string(megabyte, '9')), ErrorCode::syntax);
  EXPECT_EQ(parse_code("def e(acc): return {'" + name + "': acc}"), ErrorCode::bad_name);
  EXPECT_EQ(parse_code("def e(acc): return cast(acc, '" + name + "')"), ErrorCode::unknown_dtype);
  EXPECT_EQ(parse_code("def e(acc, b: '" + name + "'): return acc"), ErrorCode::unknown_dtype);
  EXPECT_EQ(parse_code("def e(acc):\n    '" + name + "'\n    return acc"), ErrorCode::internal);  // a docstring
  EXPECT_EQ(parse_code("def e(acc): return acc + 1" + std::string(megabyte, ' ') + "+"), ErrorCode::syntax);
  EXPECT_EQ(parse_code("#" + name, {.bytes = 1000}), ErrorCode::text_limit);
  try {
    (void)parse("def e(acc): return acc + " + name);
  } catch (const Error& error) { EXPECT_LT(std::string(error.what()).size(), 2000u); }
}

TEST(Limits, DepthOfNestingIsBounded) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string text = "def e(acc): return ";
    for (int i = 0; i < depth; ++i) text += open;
    text += "acc";
    for (int i = 0; i < depth; ++i) text += close;
    return text;
  };
  EXPECT_EQ(parse_code(nested(150, "(", ")")), ErrorCode::internal);
  EXPECT_EQ(parse_code(nested(190, "-", "")), ErrorCode::internal);
  for (const int depth : {300, 100'000}) {
    EXPECT_EQ(parse_code(nested(depth, "(", ")")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "(", "")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "[", "]")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "{1:", "}")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "exp(", ")")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "acc[", "]")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "-", "")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "~", "")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "+", "")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "acc ** ", "")), ErrorCode::text_limit);
    EXPECT_EQ(parse_code(nested(depth, "lambda: ", "")), ErrorCode::text_limit);
    EXPECT_NE(parse_code(nested(depth, "", ".x")), ErrorCode::internal);
    EXPECT_NE(parse_code(nested(depth, "", "()")), ErrorCode::internal);
    EXPECT_NE(parse_code(nested(depth, "", "[0]")), ErrorCode::internal);
  }
  std::string defs;
  for (int i = 0; i < 300; ++i) defs += std::string(static_cast<std::size_t>(i), ' ') + "def f(acc):\n";
  EXPECT_EQ(parse_code(defs), ErrorCode::text_limit);
  EXPECT_EQ(parse_code("def e(acc):\n    t = (acc,)\n" + repeated(10'000, [](int) { return "    t = (t,)\n"; }) +
                       "    return acc"),
            ErrorCode::text_limit);
}

TEST(Limits, ManyNodesAndGreatDepthWork) {
  constexpr int many = 10'000;
  const std::string chain =
      "def e(acc):\n    x = acc\n" + repeated(many, [](int) { return "    x = x + 1\n"; }) + "    return x\n";
  const std::string sum =
      "def e(acc):\n    return acc" + repeated(many, [](int i) { return numbered(" + acc * ", i, ".5"); }) + "\n";
  const std::string wide =
      "def e(acc):\n" +
      repeated(many, [](int i) { return numbered("    x", i, " = acc * ") + numbered("", i, ".5\n"); }) +
      "    return acc" + repeated(many, [](int i) { return numbered(" + x", i, ""); }) + "\n";
  const std::string defs =
      "def f0(x): return x * 2\n" +
      repeated(many, [](int i) { return numbered("def f", i + 1, "(x): return f") + numbered("", i, "(x) + 1\n"); }) +
      numbered("def e(acc): return f", many, "(acc)\n");
  const std::string outputs =
      "def e(acc):\n" +
      repeated(1000, [](int i) { return numbered("    x", i, " = acc * ") + numbered("", i, ".5\n"); }) +
      "    return x0" + repeated(999, [](int i) { return numbered(", x", i + 1, ""); }) + "\n";
  for (const std::string& text : {chain, sum, wide, defs, outputs}) {
    const Graph graph = parse(text);
    const std::string printed = graph.print();
    EXPECT_TRUE(same(parse(printed).data(), graph.data()));
    EXPECT_LT(printed.size(), 4 * text.size() + 1000);
  }
}

TEST(Limits, AreThoseThatAreGiven) {
  // Brackets within brackets, through helpers that are expanded too: five times as deep as in one expression.
  const std::string open = repeated(15, [](int) { return std::string("abs("); }), close(15, ')');
  const auto helpers = [&](int count) {
    return "def f0(x): return x, x\n" +
           repeated(count,
                    [&](int i) {
                      return numbered("def f", i + 1, "(x): return ") + open + numbered("f", i, "(x)[0]") + close +
                             ", x\n";
                    }) +
           numbered("def e(acc): return f", count, "(acc)[0]\n");
  };
  const ParseLimits shallow{.nesting = 20};
  EXPECT_EQ(parse_code(helpers(3), shallow), ErrorCode::internal);
  EXPECT_EQ(parse_code(helpers(8), shallow), ErrorCode::text_limit);
  // Expressions that no graph has count too: twice the nodes, and a thousand more.
  const auto unused = [](int terms) {
    return "def g(x): return x" + repeated(terms, [](int) { return std::string(" + x"); }) +
           "\ndef e(acc): return acc\n";
  };
  EXPECT_EQ(parse_code(unused(500), {.nodes = 1000}), ErrorCode::internal);
  EXPECT_EQ(parse_code(unused(1900), {.nodes = 1000}), ErrorCode::text_limit);
}

TEST(Limits, HelpersCannotExpandWithoutBound) {
  // Sixty doublings of a tuple, of a value and of the work without a value.
  const ParseLimits limits{.nodes = 100'000};
  const auto doubling = [](const std::string& first, const std::string& body, const std::string& last) {
    std::string text = first;
    for (int i = 0; i < 60; ++i) {
      std::string line = body;
      for (std::size_t at = 0; (at = line.find('#')) != std::string::npos;) line.replace(at, 1, std::to_string(i));
      for (std::size_t at = 0; (at = line.find('$')) != std::string::npos;) line.replace(at, 1, std::to_string(i + 1));
      text += line;
    }
    return text + last;
  };
  EXPECT_EQ(parse_code(doubling("def f0(x): return x, x\n", "def f$(x):\n    f#(x)[0] + f#(x)[1]\n", ""), limits),
            ErrorCode::unsupported_syntax);
  EXPECT_EQ(parse_code(doubling("def f0(x): return x, x\n", "def f$(x): return f#(x)[0] + f#(x)[1], x\n",
                                "def e(acc): return f60(acc)[0]\n"),
                       limits),
            ErrorCode::text_limit);
  EXPECT_EQ(parse_code(doubling("def f0(x): return sum(x)\n", "def f$(x): return f#(x) + f#(x)\n",
                                "def e(acc): return f60(acc)\n"),
                       limits),
            ErrorCode::text_limit);
  EXPECT_EQ(
      parse_code(doubling("def e(acc):\n    t = (acc, acc)\n", "    t = (t, t)\n", "    return t[0][0]\n"), limits),
      ErrorCode::no_output);
  // Elementwise helpers are called, not expanded.
  EXPECT_EQ(parse_code(doubling("def f0(x): return x + 1\n", "def f$(x): return f#(x) + f#(x)\n",
                                "def e(acc): return f60(acc)\n"),
                       limits),
            ErrorCode::internal);
  const std::string deep =
      "def f0(x): return sum(x, axis=1)\n" +
      repeated(10'000, [](int i) { return numbered("def f", i + 1, "(x): return f") + numbered("", i, "(x) + 1\n"); }) +
      "def e(acc): return f10000(acc)\n";
  EXPECT_EQ(parse_code(deep), ErrorCode::text_limit);
  EXPECT_EQ(
      parse_code("def e(acc):\n    return acc" + repeated(2000, [](int) { return " + acc * acc"; }), {.nodes = 1000}),
      ErrorCode::text_limit);
  EXPECT_EQ(parse_code("def e(acc): return chunk(acc, 1000000000)[0]"), ErrorCode::bad_attribute);
}

}  // namespace
}  // namespace postlude
