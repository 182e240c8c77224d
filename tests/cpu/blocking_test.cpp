// A Blocking is one of a few kinds (decision 0123): what choose_blocking makes is held to them, over many shapes.
#include "cpu/product/blocking.h"
#include "cpu/isa.h"
#include "cpu/product/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

namespace postlude::inline v0::cpu {
namespace {

// What a Blocking's fields say together; "" where nothing makes that.
std::string kind_of(const Blocking& b, const ProductShape& shape) {
  const bool small = b.small != Small::no;
  if (small + b.thin + b.turned > 1) return "";
  if (b.dots < 0 || b.dots > shape.n || (b.dots > 0 && !small)) return "";
  if (b.kept || b.splits < 1 || b.across < 1) return "";       // kept: keep_accumulators() says so afterwards
  if (b.splits > 1 && b.order != Order::collected) return "";  // parts are added where they are collected
  if (b.across > 1 && (b.order != Order::blocks || b.thin)) return "";
  if (small) return b.order == Order::blocks && b.across == 1 ? "small" : "";
  if (b.turned) return b.order == Order::blocks && b.across == 1 ? "turned" : "";
  if (b.thin) return b.order == Order::rows ? "" : b.order == Order::blocks ? "thin" : "thin, collected";
  constexpr std::array<const char*, 3> orders{"blocks", "collected", "rows"};
  return orders[static_cast<std::size_t>(b.order)] + std::string(b.across > 1   ? " across"
                                                                 : b.splits > 1 ? ", split"
                                                                                : "");
}

TEST(Blocking, IsOfAKindThatIsMade) {
  std::set<std::string> kinds;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::amx}) {
    if (isa > machine_isa()) continue;
    for (const DType type : {DType::f32, DType::bf16, DType::s8}) {
      for (const std::int64_t m : {1, 3, 16, 17, 24, 60, 128, 200, 520, 2048, 9000}) {
        for (const std::int64_t n : {1, 7, 16, 48, 96, 300, 1024, 2200, 4096}) {
          for (const std::int64_t k : {0, 1, 30, 64, 128, 400, 768, 2048, 200000}) {
            for (int forms = 0; forms < 64; ++forms) {
              ProductShape shape{.m = m, .n = n, .k = k, .a = type, .b = type};
              shape.packed_b = forms & 1;
              (forms & 2 ? shape.b_k_major : shape.b_n_major) = true;
              shape.addressed = forms & 4;
              shape.windows = (forms & 36) == 36;
              if (forms & 8 && n % 2 == 0) shape.pieces.count = 2;
              const Blocking b = choose_blocking(shape, isa, forms & 16);
              const std::string kind = kind_of(b, shape);
              ASSERT_NE(kind, "") << m << " x " << n << " x " << k << ", " << name(type) << ", " << name(isa)
                                  << ", form " << forms;
              kinds.insert(kind);
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"blocks", "blocks across", "collected", "collected, split", "rows", "small",
                                          "thin", "thin, collected", "turned"}));
}

}  // namespace
}  // namespace postlude::inline v0::cpu
