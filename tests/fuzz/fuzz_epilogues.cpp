// fuzz_epilogues [--seed S] [--count N] [--seconds T] [--isa NAME] [--conv PERCENT] [--file CASE.py]
//
// Runs random epilogues against the oracles, a fifth of them (or PERCENT) behind convolutions. A failure is shrunk and
// printed as a program with its seed; --file runs such a program.
#include "fuzz/driver.h"
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "fuzz/shrink.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

using namespace postlude;

namespace {

// Checks a case; returns "" or what is wrong, with the smallest case found that still is.
std::string check_and_shrink(const fuzz::Case& c, const fuzz::Checks& checks) {
  const std::string wrong = fuzz::check(c, checks);
  if (wrong.empty()) return "";
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(c.seed), wrong.c_str());
  std::fflush(stdout);  // shrinking may end in a fault
  const fuzz::Case small = fuzz::shrink(
      c, [&](const fuzz::Case& candidate) { return !fuzz::check(candidate, checks).empty(); }, 600);
  return "shrunk: " + fuzz::check(small, checks) + '\n' + fuzz::write(small);
}

}  // namespace

int main(int argc, char** argv) {
  fuzz::Argument arguments[] = {{"--isa", ""}, {"--file", ""}, {"--conv", "20"}};
  const fuzz::Argument &isa = arguments[0], &file = arguments[1], &conv = arguments[2];
  return fuzz::drive(argc, argv, arguments, [&](std::uint64_t seed) {
    fuzz::Checks checks;
    const int percent = std::stoi(conv.value);
    if (!isa.value.empty()) checks.isas = {isa.value};
    if (file.value.empty())
      return check_and_shrink(fuzz::generate(seed, {.convolutions = percent, .tall = true}), checks);
    std::ifstream in(file.value);
    std::stringstream text;
    text << in.rdbuf();
    return fuzz::check(fuzz::read(text.str()), checks);
  });
}
