// Compile-time integers, lists and tuples.
//
// Clauses<A...>: an aggregate with one member an argument, op_0 and so on, so that braces initialise it clause by
// clause and the last ones may be left out; a tuple with constructors could not lose clauses. Up to 32: nest what is
// larger.
#pragma once

#include <array>

namespace postlude::inline v0::evt {

template <int n>
struct Int {
  static constexpr int value = n;
  constexpr operator int() const { return n; }
};

// Which operations one of a topological visitor takes as its inputs.
template <int... edges>
struct seq {
  static constexpr int count = sizeof...(edges);
  static constexpr std::array<int, sizeof...(edges)> all{edges...};
};

template <class... A>
struct Clauses {
  static_assert(sizeof...(A) <= 32, "a visitor has 32 clauses of Arguments at most: put a visitor into another");
  [[nodiscard]] std::array<const void*, sizeof...(A)> addresses() const { return {}; }
};
template <>
struct Clauses<> {
  [[nodiscard]] std::array<const void*, 0> addresses() const { return {}; }
};

// clang-format off
#define POSTLUDE_EACH_1(first, next) first(0)
#define POSTLUDE_EACH_2(first, next) POSTLUDE_EACH_1(first, next) next(1)
#define POSTLUDE_EACH_3(first, next) POSTLUDE_EACH_2(first, next) next(2)
#define POSTLUDE_EACH_4(first, next) POSTLUDE_EACH_3(first, next) next(3)
#define POSTLUDE_EACH_5(first, next) POSTLUDE_EACH_4(first, next) next(4)
#define POSTLUDE_EACH_6(first, next) POSTLUDE_EACH_5(first, next) next(5)
#define POSTLUDE_EACH_7(first, next) POSTLUDE_EACH_6(first, next) next(6)
#define POSTLUDE_EACH_8(first, next) POSTLUDE_EACH_7(first, next) next(7)
#define POSTLUDE_EACH_9(first, next) POSTLUDE_EACH_8(first, next) next(8)
#define POSTLUDE_EACH_10(first, next) POSTLUDE_EACH_9(first, next) next(9)
#define POSTLUDE_EACH_11(first, next) POSTLUDE_EACH_10(first, next) next(10)
#define POSTLUDE_EACH_12(first, next) POSTLUDE_EACH_11(first, next) next(11)
#define POSTLUDE_EACH_13(first, next) POSTLUDE_EACH_12(first, next) next(12)
#define POSTLUDE_EACH_14(first, next) POSTLUDE_EACH_13(first, next) next(13)
#define POSTLUDE_EACH_15(first, next) POSTLUDE_EACH_14(first, next) next(14)
#define POSTLUDE_EACH_16(first, next) POSTLUDE_EACH_15(first, next) next(15)
#define POSTLUDE_EACH_17(first, next) POSTLUDE_EACH_16(first, next) next(16)
#define POSTLUDE_EACH_18(first, next) POSTLUDE_EACH_17(first, next) next(17)
#define POSTLUDE_EACH_19(first, next) POSTLUDE_EACH_18(first, next) next(18)
#define POSTLUDE_EACH_20(first, next) POSTLUDE_EACH_19(first, next) next(19)
#define POSTLUDE_EACH_21(first, next) POSTLUDE_EACH_20(first, next) next(20)
#define POSTLUDE_EACH_22(first, next) POSTLUDE_EACH_21(first, next) next(21)
#define POSTLUDE_EACH_23(first, next) POSTLUDE_EACH_22(first, next) next(22)
#define POSTLUDE_EACH_24(first, next) POSTLUDE_EACH_23(first, next) next(23)
#define POSTLUDE_EACH_25(first, next) POSTLUDE_EACH_24(first, next) next(24)
#define POSTLUDE_EACH_26(first, next) POSTLUDE_EACH_25(first, next) next(25)
#define POSTLUDE_EACH_27(first, next) POSTLUDE_EACH_26(first, next) next(26)
#define POSTLUDE_EACH_28(first, next) POSTLUDE_EACH_27(first, next) next(27)
#define POSTLUDE_EACH_29(first, next) POSTLUDE_EACH_28(first, next) next(28)
#define POSTLUDE_EACH_30(first, next) POSTLUDE_EACH_29(first, next) next(29)
#define POSTLUDE_EACH_31(first, next) POSTLUDE_EACH_30(first, next) next(30)
#define POSTLUDE_EACH_32(first, next) POSTLUDE_EACH_31(first, next) next(31)

#define POSTLUDE_CLASS(i) class A##i
#define POSTLUDE_NEXT_CLASS(i) , class A##i
#define POSTLUDE_NAME(i) A##i
#define POSTLUDE_NEXT_NAME(i) , A##i
#define POSTLUDE_MEMBER(i) A##i op_##i = {};
#define POSTLUDE_ADDRESS(i) &op_##i
#define POSTLUDE_NEXT_ADDRESS(i) , &op_##i
#define POSTLUDE_CLAUSES(n)                                                                 \
  template <POSTLUDE_EACH_##n(POSTLUDE_CLASS, POSTLUDE_NEXT_CLASS)>                         \
  struct Clauses<POSTLUDE_EACH_##n(POSTLUDE_NAME, POSTLUDE_NEXT_NAME)> {                    \
    POSTLUDE_EACH_##n(POSTLUDE_MEMBER, POSTLUDE_MEMBER)                                     \
    [[nodiscard]] std::array<const void*, n> addresses() const {                            \
      return {POSTLUDE_EACH_##n(POSTLUDE_ADDRESS, POSTLUDE_NEXT_ADDRESS)};                  \
    }                                                                                       \
  };

POSTLUDE_CLAUSES(1) POSTLUDE_CLAUSES(2) POSTLUDE_CLAUSES(3) POSTLUDE_CLAUSES(4) POSTLUDE_CLAUSES(5)
POSTLUDE_CLAUSES(6) POSTLUDE_CLAUSES(7) POSTLUDE_CLAUSES(8) POSTLUDE_CLAUSES(9) POSTLUDE_CLAUSES(10)
POSTLUDE_CLAUSES(11) POSTLUDE_CLAUSES(12) POSTLUDE_CLAUSES(13) POSTLUDE_CLAUSES(14) POSTLUDE_CLAUSES(15)
POSTLUDE_CLAUSES(16) POSTLUDE_CLAUSES(17) POSTLUDE_CLAUSES(18) POSTLUDE_CLAUSES(19) POSTLUDE_CLAUSES(20)
POSTLUDE_CLAUSES(21) POSTLUDE_CLAUSES(22) POSTLUDE_CLAUSES(23) POSTLUDE_CLAUSES(24) POSTLUDE_CLAUSES(25)
POSTLUDE_CLAUSES(26) POSTLUDE_CLAUSES(27) POSTLUDE_CLAUSES(28) POSTLUDE_CLAUSES(29) POSTLUDE_CLAUSES(30)
POSTLUDE_CLAUSES(31) POSTLUDE_CLAUSES(32)

#undef POSTLUDE_CLASS
#undef POSTLUDE_NEXT_CLASS
#undef POSTLUDE_NAME
#undef POSTLUDE_NEXT_NAME
#undef POSTLUDE_MEMBER
#undef POSTLUDE_ADDRESS
#undef POSTLUDE_NEXT_ADDRESS
#undef POSTLUDE_CLAUSES
#undef POSTLUDE_EACH_1
#undef POSTLUDE_EACH_2
#undef POSTLUDE_EACH_3
#undef POSTLUDE_EACH_4
#undef POSTLUDE_EACH_5
#undef POSTLUDE_EACH_6
#undef POSTLUDE_EACH_7
#undef POSTLUDE_EACH_8
#undef POSTLUDE_EACH_9
#undef POSTLUDE_EACH_10
#undef POSTLUDE_EACH_11
#undef POSTLUDE_EACH_12
#undef POSTLUDE_EACH_13
#undef POSTLUDE_EACH_14
#undef POSTLUDE_EACH_15
#undef POSTLUDE_EACH_16
#undef POSTLUDE_EACH_17
#undef POSTLUDE_EACH_18
#undef POSTLUDE_EACH_19
#undef POSTLUDE_EACH_20
#undef POSTLUDE_EACH_21
#undef POSTLUDE_EACH_22
#undef POSTLUDE_EACH_23
#undef POSTLUDE_EACH_24
#undef POSTLUDE_EACH_25
#undef POSTLUDE_EACH_26
#undef POSTLUDE_EACH_27
#undef POSTLUDE_EACH_28
#undef POSTLUDE_EACH_29
#undef POSTLUDE_EACH_30
#undef POSTLUDE_EACH_31
#undef POSTLUDE_EACH_32
// clang-format on

}  // namespace postlude::inline v0::evt
