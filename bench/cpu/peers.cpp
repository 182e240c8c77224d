#include "peers.h"

#include <memory>
#include <unordered_map>
#include <utility>

#if defined(POSTLUDE_WITH_OPENBLAS)
#include <cblas.h>
#endif
#if defined(POSTLUDE_WITH_ONEDNN)
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace postlude::bench {

Run openblas([[maybe_unused]] const Case& what, [[maybe_unused]] int threads, [[maybe_unused]] const void* a,
             [[maybe_unused]] const void* b, [[maybe_unused]] void* out) {
#if defined(POSTLUDE_WITH_OPENBLAS)
  if (what.dtype == DType::f32) {
    return [=] {
      // It takes several times as long as a small product.
      if (openblas_get_num_threads() != threads) openblas_set_num_threads(threads);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, what.b_k_major ? CblasTrans : CblasNoTrans, static_cast<int>(what.m),
                  static_cast<int>(what.n), static_cast<int>(what.k), 1.0f, static_cast<const float*>(a),
                  static_cast<int>(what.k), static_cast<const float*>(b),
                  static_cast<int>(what.b_k_major ? what.k : what.n), 0.0f, static_cast<float*>(out),
                  static_cast<int>(what.n));
    };
  }
#endif
  return {};
}

#if defined(POSTLUDE_WITH_ONEDNN)
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::data_type type_of(DType type) {
  switch (type) {
    case DType::bf16: return memory::data_type::bf16;
    case DType::f16: return memory::data_type::f16;
    case DType::s8: return memory::data_type::s8;
    case DType::u8: return memory::data_type::u8;
    default: return memory::data_type::f32;
  }
}

// A matmul primitive and its operands.
class Matmul {
 public:
  Matmul(const Case& what, int threads, const void* a, const void* b, void* out)
      : threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        a_({what.m, what.k}, type_of(what.dtype), Tag::ab),
        b_({what.k, what.n}, type_of(what.dtype), what.b_k_major ? Tag::ba : Tag::ab),
        any_b_({what.k, what.n}, type_of(what.dtype), Tag::any),
        out_({what.m, what.n}, is_float(what.dtype) ? memory::data_type::f32 : memory::data_type::s32, Tag::ab),
        shape_(what) {
    omp_set_num_threads(threads);
    arguments_[DNNL_ARG_SRC] = memory(a_, engine_, const_cast<void*>(a));
    arguments_[DNNL_ARG_WEIGHTS] = memory(b_, engine_, const_cast<void*>(b));
    arguments_[DNNL_ARG_DST] = memory(out_, engine_, out);
  }

  void add_bias(const float* bias) {
    bias_ = memory::desc({1, shape_.n}, memory::data_type::f32, Tag::ab);
    arguments_[DNNL_ARG_BIAS] = memory(bias_, engine_, const_cast<float*>(bias));
  }
  void add_eltwise(dnnl::algorithm algorithm, float alpha = 0, float beta = 0) {
#if DNNL_VERSION_MAJOR >= 3
    ops_.append_eltwise(algorithm, alpha, beta);
#else
    ops_.append_eltwise(1.0f, algorithm, alpha, beta);
#endif
  }
  void add_sum(float scale) { ops_.append_sum(scale); }
  void add_binary(dnnl::algorithm algorithm, std::int64_t rows, std::int64_t columns, const float* operand) {
    const memory::desc desc({rows, columns}, memory::data_type::f32, Tag::ab);
    arguments_[DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops_.len()) | DNNL_ARG_SRC_1] =
        memory(desc, engine_, const_cast<float*>(operand));
    ops_.append_binary(algorithm, desc);
  }

  void create(bool packed) {
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(ops_);
    const bool biased = arguments_.count(DNNL_ARG_BIAS) > 0;
    const memory::desc& weights = packed ? any_b_ : b_;
#if DNNL_VERSION_MAJOR >= 3
    const auto descriptor = biased ? dnnl::matmul::primitive_desc(engine_, a_, weights, bias_, out_, attributes)
                                   : dnnl::matmul::primitive_desc(engine_, a_, weights, out_, attributes);
#else
    const auto descriptor = dnnl::matmul::primitive_desc(
        biased ? dnnl::matmul::desc(a_, weights, bias_, out_) : dnnl::matmul::desc(a_, weights, out_), attributes,
        engine_);
#endif
    if (packed) {
      memory reordered(descriptor.weights_desc(), engine_);
      dnnl::reorder(arguments_[DNNL_ARG_WEIGHTS], reordered).execute(stream_, arguments_[DNNL_ARG_WEIGHTS], reordered);
      stream_.wait();
      arguments_[DNNL_ARG_WEIGHTS] = reordered;
    }
    primitive_ = dnnl::matmul(descriptor);
  }

  void run() {
    omp_set_num_threads(threads_);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  memory::desc a_, b_, any_b_, out_, bias_;
  Case shape_;
  dnnl::post_ops ops_;
  std::unordered_map<int, memory> arguments_;
  dnnl::matmul primitive_;
};

