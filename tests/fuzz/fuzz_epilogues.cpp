// fuzz_epilogues --seed S --count N --seconds T [--isa X] [--file CASE.py]
//
// Runs random epilogues against the oracles. A failure is shrunk, printed as a program with its
// seed, and ends the run with exit code 1.
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "fuzz/shrink.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

using namespace postlude;

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::int64_t count = 1000000000;
  double seconds = 60;
  int failures_wanted = 1;
  std::string file;
  fuzz::Checks checks;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--seed") seed = std::stoull(value);
    else if (key == "--count") count = std::stoll(value);
    else if (key == "--seconds") seconds = std::stod(value);
    else if (key == "--failures") failures_wanted = std::stoi(value);
    else if (key == "--isa") checks.isas = {value};
    else if (key == "--file") file = value;
    else argc = 0;
  }
  if (argc % 2 == 0) {
    std::fprintf(
        stderr,
        "usage: fuzz_epilogues [--seed S] [--count N] [--seconds T] [--failures F] [--isa NAME] [--file CASE.py]\n");
    return 2;
  }
  if (!file.empty()) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    const std::string wrong = fuzz::check(fuzz::read(text.str()), checks);
    std::printf("%s\n", wrong.empty() ? "ok" : wrong.c_str());
    return wrong.empty() ? 0 : 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::int64_t done = 0;
  int failures = 0;
  for (; done < count && elapsed() < seconds; ++done) {
    const fuzz::Case c = fuzz::generate(seed + static_cast<std::uint64_t>(done), {.tall = true});
    // A fault inside check() ends the program: say first what was running.
    if (std::FILE* last = std::fopen("fuzz_epilogues.last.py", "w")) {
      std::fputs(fuzz::write(c).c_str(), last);
      std::fclose(last);
    }
    const std::string wrong = fuzz::check(c, checks);
    if (wrong.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(c.seed), wrong.c_str());
    std::fflush(stdout);
    std::string why = wrong;
    const auto fails = [&](const fuzz::Case& candidate) {
      const std::string w = fuzz::check(candidate, checks);
      if (!w.empty()) why = w;
      return !w.empty();
    };
    const fuzz::Case small = fuzz::shrink(c, fails, 600);
    std::printf("shrunk: %s\n%s\n", fuzz::check(small, checks).c_str(), fuzz::write(small).c_str());
    std::fflush(stdout);
    if (++failures >= failures_wanted) break;
  }
  std::printf("%lld epilogues in %.1f s, %d failures\n", static_cast<long long>(done), elapsed(), failures);
  return failures == 0 ? 0 : 1;
}
