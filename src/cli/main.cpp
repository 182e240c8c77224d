// The command postlude: data to stdout, everything else to stderr, and an exit code that says what
// went wrong.
#include "cli/commands.h"
#include "cli/terminal.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>

namespace postlude::inline v0::cli {

void print(const Json& json) { print(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n'); }
void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

namespace {

constexpr const char* help = "`postlude --help` lists the commands, `postlude COMMAND --help` the options of one.";

// To stderr for people; with --json as an object on stdout too.
Exit report(const Error& error, bool json) {
  if (json) {
    Json object = {{"code", to_string(error.code())}, {"message", error.message()}};
    for (const ErrorInfo& info : error_table()) {
      if (info.code == error.code()) object["name"] = info.name;
    }
    if (!error.hint().empty()) object["hint"] = error.hint();
    if (error.where().span.line > 0) {
      object["file"] = error.where().file;
      object["line"] = error.where().span.line;
      object["column"] = error.where().span.column;
    }
    print(Json{{"error", object}});
  }
  const Style style(stderr);
  std::string text = error.what();
  if (const std::size_t at = text.find("error PL"); at != std::string::npos && at < text.find('\n')) {
    text.replace(at, 12, style.red(text.substr(at, 12)));
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  return exit_code(error.code());
}

// The first command or option of the line that does not exist; none if all do.
std::optional<Error> unknown(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const bool option = word.starts_with("--");
    if (!option && (command != &app || word.starts_with('-'))) continue;
    if (option) word = word.substr(0, word.find('='));
    std::vector<std::string> names;
    if (option) {
      for (const CLI::Option* known : command->get_options())
        for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    } else {
      for (const CLI::App* known : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(known->get_name());
    }
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      const std::string near = closest(word, names);
      return Error(ErrorCode::usage, (option ? "there is no option " : "there is no command ") + postlude::quoted(word),
                   near.empty() ? help : "Did you mean '" + near + "'?");
    }
    if (!option) command = app.get_subcommand(word);
  }
  return std::nullopt;
}

// A line that CLI11 does not take, in our words where its own say little.
Error not_taken(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> commands = app.get_subcommands();  // which it has read
  if (commands.empty())
    return {ErrorCode::usage, error.get_name() == "RequiredError" ? "no command is given" : error.what(), help};
  const std::string name = commands.back()->get_name(), text = error.what();
  if (text == "epilogue is required")
    return {ErrorCode::usage, "no epilogue is given", "Name its file: postlude " + name + " FILE.py --gemm MxNxK."};
  constexpr std::string_view unreadable = "Could not convert: ";
  return {ErrorCode::usage, text.starts_with(unreadable) ? "not a number: " + text.substr(unreadable.size()) : text,
          "`postlude " + name + " --help` lists its options."};
}

Exit dispatch(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  throw Error(ErrorCode::internal, "no command ran");
}

Exit run(int argc, char** argv) {
  CLI::App app("Write what happens after the matmul as math; get one kernel.", "postlude");
  app.set_version_flag("--version", "postlude " POSTLUDE_VERSION);
  app.require_subcommand(1);
  bool json = false;
  const std::vector<Command> commands = {add_run(app, json), add_explain(app, json), add_ops(app, json),
                                         add_doctor(app, json), add_cache(app, json)};
  for (const Command& command : commands) command.app->add_flag("--json", json, "Print JSON");
  app.footer(
      "Exit codes: 0 ok, 1 a check failed, 2 wrong usage or input, 3 unsupported, 4 something is missing, 5 a bug of "
      "ours.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return static_cast<Exit>(app.exit(error));  // --help, --version
    for (int i = 1; i < argc; ++i) json |= std::strcmp(argv[i], "--json") == 0;
    return report(unknown(app, argc, argv).value_or(not_taken(app, error)), json);
  }
  try {
    const Exit exit = dispatch(commands);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw Error(ErrorCode::cannot_write,
                  std::string("the standard output cannot be written: ") + std::strerror(errno), "Check its disk.");
    }
    return exit;
  } catch (const Error& error) { return report(error, json); } catch (const std::bad_alloc&) {
    return report(Error(ErrorCode::out_of_memory, "there is not enough memory for this", "Try smaller sizes."), json);
  } catch (const std::length_error&) {  // of a container: the same, asked for more than any memory
    return report(Error(ErrorCode::out_of_memory, "there is not enough memory for this", "Try smaller sizes."), json);
  } catch (const std::exception& error) {
    return report(Error(ErrorCode::internal, error.what(), "Please report it, with the command line."), json);
  }
}

}  // namespace
}  // namespace postlude::inline v0::cli

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond what the system allows is an error of its writing
  return static_cast<int>(postlude::cli::run(argc, argv));
}
