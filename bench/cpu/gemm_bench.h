// Plain products: ours beside OpenBLAS and oneDNN, interleaved.
#pragma once

#include <postlude/dtype.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace postlude::bench {

struct Case {
  std::string name;
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  bool b_k_major = false;  // B stored N x K, as a torch Linear's weight; otherwise K x N
};

// One way of doing a case.
struct Contender {
  std::string name;
  std::function<void()> run;
  const float* out = nullptr;  // M x N
};

struct Result {
  Case what;
  std::string contender;
  int threads = 1;
  double median_gflops = 0;
  double p90_gflops = 0;  // the speed that a tenth of the runs exceed: what the machine does when left alone
  int runs = 0;
  bool agrees = true;     // with the first contender's output, within the bound of a sum in f32
};

// Runs the contenders in turns until `seconds` have passed, at least `least` turns.
std::vector<Result> measure(const Case& what, int threads, const std::vector<Contender>& contenders, double seconds,
                            double tolerance, int least = 5);

// Peers exist where the build found them.
std::vector<Contender> openblas(const Case& what, int threads, const void* a, const void* b, float* out);
// Plain, and with weights in the layout that the primitive asks for.
std::vector<Contender> onednn(const Case& what, int threads, const void* a, const void* b, float* out, float* out_packed);
std::string peer_versions();

}  // namespace postlude::bench