Run created(const std::shared_ptr<Matmul>& matmul, bool packed) {
  try {
    matmul->create(packed);
  } catch (const dnnl::error&) {  // no primitive for these types: nothing to compare with
    return {};
  }
  return [matmul] { matmul->run(); };
}

}  // namespace
#endif

Run onednn([[maybe_unused]] const Case& what, [[maybe_unused]] int threads, [[maybe_unused]] const void* a,
           [[maybe_unused]] const void* b, [[maybe_unused]] void* out, [[maybe_unused]] bool packed) {
#if defined(POSTLUDE_WITH_ONEDNN)
  return created(std::make_shared<Matmul>(what, threads, a, b, out), packed);
#else
  return {};
#endif
}

Run onednn_fused([[maybe_unused]] const Case& what, [[maybe_unused]] int threads, [[maybe_unused]] const void* a,
                 [[maybe_unused]] const void* b, [[maybe_unused]] void* out, [[maybe_unused]] PostOps ops,
                 [[maybe_unused]] const FusedOperands& operands) {
#if defined(POSTLUDE_WITH_ONEDNN)
  const auto matmul = std::make_shared<Matmul>(what, threads, a, b, out);
  using dnnl::algorithm;
  switch (ops) {
    case PostOps::none: return {};
    case PostOps::bias_relu:
      matmul->add_bias(operands.row);
      matmul->add_eltwise(algorithm::eltwise_relu);
      break;
    case PostOps::bias_gelu:
      matmul->add_bias(operands.row);
      matmul->add_eltwise(algorithm::eltwise_gelu_tanh);
      break;
    case PostOps::bias_gelu_res:
      matmul->add_bias(operands.row);
      matmul->add_eltwise(algorithm::eltwise_gelu_tanh);
      matmul->add_binary(algorithm::binary_add, what.m, what.n, operands.tile);
      break;
    case PostOps::axpby:
      matmul->add_eltwise(algorithm::eltwise_linear, operands.alpha, 0);
      matmul->add_sum(operands.beta);
      break;
    case PostOps::column_scale: matmul->add_binary(algorithm::binary_mul, what.m, 1, operands.column); break;
  }
  return created(matmul, false);
#else
  return {};
#endif
}

#if defined(POSTLUDE_WITH_ONEDNN)
namespace {

class Convolution {
 public:
  Convolution(const ConvCase& c, int threads, ConvOps what, const ConvOperands& given)
      : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(threads);
    const auto f32 = memory::data_type::f32;
    const memory::desc x({c.images, c.channels, c.image, c.image}, f32, Tag::nhwc),
        out({c.images, c.filters, c.pixels, c.pixels}, f32, Tag::nhwc), bias({c.filters}, f32, Tag::a);
    const memory::dims filters{c.filters, c.channels, c.taps, c.taps}, steps{c.stride, c.stride},
        around{c.padding, c.padding};
    const memory::desc w(filters, f32, Tag::ohwi), any(filters, f32, Tag::any);
    dnnl::post_ops ops;
    const auto relu = [&] {
#if DNNL_VERSION_MAJOR >= 3
      ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
      ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
#endif
    };
    if (what == ConvOps::bias_residual_relu) {
      ops.append_binary(dnnl::algorithm::binary_add, out);
      arguments_[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] =
          memory(out, engine_, const_cast<float*>(given.residual));
    }
    if (what != ConvOps::none) relu();
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(ops);
    const memory::desc biases = what == ConvOps::none ? memory::desc() : bias;
    using Forward = dnnl::convolution_forward;
    constexpr auto kind = dnnl::prop_kind::forward_inference;
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    const Forward::primitive_desc chosen(engine_, kind, algorithm, x, any, biases, out, steps, around, around,
                                         attributes);
#else
    const Forward::primitive_desc chosen({kind, algorithm, x, any, biases, out, steps, around, around}, attributes,
                                         engine_);
#endif
    memory plain(w, engine_, const_cast<float*>(given.w)), reordered(chosen.weights_desc(), engine_);
    dnnl::reorder(plain, reordered).execute(stream_, plain, reordered);
    stream_.wait();
    arguments_[DNNL_ARG_SRC] = memory(x, engine_, const_cast<float*>(given.x));
    arguments_[DNNL_ARG_WEIGHTS] = reordered;
    arguments_[DNNL_ARG_DST] = memory(out, engine_, given.out);
    if (what != ConvOps::none) arguments_[DNNL_ARG_BIAS] = memory(bias, engine_, const_cast<float*>(given.bias));
    primitive_ = Forward(chosen);
  }
  void run() {
    omp_set_num_threads(threads_);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unordered_map<int, memory> arguments_;
  dnnl::convolution_forward primitive_;
};

}  // namespace
#endif

Run onednn_conv([[maybe_unused]] const ConvCase& what, [[maybe_unused]] int threads, [[maybe_unused]] ConvOps ops,
                [[maybe_unused]] const ConvOperands& operands) {
#if defined(POSTLUDE_WITH_ONEDNN)
  try {
    const auto convolution = std::make_shared<Convolution>(what, threads, ops, operands);
    return [convolution] { convolution->run(); };
  } catch (const dnnl::error&) {  // nothing to compare with
    return {};
  }
#else
  return {};
#endif
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
