// The parser behind libFuzzer: configure with clang++ and
// -DPOSTLUDE_SANITIZE=fuzzer-no-link,address, then run fuzz_parser tests/fuzz/corpus.
#include "fuzz/inputs.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string wrong = postlude::fuzz::check_text({reinterpret_cast<const char*>(data), size});
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}
