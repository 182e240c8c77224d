// A problem whose statistics are of groups of columns, as a batch of them.
#pragma once

#include "cuda/decide/decision.h"

#include <optional>
#include <string>

namespace postlude::inline v0::cuda {

// Each group of columns a problem of its own, of which the rows' statistics are the groups': its tiles are as narrow as
// any, where a tile would have to hold whole groups (decision 0287). None: `why` says why it is not taken so.
[[nodiscard]] std::optional<Restated> by_groups(const Subject& subject, const Layout& layout, std::string& why);

}  // namespace postlude::inline v0::cuda
