// postlude ops: the op table as a manual page.
#include "graph/ir/ops.h"
#include "cli/commands.h"
#include "cli/terminal.h"

#include <postlude/function.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace postlude::inline v0::cli {
namespace {

// A heading of the page and the operations below it.
struct Section {
  const char* title;
  bool (*has)(const OpInfo&);
};

bool is_logic(const OpInfo& op) {
  return op.rule == TypeRule::compare || op.rule == TypeRule::bitwise || op.rule == TypeRule::select;
}

constexpr Section sections[] = {
    {"ARITHMETIC", [](const OpInfo& op) { return is_elementwise(op.op) && op.rule == TypeRule::arithmetic; }},
    {"ELEMENTARY FUNCTIONS, IN F32",
     [](const OpInfo& op) { return is_elementwise(op.op) && op.rule == TypeRule::real; }},
    {"COMPARISONS AND LOGIC", [](const OpInfo& op) { return is_logic(op); }},
    {"CONVERSION", [](const OpInfo& op) { return op.rule == TypeRule::cast; }},
    {"LEAVES", [](const OpInfo& op) { return op.rule == TypeRule::leaf; }},
    {"SHAPE", [](const OpInfo& op) { return op.op == Op::chunk || op.op == Op::concat || op.op == Op::repeat; }},
};

// As it is written: "a + b", "exp(x)", "acc".
std::string usage(const OpInfo& op) {
  const std::string spelling(op.spelling);
  const bool is_operator =
      !spelling.empty() && std::string_view("+-*/=!<>&|~").find(spelling[0]) != std::string_view::npos;
  if (is_operator) return op.arity == 1 ? spelling + "x" : "a " + spelling + " b";
  switch (op.op) {
    case Op::acc: return spelling;
    case Op::where: return "where(condition, a, b)";
    case Op::cast: return "cast(x, dtype, round=nearest_even)";
    case Op::scaled: return "scaled(s, x)";
    case Op::random: return "random(seed, stream=0)";
    case Op::chunk: return "chunk(x, k, group=None)";
    case Op::concat: return "concat(parts, group=None)";
    case Op::repeat: return "repeat(x, group, axis=1)";
    case Op::fma: return "fma(a, b, c)";
    default: break;
  }
  constexpr const char* arguments[] = {"()", "(x)", "(a, b)"};
  return spelling + arguments[std::clamp(op.arity, 0, 2)];
}

std::string error_text(const OpInfo& op) {
  if (!is_elementwise(op.op)) return "";
  if (op.ulps == 0) return "exact";
  return op.ulps == 0.5 ? "rounded" : fmt::format("{} ulps", op.ulps);
}

std::string reduction_usage(const ReductionInfo& reduction) {
  if (reduction.op == ReduceOp::custom) return "reduce((v, ...), combine, identity, axis=None)";
  return std::string(reduction.spelling) + "(x, axis=None)";
}

// "  usage          error    doc", the doc wrapped to `columns`.
std::string entry(const std::string& usage, const std::string& error, const std::string& doc, const Style& style) {
  constexpr std::size_t usage_width = 36, error_width = 9, columns = 100;
  std::string line =
      "  " + style.bold(usage) + std::string(usage.size() < usage_width ? usage_width - usage.size() : 1, ' ');
  line += style.dim(error) + std::string(error.size() < error_width ? error_width - error.size() : 1, ' ');
  const std::string margin(2 + usage_width + error_width, ' ');
  std::size_t column = std::max(margin.size(), 3 + usage.size() + error_width);
  std::string text = line;
  for (std::size_t at = 0; at < doc.size();) {
    const std::size_t end = std::min(doc.find_first_of(" \n", at), doc.size());
    if (column + end - at > columns && column > margin.size()) {
      text += '\n' + margin;
      column = margin.size();
    } else if (at > 0) {
      text += ' ';
      ++column;
    }
    text += doc.substr(at, end - at);
    column += end - at;
    at = end + 1;
  }
  return text + '\n';
}

bool matches(const std::string& wanted, std::string_view id, std::string_view spelling) {
  return wanted.empty() || wanted == id || wanted == spelling;
}

std::string page(const std::string& wanted) {
  const Style style(stdout);
  std::string text;
  const auto section = [&](const std::string& title, const std::string& body) {
    if (body.empty()) return;
    if (!text.empty()) text += '\n';
    if (wanted.empty()) text += style.bold(title) + '\n';
    text += body;
  };
  for (const Section& s : sections) {
    std::string body;
    for (const OpInfo& op : op_table) {
      if (s.has(op) && !op.spelling.empty() && matches(wanted, op.id, op.spelling)) {
        body += entry(usage(op), error_text(op), std::string(op.doc), style);
      }
    }
    section(s.title, body);
  }
  std::string body;
  for (const ReductionInfo& reduction : reduction_table) {
    if (matches(wanted, "", reduction.spelling))
      body += entry(reduction_usage(reduction), "", std::string(reduction.doc), style);
  }
  section("REDUCTIONS", body);
  if (wanted.empty()) {
    text +=
        "\n  axis=0 reduces over the rows and gives a row, axis=1 over the columns and gives a col, no axis over "
        "both;\n"
        "  group=g gives a partial result every g columns (or rows), batch=True goes across the batch as well.\n";
  }
  body.clear();
  for (const FunctionInfo& function : functions()) {
    if (matches(wanted, function.name, function.name)) {
      body += entry(function.signature, function.native ? "native" : "", function.doc, style);
    }
  }
  section("FUNCTIONS WRITTEN IN THE LANGUAGE", body);
  if (!wanted.empty()) return text;
  return style.bold("NAME") + "\n  The operations of the epilogue language.\n\n" + style.bold("ERRORS") +
         "\n  exact: no rounding. rounded: the nearest f32. n ulps: the most that any backend may be off, in units in "
         "the last\n"
         "  place of the result.\n\n" +
         style.bold("NaN, INFINITIES, ZEROS, OVERFLOW") + R"(
  As IEEE 754 and C's functions: 1 / 0 is inf, 0 / 0 nan, log(0) -inf, log(-1) and sqrt(-1) nan, tanh(inf) 1, sin(inf)
  nan. A nan gives nan, but pow(x, 0) and pow(1, x) are 1, and where is what it chooses. A comparison with nan is false,
  but != is true. -0 equals 0; sqrt, tanh and their kind keep its sign. Denormal numbers count in arithmetic; what a
  function gives below 2^-126 may be 0. i32 and i64 wrap around.

)" + text;
}

