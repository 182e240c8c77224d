#include "cpu/isa.h"

#include <algorithm>
#include <cstdlib>

namespace postlude::inline v0::cpu {

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "unknown";
}

std::optional<Isa> parse_isa(std::string_view text) {
  for (int i = 0; i < isa_count; ++i) {
    if (text == name(static_cast<Isa>(i))) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

// __builtin_cpu_supports reads cpuid and, for the vector extensions, what the operating system saves (xgetbv).
Isa machine_isa() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::portable;
  // Neither compiler at hand knows "f16c" by name; every processor with AVX2 has it, and the bit is leaf 1's ecx 29.
  unsigned eax = 1, ebx = 0, ecx = 0, edx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  if ((ecx & (1u << 29)) == 0) return Isa::portable;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? Isa::avx512 : Isa::avx2;
#else
  return Isa::portable;
#endif
}

bool machine_has_vnni() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool machine_has_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

Isa best_isa() {
  static const Isa chosen = [] {
    const char* text = std::getenv("POSTLUDE_ISA");
    const std::optional<Isa> wanted = text ? parse_isa(text) : std::nullopt;
    return wanted ? std::min(*wanted, machine_isa()) : machine_isa();
  }();
  return chosen;
}

}  // namespace postlude::inline v0::cpu
