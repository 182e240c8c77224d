// A B whose rows begin between 16 bytes: whether it is read as it lies (device/sm90_shifted.cu), or copied first.
#include "cuda/decide/decider.h"

#include <utility>

namespace postlude::inline v0::cuda {

// By how many maps rows are read as they lie, which begin between 16 bytes; 0: not so. Rows that begin alike are as
// many apart, or `least`.
int Decider::apart(const Placed& o, int rows_axis, std::int64_t rows, int least) const {
  const std::int64_t row = o.strides[rows_axis], element = o.strides[3 - rows_axis], batch = o.strides[0];
  int apart = least;
  while (apart * row % 8 != 0) apart *= 2;
  const bool legal = element == 1 && o.alignment >= 2 && map_stride(apart * row, 2, rows) &&
                     (batch == 0 || map_stride(batch, 2, shape_.batch));
  return legal ? apart : 0;
}

// Whether few rows of A read B as it lies, along K or N, or it is copied (decisions 0284, 0310). Of A the few that are
// 16 rows of a product are read so too; more are shifted for each tile again, and a copy of them takes less.
bool Decider::shift(const Contraction& gemm) {
  constexpr std::int64_t most_of_a = 16;
  constexpr int along_n = 8;  // maps of a B along N: lanes read as many rows in turn
  const auto& asked = subject_.request.schedule;
  const bool plain = !variant_.a_form && !variant_.b_form && !layout_.diagonal && !layout_.b_count && !layout_.beside &&
                     !layout_.a_k && !b_k() && !part_ && !layout_.padded && !layout_.images;
  if (!plain || size_of(gemm.b) != 2 || (asked ? !asked->shifted : shape_.m > most_shifted_)) return false;
  variant_.shifted = apart(layout_.b, 2, shape_.n);
  if (variant_.shifted == 0 && shape_.k >= along_n)
    variant_.shifted = apart(layout_.b, 1, shape_.k, along_n), variant_.b_mn_major = variant_.shifted != 0;
  if (variant_.shifted == 0) return false;
  if (d_.repack_a && shape_.m <= most_of_a) variant_.shifted_a = apart(layout_.a, 1, shape_.m);
  d_.repack_a = d_.repack_a && variant_.shifted_a == 0, d_.repack_b = false;
  return true;
}

// Whether more rows of A than a tile in ping-pong has read B as it lies too: for each row of tiles consumers then put
// its lines where wgmma reads them; else it is copied first, once (decision 0310).
void Decider::shift_for_more_rows(const std::function<void()>& arrange,
                                  const std::function<Chosen(const Judge&)>& choose) {
  constexpr std::int64_t most = 1024;
  constexpr double launch = 2, rate = 3.7e6;  // microseconds; bytes that are read or written in one
  constexpr double surely = 0.95;
  if (shape_.m <= most_shifted_ || shape_.m > most || subject_.request.schedule) return;
  const std::int64_t usual = std::exchange(most_shifted_, most);
  arrange();
  const bool may = variant_.shifted != 0;
  const Judge any = [](const auto&) { return std::string(); };
  const Chosen as_it_lies = may ? choose(any) : Chosen{};
  most_shifted_ = usual;
  if (!as_it_lies.product) return;
  const Chosen copied = choose(any);
  if (!copied.product) return;
  const auto bytes = static_cast<double>((layout_.b.strides[0] ? shape_.batch : 1) * shape_.n * shape_.k * 2);
  const auto held = [](const Chosen& chosen) { return chosen.product->epilogue.held >= 0; };
  const auto expected = [&](const Chosen& chosen, const Chosen& other) {
    const int bytes_column =
        chosen.product->epilogue.needs.d_bytes_column + other.product->epilogue.needs.d_bytes_column;
    return chosen.considered.front().microseconds +
           (held(other) && !held(chosen) ? pass_behind(shape_, columns_, false, bytes_column, subject_.multiprocessors)
                                         : 0);
  };
  const double copying = 2 * bytes / rate + (d_.repack_a ? 0 : launch);
  if (expected(as_it_lies, copied) < surely * (expected(copied, as_it_lies) + copying)) most_shifted_ = most;
}

}  // namespace postlude::inline v0::cuda
