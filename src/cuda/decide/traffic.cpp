// What a decision moves, kernel by kernel.
#include "cuda/decide/decider.h"

#include <algorithm>

namespace postlude::inline v0::cuda {

using lower::Phase;

void Decider::beside(const std::string& what, std::int64_t read, std::int64_t written) {
  auto& all = d_.outline.beside;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.what == what; });
  Outline::Beside& one = found == all.end() ? all.emplace_back() : *found;
  one.what = what;
  one.traffic += {static_cast<double>(read), static_cast<double>(written)};
}

// The phases of the product's kernel, as they run there.
void Decider::count_product(std::vector<Traffic>& phases) const {
  const FusedEpilogue& e = product_->epilogue;
  plan::KernelTraffic traffic(program_, shape_, d_.outline.stays);
  const auto add = [&](int p, const Phase& as_run) {
    traffic.loads(as_run);
    traffic.stores(as_run);
    for (const lower::Reduction& r : as_run.reductions) traffic.results(r);
    phases[p] += traffic.take();
  };
  add(e.phase, e.held >= 0 ? *e.phases[0] : program_.phases[e.phase]);
  for (const int p : e.finished) add(p, program_.phases[p]);
  if (e.held >= 0) add(e.held, *e.phases[1]);
}

void Decider::count_pass(const GenericKernel& kernel, plan::KernelTraffic& traffic,
                         std::vector<Traffic>& phases) const {
  const auto part = [&](int p, bool stores, std::size_t first, std::size_t end) {
    const Phase& phase = program_.phases[p];
    std::vector<lower::ValueId> wanted;
    if (stores) wanted = sinks(phase, true, false);
    for (std::size_t r = first; r < end; ++r) {
      for (const auto& piece : phase.reductions[r].pieces)
        wanted.insert(wanted.end(), piece.args.begin(), piece.args.end());
    }
    traffic.loads(phase, needed(phase, wanted));
    if (stores) traffic.stores(phase);
    for (std::size_t r = first; r < end; ++r) traffic.results(phase.reductions[r]);
    phases[p] += traffic.take();
  };
  const auto r = static_cast<std::size_t>(kernel.reduction);
  if (kernel.rows) {
    for (const RowPhase& row : kernel.run)
      part(row.phase, true, 0, row.reductions ? program_.phases[row.phase].reductions.size() : 0);
  } else if (kernel.reduction >= 0) {
    part(kernel.phase, false, r, r + 1);
  } else {
    part(kernel.phase, true, 0, 0);
  }
}

void Decider::count_traffic() {
  std::vector<Traffic>& phases = d_.outline.phases;
  phases.resize(program_.phases.size());
  if (d_.fused) count_product(phases);
  const auto a = static_cast<double>(size_of(source_type()));
  bool streamed = !stream_;  // the first kernel that reads X is the main loop
  for (const Pass& pass : passes_) {
    plan::KernelTraffic traffic(program_, shape_, d_.outline.stays, streamed ? a : 0);
    count_pass(pass.kernel, traffic, phases);
    streamed = streamed || traffic.read_accumulator();
  }
  const std::optional<Contraction> gemm = subject_.problem.loop().contraction();
  if (!gemm) return;
  if (!d_.fused && product_phase_ >= 0) beside("the accumulator", 0, shape_.batch * shape_.m * shape_.n * 4);
  if (d_.product && depth() > 0) count_repacks(*gemm);
  // Each residue is a launch that reads the images again.
  const auto& parts = layout_.parts;
  const auto with_taps = std::count_if(parts.begin(), parts.end(), [](const KernelPart& part) { return part.k > 0; });
  if (with_taps > 1) {
    const agreed::WindowRows& w = parts.front().a;
    const double pixels = double(w.images) * w.axis[0].extent * w.axis[1].extent * w.axis[2].extent;
    d_.outline.read_beyond += double(with_taps - 1) * pixels * w.channels * double(size_of(gemm->a));
  }
}

// The product reads a copy without the padding of its rows.
void Decider::count_repacks(const Contraction& gemm) {
  const std::int64_t size = size_of(gemm.a);
  const auto repack = [&](const std::string& what, const Placed& from, std::int64_t rows, std::int64_t k,
                          std::int64_t packed) {
    const std::int64_t batches = from.strides[0] ? shape_.batch : 1, all = batches * rows;
    beside(what, all * k * size, batches * packed * size);
    d_.outline.read_beyond += static_cast<double>(all * (depth() - k) * size);
  };
  const auto elements = [&](bool of_a) { return packed(gemm, of_a).lines * packed(gemm, of_a).pitch; };
  if (const auto& padded = layout_.padded; padded && !d_.fused)
    beside("the accumulator's padding left out", shape_.m * shape_.n * 4, shape_.m * padded->padded * 4);
  if (layout_.beside)
    beside("residues put in their places", product_shape(false).m * columns_ * 4,
           shape_.batch * shape_.m * shape_.n * 4);
  if (d_.repack_a) repack("A repacked", layout_.a, shape_.m, shape_.k, elements(true));
  if (!d_.repack_b) return;
  if (layout_.parts.empty()) return repack("B repacked", layout_.b, shape_.n, shape_.k, elements(false));
  for (const KernelPart& part : layout_.parts) {
    part_ = &part;
    if (part.k > 0) repack("B repacked", layout_.b, b_rows(), part.k, b_rows() * pitch(gemm));
  }
}

}  // namespace postlude::inline v0::cuda
