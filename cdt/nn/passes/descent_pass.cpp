#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <cdt/core/error.h>
#include <cdt/kernel/step_engine.h>
#include <cdt/nn/passes/descent_pass.h>

#include <algorithm>

namespace cdt::nn {
namespace {

using torch::Tensor;

/// Calls body(first, last) on ranges of columns, on LibTorch's threads; sums over rows then do not
/// depend on the number of threads.
template <class Body>
void for_columns(int64_t rows, int64_t columns, const Body& body) {
  constexpr int64_t kCacheLine = 16;
  const int64_t grain = std::max(kCacheLine, at::internal::GRAIN_SIZE / std::max<int64_t>(rows, 1));
  at::parallel_for(0, columns, grain, body);
}

/// h ← relu(h + b). NaN stays NaN.
template <class T>
void add_bias_and_relu(T* h, const T* bias, int64_t rows, int64_t columns) {
  for_columns(rows, columns, [&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < rows; ++i) {
      T* __restrict row = h + i * columns;
      for (int64_t j = first; j < last; ++j) {
        const T value = row[j] + bias[j];
        row[j] = value < 0 ? 0 : value;
      }
    }
  });
}

/// gradient ← 0 where the unit z is inactive; also bias ← keep·bias − rate·(column sums), if there
/// is a bias.
template <class T>
void mask_and_move_bias(T* gradient, const T* z, T* bias, int64_t rows, int64_t columns, T keep,
                        T rate) {
  for_columns(rows, columns, [&](int64_t first, int64_t last) {
    std::vector<T> sums(static_cast<size_t>(columns));
    T* __restrict sum = sums.data();
    for (int64_t i = 0; i < rows; ++i) {
      T* __restrict row = gradient + i * columns;
      const T* __restrict unit = z + i * columns;
      for (int64_t j = first; j < last; ++j) {
        const T value = unit[j] <= 0 ? 0 : row[j];
        row[j] = value;
        sum[j] += value;
      }
    }
    if (bias == nullptr) return;
    for (int64_t j = first; j < last; ++j) bias[j] = keep * bias[j] - rate * sum[j];
  });
}

// Products of a layer; a single output uses matrix-vector routines.

/// z·Wᵀ
Tensor forward_product(const Tensor& z, const Tensor& weight) {
  return weight.size(0) == 1 ? torch::mv(z, weight[0]).unsqueeze(1) : torch::mm(z, weight.t());
}

/// W ← keep·W − rate·gradientᵀ·z
void move_weight(Tensor weight, const Tensor& gradient, const Tensor& z, double keep, double rate) {
  if (weight.size(0) == 1) {
    weight[0].addmv_(z.t(), gradient.select(1, 0), keep, -rate);
  } else {
    weight.addmm_(gradient.t(), z, keep, -rate);
  }
}

/// Backpropagates the gradient from a layer's output to its input, through the preceding ReLU,
/// whose layer's bias it moves.
Tensor backward(const Tensor& gradient, const Tensor& weight, const Tensor& z, const Tensor& bias,
                double keep, double rate) {
  Tensor before = weight.size(0) == 1 ? gradient * weight : torch::mm(gradient, weight);
  AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "DescentPass", [&] {
    mask_and_move_bias(before.data_ptr<scalar_t>(), z.data_ptr<scalar_t>(),
                       bias.defined() ? bias.data_ptr<scalar_t>() : nullptr, z.size(0), z.size(1),
                       static_cast<scalar_t>(keep), static_cast<scalar_t>(rate));
  });
  return before;
}

/// Computes the outputs; `inputs`, if given, receives those of each layer.
Tensor forward(const Mlp& model, Tensor z, std::vector<Tensor>* inputs) {
  CDT_REQUIRE(
      DescentPass::takes(model, z),
      "a descent pass needs a ReLU network without scaled or frozen weights and inputs [r, ",
      model->options().inputs, "] of its dtype on the CPU; the inputs have shape ", z.sizes());
  const torch::NoGradGuard no_graph;
  for (size_t layer = 0; layer < model->depth(); ++layer) {
    if (inputs != nullptr) inputs->push_back(z);
    z = forward_product(z, model->weight(layer));
    const bool last = layer + 1 == model->depth();
    if (!model->options().bias) {
      if (!last) z.relu_();
    } else if (last) {
      z.add_(model->bias(layer));
    } else {
      AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "DescentPass", [&] {
        add_bias_and_relu(z.data_ptr<scalar_t>(), model->bias(layer).data_ptr<scalar_t>(),
                          z.size(0), z.size(1));
      });
    }
  }
  return z;
}

}  // namespace

bool DescentPass::takes(const Mlp& model, const Tensor& x) {
  const nn::MlpOptions& options = model->options();
  if (options.activation != Activation::kRelu || model->scaled() || x.dim() != 2 ||
      x.size(1) != options.inputs || !x.is_contiguous() || !x.device().is_cpu()) {
    return false;
  }
  const auto fits = [&](const Tensor& parameter) {
    return parameter.requires_grad() && parameter.is_contiguous() && parameter.device().is_cpu() &&
           parameter.scalar_type() == x.scalar_type();
  };
  for (size_t layer = 0; layer < model->depth(); ++layer) {
    if (!fits(model->weight(layer)) || (options.bias && !fits(model->bias(layer)))) return false;
  }
  return true;
}

Tensor DescentPass::evaluate(const Mlp& model, const Tensor& x) {
  return forward(model, x, nullptr);
}

DescentPass::DescentPass(const Mlp& model, const Tensor& x)
    : model_(model), outputs_(forward(model_, x, &inputs_)) {}

void DescentPass::descend(const Tensor& seed, double rate, double shrink) {
  CDT_REQUIRE(!inputs_.empty(), "a pass descends once; take another forward pass");
  CDT_REQUIRE(seed.sizes() == outputs_.sizes(), "the seed must have the outputs' shape ",
              outputs_.sizes(), ", got ", seed.sizes());
  const torch::NoGradGuard no_graph;
  const auto dtype = outputs_.scalar_type();
  const double keep = kernel::rate_in(dtype, 1 - shrink);
  rate = kernel::rate_in(dtype, rate);
  const bool bias = model_->options().bias;
  Tensor gradient = seed.to(dtype).contiguous();
  size_t layer = inputs_.size() - 1;
  if (bias) Tensor(model_->bias(layer)).mul_(keep).sub_(gradient.sum(0), rate);
  for (; layer > 0; --layer) {
    const Tensor& weight = model_->weight(layer);
    const Tensor before = backward(gradient, weight, inputs_[layer],
                                   bias ? model_->bias(layer - 1) : Tensor(), keep, rate);
    move_weight(weight, gradient, inputs_[layer], keep, rate);
    gradient = before;
  }
  move_weight(model_->weight(0), gradient, inputs_[0], keep, rate);
  inputs_.clear();
}

}  // namespace cdt::nn
