#include <cdt/core/text/names.h>
#include <cdt/nn/activation.h>

namespace cdt::nn {
namespace {

constexpr Names<Activation, 5> kActivations{{{"relu", Activation::kRelu},
                                             {"tanh", Activation::kTanh},
                                             {"gelu", Activation::kGelu},
                                             {"softplus", Activation::kSoftplus},
                                             {"erf", Activation::kErf}}};

}  // namespace

Activation parse_activation(std::string_view name) {
  return parse_name(kActivations, name, "activation");
}
std::string to_string(Activation activation) { return name_of(kActivations, activation); }

torch::Tensor activate(Activation activation, const torch::Tensor& h) {
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

}  // namespace cdt::nn
