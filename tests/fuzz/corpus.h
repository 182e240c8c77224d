// What mutated texts begin from: the repository's texts, then those that earlier runs kept in a folder, in the order in
// which they were found. A case is a function of its seed and of these, so a run says how many it had.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::fuzz {

class Corpus {
 public:
  // The first `most` texts of `folder`, which is made where it is not there; none of "".
  explicit Corpus(std::string folder = "", std::size_t most = std::numeric_limits<std::size_t>::max());

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  [[nodiscard]] std::size_t found() const { return found_; }  // those of the folder
  [[nodiscard]] std::uint64_t digest() const;

  // Keeps a text in the folder if it shows what no text before it showed: an operation on other types or behind another
  // operation, a refusal in other words. It is not among `texts` until the next run.
  void see(std::string_view text);

 private:
  std::string folder_;
  std::vector<std::string> texts_;
  std::size_t found_ = 0, next_ = 0;
  std::set<std::uint64_t> seen_;
};

// What a text shows, as hashes.
[[nodiscard]] std::set<std::uint64_t> features(std::string_view text);

}  // namespace postlude::fuzz
