// OpenBLAS and oneDNN, as one would call them by hand.
#include "gemm_bench.h"

#include <memory>

#if defined(POSTLUDE_WITH_OPENBLAS)
#include <cblas.h>
#endif
#if defined(POSTLUDE_WITH_ONEDNN)
#include <oneapi/dnnl/dnnl.hpp>
#include <omp.h>
#endif

namespace postlude::bench {

std::vector<Contender> openblas([[maybe_unused]] const Case& what, [[maybe_unused]] int threads,
                                [[maybe_unused]] const void* a, [[maybe_unused]] const void* b,
                                [[maybe_unused]] float* out) {
#if defined(POSTLUDE_WITH_OPENBLAS)
  if (what.dtype == DType::f32) {
    return {{"openblas",
             [=] {
               openblas_set_num_threads(threads);
               cblas_sgemm(CblasRowMajor, CblasNoTrans, what.b_k_major ? CblasTrans : CblasNoTrans,
                           static_cast<int>(what.m), static_cast<int>(what.n), static_cast<int>(what.k), 1.0f,
                           static_cast<const float*>(a), static_cast<int>(what.k), static_cast<const float*>(b),
                           static_cast<int>(what.b_k_major ? what.k : what.n), 0.0f, out, static_cast<int>(what.n));
             },
             out}};
  }
#endif
  return {};
}

#if defined(POSTLUDE_WITH_ONEDNN)
namespace {

dnnl::memory::data_type type_of(DType type) {
  switch (type) {
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::f16: return dnnl::memory::data_type::f16;
    case DType::s8: return dnnl::memory::data_type::s8;
    case DType::u8: return dnnl::memory::data_type::u8;
    default: return dnnl::memory::data_type::f32;
  }
}

dnnl::matmul::primitive_desc descriptor(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                        const dnnl::memory::desc& b, const dnnl::memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine, a, b, c);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine);
#endif
}

}  // namespace
#endif

std::vector<Contender> onednn([[maybe_unused]] const Case& what, [[maybe_unused]] int threads,
                              [[maybe_unused]] const void* a, [[maybe_unused]] const void* b,
                              [[maybe_unused]] float* out, [[maybe_unused]] float* out_packed) {
  std::vector<Contender> contenders;
#if defined(POSTLUDE_WITH_ONEDNN)
  using namespace dnnl;
  omp_set_num_threads(threads);
  const engine cpu(engine::kind::cpu, 0);
  const auto queue = std::make_shared<stream>(cpu);
  const auto type = type_of(what.dtype);
  const auto acc = what.dtype == DType::s8 || what.dtype == DType::u8 ? memory::data_type::s32 : memory::data_type::f32;
  const memory::desc a_desc({what.m, what.k}, type, memory::format_tag::ab);
  const memory::desc b_desc({what.k, what.n}, type, what.b_k_major ? memory::format_tag::ba : memory::format_tag::ab);
  const memory::desc any({what.k, what.n}, type, memory::format_tag::any);
  const memory::desc c_desc({what.m, what.n}, acc, memory::format_tag::ab);
  const memory a_memory(a_desc, cpu, const_cast<void*>(a));
  memory b_memory(b_desc, cpu, const_cast<void*>(b));
  for (const bool packed : {false, true}) {
    try {
      const auto primitive_desc = descriptor(cpu, a_desc, packed ? any : b_desc, c_desc);
      memory weights = b_memory;
      if (packed) {
        weights = memory(primitive_desc.weights_desc(), cpu);
        reorder(b_memory, weights).execute(*queue, b_memory, weights);
        queue->wait();
      }
      const memory c_memory(c_desc, cpu, packed ? out_packed : out);
      const matmul primitive(primitive_desc);
      contenders.push_back({packed ? "onednn packed" : "onednn",
                            [=] {
                              omp_set_num_threads(threads);
                              primitive.execute(*queue, {{DNNL_ARG_SRC, a_memory},
                                                         {DNNL_ARG_WEIGHTS, weights},
                                                         {DNNL_ARG_DST, c_memory}});
                              queue->wait();
                            },
                            packed ? out_packed : out});
    } catch (const error&) {  // no primitive for these types: nothing to compare with
    }
  }
#endif
  return contenders;
}

std::string peer_versions() {
  std::string text;
#if defined(POSTLUDE_WITH_OPENBLAS)
  text += openblas_get_config();
#endif
#if defined(POSTLUDE_WITH_ONEDNN)
  const dnnl_version_t* v = dnnl_version();
  text += "; oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
#endif
  return text;
}

}  // namespace postlude::bench
