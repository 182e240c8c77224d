// An A or B whose rows begin between 16 bytes: whether it is read as it lies (device/sm90_shifted.cu), or copied first.
#include "cuda/decide/decider.h"

#include <limits>
#include <utility>
#include <vector>

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

// Whether rows lie as a matrix of two bytes an element does, of which nothing is left out or counted.
bool Decider::plain_rows(const Contraction& gemm) const {
  return size_of(gemm.a) == 2 && !variant_.a_form && !variant_.b_form && !layout_.diagonal && !layout_.b_count &&
         !layout_.beside && !layout_.a_k && !b_k() && !part_ && !layout_.padded && !layout_.images;
}

// Whether rows of A read B as it lies, along K or N, or it is copied (decisions 0284, 0310).
bool Decider::shift_b(const Contraction& gemm) {
  constexpr int along_n = 8;  // maps of a B along N: lanes read as many rows in turn
  const auto& asked = subject_.request.schedule;
  if (!plain_rows(gemm) || (asked ? !asked->shifted : shape_.m > most_shifted_)) return false;
  variant_.shifted = apart(layout_.b, 2, shape_.n);
  if (variant_.shifted == 0 && shape_.k >= along_n)
    variant_.shifted = apart(layout_.b, 1, shape_.k, along_n), variant_.b_mn_major = variant_.shifted != 0;
  if (variant_.shifted == 0) return false;
  d_.repack_b = false;
  return true;
}

// From a batch of A to the next, if that is a number of rows.
std::int64_t Decider::rows_of_batch() const {
  const std::int64_t batch = layout_.a.strides[0], row = layout_.a.strides[1];
  return batch > 0 && row > 0 && batch % row == 0 ? batch / row : 0;
}

// Whether A is read as it lies, or copied (decision 0324).
void Decider::shift_a(const Contraction& gemm) {
  const auto& asked = subject_.request.schedule;
  if (!d_.repack_a || !plain_rows(gemm) || below_ > 1 || !(asked ? asked->shifted_a : shifts_a_)) return;
  variant_.shifted_a = apart(layout_.a, 1, shape_.m);
  constexpr std::int64_t most_rows = 1 << 30;  // which kernels count in 32 bits
  if (variant_.shifted_a == 0 && rows_of_batch() && rows_of_batches() <= most_rows) {
    Placed all = layout_.a;
    all.strides[0] = 0;
    variant_.shifted_a = apart(all, 1, rows_of_batches()), variant_.flat_a = variant_.shifted_a != 0;
  }
  d_.repack_a = variant_.shifted_a == 0;
}

// What copies in front of a product take: a launch, and their bytes, which are read and written.
double Decider::copying() const {
  constexpr double launch = 2.4, rate = 3.7e6;  // microseconds; bytes in one
  const auto bytes = [&](const Placed& o, std::int64_t lines) {
    return 4.0 * static_cast<double>((o.strides[0] ? shape_.batch : 1) * lines * shape_.k);
  };
  const double all = (d_.repack_a ? bytes(layout_.a, shape_.m) : 0) + (d_.repack_b ? bytes(layout_.b, shape_.n) : 0);
  return all > 0 ? launch + all / rate : 0;
}

// A copy is made once, and what is read as it lies is put in order for each tile again: whichever takes less by the
// model. For up to 64 rows of A there is no copy of B (decision 0310); beside one, A's costs no launch (decision 0324).
void Decider::shift_where_it_pays(const std::function<void()>& arrange,
                                  const std::function<Chosen(const Judge&)>& choose) {
  constexpr std::int64_t most = 1024;  // rows of A by a B that is read as it lies
  constexpr double waits_alone = 1.6;  // microseconds: a cooperative launch begins when all is copied
  constexpr double of_a = 0.975, of_b = 0.95, of_both = 0.84;  // of the time with copies: what has to be expected
  if (subject_.request.schedule) return;
  arrange();
  if (!d_.repack_a && !d_.repack_b) return;
  struct Way {
    std::int64_t most_shifted;
    bool shifts_a;
    double copying;
    Chosen chosen = {};
  };
  std::vector<Way> ways;
  const std::int64_t usual = most_shifted_;
  const auto take = [&](std::int64_t rows, bool shifts_a) { most_shifted_ = rows, shifts_a_ = shifts_a; };
  for (const std::int64_t rows : {usual, most})
    for (const bool shifts_a : {false, true}) {
      take(rows, shifts_a), arrange();
      const bool by_b = rows == usual || (variant_.shifted && shape_.m > usual && shape_.m <= most),
                 by_a = !shifts_a || (variant_.shifted_a && !d_.repack_b);
      if (by_a && by_b) ways.push_back({rows, shifts_a, copying()});
    }
  take(usual, false);
  if (ways.size() == 1) return;
  int held_bytes = -1;  // a column's of outputs
  for (Way& way : ways) {
    take(way.most_shifted, way.shifts_a);
    way.chosen = choose([](const auto&) { return std::string(); });
    if (!way.chosen.product) continue;
    const auto& [schedule, epilogue, source] = *way.chosen.product;
    if (epilogue.held >= 0) held_bytes = epilogue.needs.d_bytes_column;
    if (way.copying > 0 && (epilogue.needs.meets || schedule.by_memory)) way.copying += waits_alone;
  }
  take(usual, false);
  double least = std::numeric_limits<double>::infinity();
  for (const Way& way : ways) {
    if (!way.chosen.product) continue;
    const FusedEpilogue& e = way.chosen.product->epilogue;
    const bool behind = held_bytes >= 0 && e.held < 0;
    const double pass =
        behind ? pass_behind(shape_, columns_, false, e.needs.d_bytes_column + held_bytes, subject_.multiprocessors)
               : 0;
    const bool more_b = way.most_shifted != usual;
    const double gain = more_b ? (way.shifts_a ? of_both : of_b) : way.shifts_a ? of_a : 1;
    const double expected = (way.chosen.considered.front().microseconds + pass + way.copying) / gain;
    if (expected < least) least = expected, take(way.most_shifted, way.shifts_a);
  }
}

}  // namespace postlude::inline v0::cuda
