// A product as that of the other's rows.
#pragma once

#include "cuda/decide/decision.h"

#include <memory>
#include <optional>
#include <string>

namespace postlude::inline v0::cuda {

// D^T = B^T A^T: rows become columns, which tiles may have any multiple of 16 of, and the epilogue's axes change places
// (decisions 0266, 0269). Its decision calls A what is B. None: `why` says why it is not turned.
[[nodiscard]] std::optional<Restated> turned(const Subject& subject, const Layout& layout, std::string& why);

// Whether a phase takes or stores pieces of a chunk.
[[nodiscard]] bool has_pieces(const lower::Phase& phase);

// A decision on that as one on the product that is asked for.
void turn_back(Decision& decision);

}  // namespace postlude::inline v0::cuda
