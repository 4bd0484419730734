/// Small problems for the training tests.
#pragma once

#include <cdt/nn/mlp.h>
#include <cdt/train/trainer.h>
#include <torch/types.h>

namespace cdt::test {

inline nn::Mlp small_network(int64_t inputs, int64_t outputs, uint64_t seed,
                             torch::ScalarType dtype = torch::kFloat64, int64_t width = 24) {
  nn::MlpOptions options;
  options.inputs = inputs;
  options.hidden = {width, width};
  options.outputs = outputs;
  options.activation = nn::Activation::kTanh;
  return nn::Mlp(options, seed, dtype);
}

/// A smooth function of four features, `outputs` times, with a validation set of half the size.
inline train::TrainData smooth_data(int64_t samples, int64_t outputs, uint64_t seed,
                                    torch::ScalarType dtype = torch::kFloat64) {
  torch::manual_seed(seed);
  const auto draw = [&](int64_t r) { return torch::rand({r, 4}, torch::kFloat64) - 0.5; };
  const auto label = [&](const torch::Tensor& x) {
    std::vector<torch::Tensor> columns;
    for (int64_t c = 0; c < outputs; ++c) {
      columns.push_back((3 * x.select(1, c % 4)).sin() * x.select(1, (c + 1) % 4) +
                        0.1 * static_cast<double>(c));
    }
    return torch::stack(columns, 1);
  };
  const auto x = draw(samples);
  const auto x_val = draw(samples / 2);
  train::TrainData data;
  data.x = x.to(dtype);
  data.y = label(x);
  data.x_val = x_val.to(dtype);
  data.y_val = label(x_val);
  return data;
}

/// Four features, of which the largest of the first `classes` names the class.
inline train::TrainData class_data(int64_t samples, int64_t classes, uint64_t seed,
                                   torch::ScalarType dtype = torch::kFloat64) {
  torch::manual_seed(seed);
  train::TrainData data;
  const auto label = [&](const torch::Tensor& x) {
    return torch::one_hot(x.narrow(1, 0, classes).argmax(1), classes).to(torch::kFloat64);
  };
  data.x = torch::randn({samples, 4}, torch::kFloat64).to(dtype);
  data.y = label(data.x);
  data.x_val = torch::randn({samples / 2, 4}, torch::kFloat64).to(dtype);
  data.y_val = label(data.x_val);
  return data;
}

inline std::vector<torch::Tensor> parameters_of(const nn::Mlp& net) {
  std::vector<torch::Tensor> copies;
  for (const auto& parameter : net->parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

inline bool same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace cdt::test
