// Reducers of one's own: as the graph's nodes, and what samples show of them.
#pragma once

#include "te/expression.h"

namespace postlude::inline v0::te {

// combine() as the graph's nodes: parameters a, then b.
[[nodiscard]] Lambda lambda_of(const ReducerNode& reducer, const std::vector<DType>& types);
// x as a number of a type: of that type, or a literal that is one. Else throws bad_combiner: `what` is it.
[[nodiscard]] Expr as_number(const Expr& x, DType type, const std::string& what);
// What triples of these types show: positive numbers of which many are equal, then others, NaN and infinities too.
[[nodiscard]] Freedom freedom_of(const ReducerNode& reducer, const std::vector<DType>& types);
// Why a reducer may not be taken apart: "'sub' is not commutative". Empty: it may, also in another order.
[[nodiscard]] std::string kept_order(const ReducerNode& reducer);

}  // namespace postlude::inline v0::te
