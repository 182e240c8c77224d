#include "cpu/isa.h"

#include <algorithm>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace postlude::inline v0::cpu {
namespace {

#if defined(__x86_64__)
// Neither compiler at hand knows these by name.
bool processor_has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned bf16 = 1u << 22, tile = 1u << 24, int8 = 1u << 25;
  return (edx & (bf16 | tile | int8)) == (bf16 | tile | int8);
}

// Linux saves tiles only for processes that have asked for them
// (Documentation/arch/x86/xstate.rst). It refuses where it cannot, or where a signal's stack is too
// small.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, request, tile_data) == 0;
  return granted;
#else
  return false;
#endif
}
#endif

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::amx: return "amx";
  }
  return "unknown";
}

std::optional<Isa> parse_isa(std::string_view text) {
  for (int i = 0; i < isa_count; ++i) {
    if (text == name(static_cast<Isa>(i))) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

// __builtin_cpu_supports reads cpuid and, for the vector extensions, what the operating system
// saves (xgetbv).
Isa machine_isa() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::portable;
  // Neither compiler at hand knows "f16c" by name; every processor with AVX2 has it, and the bit is
  // leaf 1's ecx 29.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & (1u << 29)) == 0) return Isa::portable;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!wide) return Isa::avx2;
  return machine_has_vnni() && processor_has_amx() && may_use_tiles() ? Isa::amx : Isa::avx512;
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
  // Intel's processors with AMX multiply pairs at half the rate of f32 (decision 0030).
  return __builtin_cpu_supports("avx512bf16") && !processor_has_amx();
#else
  return false;
#endif
}

bool machine_halves_vectors() {
#if defined(__x86_64__)
  // Of processors with pairs and without AMX Zen 5, which takes whole ones, intersects vectors too.
  static const bool halves = machine_has_bf16() && !__builtin_cpu_supports("avx512vp2intersect");
  return halves;
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
