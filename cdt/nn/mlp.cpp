#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/nn/mlp.h>

#include <array>
#include <cmath>

namespace cdt::nn {
namespace {

using torch::Tensor;

template <class Enum, size_t N>
using Names = std::array<std::pair<std::string_view, Enum>, N>;

constexpr Names<Activation, 5> kActivations{{{"relu", Activation::kRelu},
                                             {"tanh", Activation::kTanh},
                                             {"gelu", Activation::kGelu},
                                             {"softplus", Activation::kSoftplus},
                                             {"erf", Activation::kErf}}};
constexpr Names<Parametrization, 3> kParametrizations{{{"standard", Parametrization::kStandard},
                                                       {"ntk", Parametrization::kNtk},
                                                       {"improved", Parametrization::kImproved}}};

template <class Enum, size_t N>
Enum parse(const Names<Enum, N>& names, std::string_view name, std::string_view what) {
  std::string known;
  for (const auto& [text, value] : names) {
    if (text == name) return value;
    known += c10::str(known.empty() ? "" : ", ", text);
  }
  throw InvalidArgument(c10::str(what, " must be one of ", known, ", not '", name, "'"));
}

template <class Enum, size_t N>
std::string print(const Names<Enum, N>& names, Enum value) {
  for (const auto& [text, known] : names) {
    if (known == value) return std::string(text);
  }
  throw InvalidArgument(c10::str("unknown value ", static_cast<int>(value)));
}

Tensor activate(Activation activation, const Tensor& h) {
  switch (activation) {
    case Activation::kRelu:
      return torch::relu(h);
    case Activation::kTanh:
      return torch::tanh(h);
    case Activation::kGelu:
      return torch::gelu(h);
    case Activation::kSoftplus:
      return torch::softplus(h);
    case Activation::kErf:
      return torch::erf(h);
  }
  throw InvalidArgument(c10::str("unknown activation ", static_cast<int>(activation)));
}

}  // namespace

Activation parse_activation(std::string_view name) {
  return parse(kActivations, name, "activation");
}
std::string to_string(Activation activation) { return print(kActivations, activation); }
Parametrization parse_parametrization(std::string_view name) {
  return parse(kParametrizations, name, "parametrization");
}
std::string to_string(Parametrization parametrization) {
  return print(kParametrizations, parametrization);
}

MlpImpl::MlpImpl(MlpOptions options, uint64_t seed, torch::ScalarType dtype)
    : options_(std::move(options)) {
  CDT_REQUIRE(options_.inputs >= 1, "inputs must be 1 or more, not ", options_.inputs);
  CDT_REQUIRE(options_.outputs >= 1, "outputs must be 1 or more, not ", options_.outputs);
  CDT_REQUIRE(options_.width_factor >= 1, "width factor must be 1 or more, not ",
              options_.width_factor);
  require_non_negative(options_.sigma_w, "sigma_w");
  require_non_negative(options_.sigma_b, "sigma_b");
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const bool ntk = options_.parametrization == Parametrization::kNtk;
  const bool improved = options_.parametrization == Parametrization::kImproved;
  bias_scale_ = ntk ? options_.sigma_b : 1.0;

  int64_t base_in = options_.inputs;
  int64_t factor_in = 1;  // the input layer is never widened
  for (size_t layer = 0; layer <= options_.hidden.size(); ++layer) {
    const bool last = layer == options_.hidden.size();
    const int64_t base_out = last ? options_.outputs : options_.hidden[layer];
    CDT_REQUIRE(base_out >= 1, "hidden layer ", layer + 1, " must have 1 or more units, not ",
                base_out);
    const int64_t factor_out = last ? 1 : options_.width_factor;
    const auto n_l = static_cast<double>(base_in);
    const auto s = static_cast<double>(factor_in);
    const double fan_in = options_.sigma_w / std::sqrt(s * n_l);
    const double drawn = ntk ? 1.0 : improved ? options_.sigma_w / std::sqrt(n_l) : fan_in;
    weight_scales_.push_back(ntk ? fan_in : improved ? 1 / std::sqrt(s) : 1.0);
    // Drawn in float64 and rounded: the same network in either precision.
    const Tensor weight =
        torch::randn({base_out * factor_out, base_in * factor_in}, generator, torch::kFloat64)
            .mul_(drawn)
            .to(dtype);
    weights_.push_back(register_parameter(c10::str("layers_", layer, "_weight"), weight));
    if (options_.bias) {
      const Tensor bias = torch::randn({base_out * factor_out}, generator, torch::kFloat64)
                              .mul_(ntk ? 1.0 : options_.sigma_b)
                              .to(dtype);
      biases_.push_back(register_parameter(c10::str("layers_", layer, "_bias"), bias));
    }
    base_in = base_out;
    factor_in = factor_out;
  }
}

Tensor MlpImpl::forward(Tensor x) {
  CDT_REQUIRE(x.dim() >= 1 && x.size(-1) == options_.inputs, "the network takes ", options_.inputs,
              " features a sample; the inputs have shape ", x.sizes());
  for (size_t layer = 0; layer < weights_.size(); ++layer) {
    if (layer > 0) x = activate(options_.activation, x);
    const double scale = weight_scales_[layer];
    const Tensor weight = scale == 1 ? weights_[layer] : weights_[layer] * scale;
    const Tensor bias = biases_.empty()    ? Tensor()
                        : bias_scale_ == 1 ? biases_[layer]
                                           : biases_[layer] * bias_scale_;
    x = torch::linear(x, weight, bias);
  }
  return x;
}

}  // namespace cdt::nn
