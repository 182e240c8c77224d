// A Decision bound to memory, with its workspace.
#pragma once

#include "cpu/decide/decision.h"
#include "cpu/product/small.h"
#include "plan/backend.h"

#include <memory>
#include <string>
#include <vector>

namespace postlude::inline v0::cpu {

// 64-byte aligned memory.
class Memory {
 public:
  explicit Memory(std::int64_t bytes);
  [[nodiscard]] char* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(char* data) const;
  };
  std::unique_ptr<char, Free> data_;
};

class Call final : public BoundCall {
 public:
  // `decision` was made for the layout of `bindings`.
  Call(std::shared_ptr<const Subject> subject, Decision decision, const Bindings& bindings);

  void run(void*) override;
  [[nodiscard]] std::int64_t workspace_bytes() const override { return decision_.workspace_bytes(); }
  [[nodiscard]] std::string describe() const override { return decision_.describe(); }

 private:
  struct Frames;
  struct Consuming {  // what a finished block goes to
    Call* self = nullptr;
    const PassDecision* pass = nullptr;
    Frames* frames = nullptr;
    std::int64_t batch = 0;
    int thread = -1;  // -1: the block's
  };
  struct Frames {                    // of a pass
    std::vector<PhaseFrame> phases;  // per thread, per phase
    std::vector<char*> locals;       // per thread, per local
    // What its product is called with in batch 0, so that a small one begins at once.
    Product product;
    Direct direct;
    Consuming consuming;
    RunOptions options;
  };

  [[nodiscard]] int threads() const { return subject_->threads; }
  [[nodiscard]] char* memory_of(int thread) const { return frames_ + thread * decision_.thread_pitch; }
  void bind_buffers();
  void bind_frames();
  void bind_pass(PassDecision& pass, Frames& frames);
  void prepare_blocks(const PassDecision& pass, Frames& frames) const;
  void prepare_product(const PassDecision& pass, Frames& frames) const;
  void record(const PassDecision& pass, const Frames& frames);

  void run_phases(const PassDecision& pass, Frames& frames, int thread, Block block);
  static void add_rows(const PassDecision& pass, const Block& block);
  void run_blocks(const PassDecision& pass, Frames& frames);
  void run_product(const PassDecision& pass, Frames& frames);
  void pack(PassDecision& pass);
  void run_batch(const PassDecision& pass, Frames& frames, std::int64_t batch, int thread);
  void multiply(const PassDecision& pass, const Product& product, std::int64_t batch, const RunOptions& options) const;
  [[nodiscard]] Product product_of(const PassDecision& pass, std::int64_t batch) const;
  // The arguments of a product. `options` refers to the other two.
  void set_options(const PassDecision& pass, RunOptions& options, Direct& direct, Consuming& consuming) const;
  static void consume(void* context, const FinishedBlock& finished);

  std::shared_ptr<const Subject> subject_;
  Decision decision_;
  Bound a_, b_;
  Addressing addressing_;
  const PackedB* packed_ = nullptr;
  std::vector<Bound> buffers_;
  Memory workspace_;
  char* frames_ = nullptr;  // each thread's memory, then what all share
  char* shared_ = nullptr;
  char* combine_scratch_ = nullptr;
  std::vector<Frames> pass_frames_;
  std::unique_ptr<const SmallCalls> small_;  // all of the call, where it is that
};

}  // namespace postlude::inline v0::cpu
