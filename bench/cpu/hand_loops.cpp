#include "hand_loops.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace postlude::bench {
namespace {

template <class Body>
void for_rows(const Hand& h, Body body) {
#pragma omp parallel for num_threads(h.threads) schedule(static)
  for (std::int64_t i = 0; i < h.m; ++i) body(i, h.acc + i * h.n);
}

// The tanh form.
inline float gelu(float x) { return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }
inline float dgelu(float x) {
  const float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}
inline float through_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

void plain(const Hand&) {}
void bias_relu(const Hand& h) {
  for_rows(h, [&](std::int64_t, float* x) {
    for (std::int64_t j = 0; j < h.n; ++j) x[j] = x[j] + h.row[j] > 0 ? x[j] + h.row[j] : 0;
  });
}
void bias_gelu(const Hand& h) {
  for_rows(h, [&](std::int64_t, float* x) {
    for (std::int64_t j = 0; j < h.n; ++j) x[j] = gelu(x[j] + h.row[j]);
  });
}
void bias_gelu_res(const Hand& h) {
  for_rows(h, [&](std::int64_t i, float* x) {
    const float* residual = h.tile + i * h.n;
    for (std::int64_t j = 0; j < h.n; ++j) x[j] = gelu(x[j] + h.row[j]) + residual[j];
  });
}
void column_scale(const Hand& h) {
  for_rows(h, [&](std::int64_t i, float* x) {
    for (std::int64_t j = 0; j < h.n; ++j) x[j] *= h.column[i];
  });
}
void axpby(const Hand& h) {
  for_rows(h, [&](std::int64_t i, float* x) {
    const float* c = h.tile + i * h.n;
    for (std::int64_t j = 0; j < h.n; ++j) x[j] = h.alpha * x[j] + h.beta * c[j];
  });
}
void bias_gelu_res_aux(const Hand& h) {  // z stays in acc
  for_rows(h, [&](std::int64_t i, float* x) {
    const float* residual = h.tile + i * h.n;
    float* d = h.out + i * h.n;
    for (std::int64_t j = 0; j < h.n; ++j) {
      x[j] += h.row[j];
      d[j] = gelu(x[j]) + residual[j];
    }
  });
}
void dgelu_dbias(const Hand& h) {
  std::vector<float> sums(static_cast<std::size_t>(h.n * h.threads), 0.0f);
#pragma omp parallel for num_threads(h.threads) schedule(static)
  for (int t = 0; t < h.threads; ++t) {
    float* sum = sums.data() + t * h.n;
    for (std::int64_t i = h.m * t / h.threads; i < h.m * (t + 1) / h.threads; ++i) {
      float* x = h.acc + i * h.n;
      const float* z = h.tile + i * h.n;
      for (std::int64_t j = 0; j < h.n; ++j) {
        x[j] *= dgelu(z[j]);
        sum[j] += x[j];
      }
    }
  }
  std::memcpy(h.out, sums.data(), static_cast<std::size_t>(h.n) * 4);
  for (int t = 1; t < h.threads; ++t) {
    for (std::int64_t j = 0; j < h.n; ++j) h.out[j] += sums[static_cast<std::size_t>(t * h.n + j)];
  }
}
void swiglu(const Hand& h) {
  const std::int64_t half = h.n / 2;
  for_rows(h, [&](std::int64_t i, float* x) {
    float* d = h.out + i * half;
    for (std::int64_t j = 0; j < half; ++j) d[j] = x[j] / (1 + expf(-x[j])) * x[half + j];
  });
}
void bce(const Hand& h) {
  double loss = 0;
#pragma omp parallel for num_threads(h.threads) schedule(static) reduction(+ : loss)
  for (std::int64_t i = 0; i < h.m; ++i) {
    const float* x = h.acc + i * h.n;
    const float* label = h.tile + i * h.n;
    float sum = 0;
    for (std::int64_t j = 0; j < h.n; ++j) {
      const float f = x[j] + h.row[j];
      float s = 1 / (1 + expf(-f));
      s = s < 0.001f ? 0.001f : s > 0.999f ? 0.999f : s;
      sum += (label[j] - 1) * f + logf(s);
    }
    loss += static_cast<double>(sum);
  }
  *h.out = static_cast<float>(-loss);
}
void rowmax(const Hand& h) {
  for_rows(h, [&](std::int64_t i, float* x) {
    float largest = 0;
    for (std::int64_t j = 0; j < h.n; ++j) {
      x[j] += h.row[j];
      largest = largest > fabsf(x[j]) ? largest : fabsf(x[j]);
    }
    h.out[i] = largest;
  });
}
void rmsnorm(const Hand& h) {
  for_rows(h, [&](std::int64_t i, float* x) {
    const float* residual = h.tile + i * h.n;
    float sum = 0;
    for (std::int64_t j = 0; j < h.n; ++j) {
      x[j] = through_bf16(x[j]) + residual[j];
      sum += x[j] * x[j];
    }
    const float scale = 1 / sqrtf(sum / static_cast<float>(h.n) + 1e-6f);
    for (std::int64_t j = 0; j < h.n; ++j) x[j] *= scale * h.row[j];
  });
}
void softmax(const Hand& h) {
  for_rows(h, [&](std::int64_t, float* x) {
    float largest = std::numeric_limits<float>::lowest();
    for (std::int64_t j = 0; j < h.n; ++j) {
      x[j] = through_bf16(x[j]);
      largest = largest > x[j] ? largest : x[j];
    }
    float sum = 0;
    for (std::int64_t j = 0; j < h.n; ++j) {
      x[j] = expf(x[j] - largest);
      sum += x[j];
    }
    const float scale = 1 / sum;
    for (std::int64_t j = 0; j < h.n; ++j) x[j] *= scale;
  });
}
void argmax(const Hand& h) {  // the largest, then where it is: both loops vectorise
  for_rows(h, [&](std::int64_t i, float* x) {
    float largest = x[0];
    for (std::int64_t j = 0; j < h.n; ++j) largest = largest > x[j] ? largest : x[j];
    std::int64_t j = 0;
    while (j + 1 < h.n && x[j] < largest) ++j;
    h.index[i] = j;
  });
}
void xent(const Hand& h) {
  for_rows(h, [&](std::int64_t i, float* x) {
    float largest = x[0];
    for (std::int64_t j = 0; j < h.n; ++j) largest = largest > x[j] ? largest : x[j];
    float sum = 0;
    for (std::int64_t j = 0; j < h.n; ++j) sum += expf(x[j] - largest);
    h.out[i] = largest + logf(sum) - x[h.labels[i]];
  });
}

struct Named {
  const char* name;
  HandLoop loop;
};
constexpr Named loops[] = {{"plain", plain},
                           {"bias_relu", bias_relu},
                           {"bias_gelu", bias_gelu},
                           {"bias_gelu_res", bias_gelu_res},
                           {"column_scale", column_scale},
                           {"axpby", axpby},
                           {"bias_gelu_res_aux", bias_gelu_res_aux},
                           {"dgelu_dbias", dgelu_dbias},
                           {"swiglu", swiglu},
                           {"bce", bce},
                           {"rowmax", rowmax},
                           {"rmsnorm", rmsnorm},
                           {"softmax", softmax},
                           {"argmax", argmax},
                           {"xent", xent}};

}  // namespace

HandLoop hand_loop(const char* epilogue) {
  for (const Named& named : loops) {
    if (std::strcmp(named.name, epilogue) == 0) return named.loop;
  }
  return nullptr;
}

void mean_of_pixels(const float* x, float* mean, std::int64_t images, std::int64_t m, std::int64_t n) {
  for (std::int64_t b = 0; b < images; ++b) {
    float* const to = mean + b * n;
    for (std::int64_t j = 0; j < n; ++j) to[j] = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) to[j] += x[(b * m + i) * n + j];
    for (std::int64_t j = 0; j < n; ++j) to[j] *= 1 / static_cast<float>(m);
  }
}

}  // namespace postlude::bench
