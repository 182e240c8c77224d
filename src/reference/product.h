// The accumulator: a float64 product with the error that f32 accumulation may make.
//
// Over K products, f32 accumulation in any order errs by at most K u / (1 - K u) * (|A| |B|), u =
// 2^-24, and, rounding errors being as good as independent, by about sqrt(K) u (|A| |B|): 4 sqrt(K)
// is six standard deviations in the worst case, where all terms have one sign (Higham and Mary, "A
// new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019). The
// smaller of the two is the bound. It is 0 where every partial sum in every order is an f32: all
// elements are multiples of a power of two, and (|A| |B|) of 2^24 of its units at most.
//
// Equal terms are not independent: a sum is a multiple of its own unit in the last place, so how a
// term is rounded that is added to it follows from the term's bits below that unit, and equal terms
// err to the same side. c of them err like one with c times the error, and sqrt(K) is the root of
// the sum of c squared over the different terms.
#pragma once

#include "plan/backend.h"
#include "reference/cell.h"

#include <cstdint>
#include <vector>

namespace postlude::inline v0::reference {

// Relative error of f32 accumulation of `count` terms: min(4 sqrt(alike), count / (1 - count u)) u.
// `alike`: the sum of the squares of how often each term occurs, `count` where all differ.
[[nodiscard]] double accumulation_error(std::int64_t count, double alike, double unit = unit_roundoff);

// The largest power of two of which x is a multiple, as its exponent; large for 0, -2000 for what
// is not finite.
[[nodiscard]] int grid(double x);
inline constexpr int grid_of_zero = 4000;

// Relative error of a product's accumulation over K, of (|A| |B|). `equal`: of products that are all alike.
[[nodiscard]] double product_error(std::int64_t k, bool equal, const ErrorModel& model);

// acc[b][m][n] of a main loop that multiplies: i32 for 8-bit integers, exact but for wrapping, else f32.
[[nodiscard]] std::vector<Cell> product(const MainLoop& loop, const Bindings& bindings, bool integers,
                                        const ErrorModel& model = {});

}  // namespace postlude::inline v0::reference