Json to_json(const std::string& wanted) {
  Json json = {{"operations", Json::array()}, {"reductions", Json::array()}, {"functions", Json::array()}};
  for (const OpInfo& op : op_table) {
    if (op.spelling.empty() || !matches(wanted, op.id, op.spelling)) continue;
    Json entry = {{"name", op.id}, {"spelling", op.spelling}, {"arity", op.arity}, {"doc", op.doc}};
    if (is_elementwise(op.op)) entry["ulps"] = op.ulps;
    json["operations"].push_back(entry);
  }
  for (const ReductionInfo& reduction : reduction_table) {
    if (matches(wanted, "", reduction.spelling))
      json["reductions"].push_back({{"name", reduction.spelling}, {"doc", reduction.doc}});
  }
  for (const FunctionInfo& f : functions()) {
    if (!matches(wanted, f.name, f.name)) continue;
    json["functions"].push_back({{"name", f.name},
                                 {"signature", f.signature},
                                 {"native", f.native},
                                 {"doc", f.doc},
                                 {"derivatives", f.derivatives}});
  }
  return json;
}

// Throws unless something has the name.
void check_known(const std::string& wanted) {
  std::vector<std::string> names;
  for (const OpInfo& op : op_table) {
    if (op.spelling.empty()) continue;
    names.emplace_back(op.id);
    names.emplace_back(op.spelling);
  }
  for (const ReductionInfo& reduction : reduction_table) names.emplace_back(reduction.spelling);
  for (const FunctionInfo& function : functions()) names.push_back(function.name);
  if (wanted.empty() || std::find(names.begin(), names.end(), wanted) != names.end()) return;
  const std::string guess = closest(wanted, names);
  throw Error(ErrorCode::undefined_name, postlude::quoted(wanted) + " is no operation of the language",
              guess.empty() ? "`postlude ops` lists them." : "Did you mean " + postlude::quoted(guess) + "?");
}

}  // namespace

Command add_ops(CLI::App& app, bool& json) {
  auto wanted = std::make_shared<std::string>();
  CLI::App* ops = app.add_subcommand("ops", "The operations, reductions and functions of the epilogue language");
  ops->add_option("name", *wanted, "Only this one")->type_name("NAME");
  return {ops, [wanted, &json] {
            check_known(*wanted);
            if (json) print(to_json(*wanted));
            else print(page(*wanted));
            return Exit::ok;
          }};
}

}  // namespace postlude::inline v0::cli
