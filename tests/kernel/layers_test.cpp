// Kernel rules of norms, embeddings, attention and parts of parameters, against Jacobians.
#include <cdt/core/error.h>
#include <cdt/kernel/local_model.h>
#include <torch/library.h>
#include <torch/nn.h>
#include <torch/version.h>

#include "kernel/all_ways.h"
#include "kernel/layer_networks.h"

namespace cdt {
namespace {

using kernel::Coverage;
using kernel::empirical_ntk;
using test::kDouble;
using test::parameter;
using testing::HasSubstr;
using torch::Tensor;

#if TORCH_VERSION_MAJOR < 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 4)
// With the signature and the formula of newer versions.
Tensor rms_norm_of_newer_versions(const Tensor& x, c10::IntArrayRef shape,
                                  const c10::optional<Tensor>& weight,
                                  c10::optional<double> epsilon) {
  std::vector<int64_t> dimensions;
  for (size_t i = 0; i < shape.size(); ++i)
    dimensions.push_back(x.dim() - 1 - static_cast<int64_t>(i));
  const double smallest = x.scalar_type() == torch::kFloat64
                              ? std::numeric_limits<double>::epsilon()
                              : std::numeric_limits<float>::epsilon();
  const Tensor h =
      x * torch::rsqrt(x.pow(2).mean(dimensions, true).add_(epsilon.value_or(smallest)));
  return weight ? h * *weight : h;
}
TORCH_LIBRARY_FRAGMENT(aten, library) {
  library.def(
      "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
      "Tensor",
      rms_norm_of_newer_versions);
}
#endif

TEST(Layers, AllWaysAgree) {
  for (const auto& device : test::devices()) {
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      const auto options = torch::TensorOptions().dtype(dtype).device(device);
      torch::manual_seed(21);
      for (const auto& net : test::layer_networks(options)) {
        test::expect_all_ways_agree(net, options);
      }
    }
  }
}

TEST(Layers, BlocksGiveTheSameKernel) {
  torch::manual_seed(22);
  for (const auto& net : test::layer_networks(kDouble)) {
    SCOPED_TRACE(net.name);
    const Tensor x = test::inputs(9, net, kDouble);
    const Tensor J = test::brute_force_jacobian(net, x);
    kernel::FactorOptions factors;
    factors.samples = 9;
    const auto cost = kernel::cost_per_sample(net.model(), x, factors);
    kernel::NtkOptions small;
    small.memory_bytes = 2 * cost.bytes(1, 2);
    int64_t pairs = 0;
    small.progress = [&](int64_t /*done*/, int64_t total) { pairs = total; };
    const auto ntk = empirical_ntk(net.model(), x, small);
    EXPECT_GT(pairs, 1);
    EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
    const double trace = J.square().sum().item<double>();
    EXPECT_NEAR(kernel::ntk_trace(net.model(), x, small), trace, test::tol::kKernel64 * trace);
    for (const auto& p : ntk.coverage) EXPECT_EQ(p.coverage, Coverage::kRule) << p.reason;
  }
}

void expect_covered(const test::Network& net, const Tensor& x) {
  const Tensor J = test::brute_force_jacobian(net, x);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
  for (const auto& p : ntk.coverage) EXPECT_EQ(p.coverage, Coverage::kRule) << p.reason;
  EXPECT_THAT(ntk.brief_report(), testing::Not(HasSubstr("Jacobian rows")));
}

// LibTorch's module: time first, projections from one parameter, sliced where the three inputs are
// not the same.
TEST(Layers, ProjectionsOfMultiheadAttentionAreCovered) {
  for (const int inputs : {1, 2, 3}) {
    for (const int64_t samples : {3, 5}) {
      SCOPED_TRACE(testing::Message() << inputs << " inputs, " << samples << " samples");
      torch::manual_seed(30 + inputs);
      torch::nn::MultiheadAttention attention(torch::nn::MultiheadAttentionOptions(4, 2));
      torch::nn::Linear head(4, 2);
      attention->to(torch::kFloat64);
      head->to(torch::kFloat64);
      attention->eval();
      test::Network net;
      net.name = "attention";
      net.parameters = attention->parameters();
      for (const Tensor& p : head->parameters()) net.parameters.push_back(p);
      net.forward = [=](const auto&, const Tensor& x) mutable {
        const Tensor t = x.transpose(0, 1);  // [positions, samples, features]
        const Tensor key = inputs > 1 ? t * 0.5 : t;
        const Tensor value = inputs > 2 ? t.tanh() : key;
        return head->forward(std::get<0>(attention->forward(t, key, value)).mean(0));
      };
      expect_covered(net, torch::randn({samples, 5, 4}, torch::kFloat64));
    }
  }
}

TEST(Layers, ModulesOfATransformerAreCovered) {
  torch::manual_seed(31);
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(6).dropout(0));
  layer->to(torch::kFloat64);
  layer->eval();
  const test::Network net{
      "transformer",
      layer->parameters(),
      [&](const auto&, const Tensor& x) { return layer->forward(x.transpose(0, 1)).select(0, 0); },
      {}};
  expect_covered(net, torch::randn({3, 4, 4}, torch::kFloat64));
}

TEST(Layers, NormsOfModulesAreCovered) {
  torch::manual_seed(32);
  torch::nn::Sequential net(
      torch::nn::Conv2d(2, 4, 3), torch::nn::BatchNorm2d(4), torch::nn::ReLU(),
      torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, 4)), torch::nn::Tanh(),
      torch::nn::InstanceNorm2d(
          torch::nn::InstanceNorm2dOptions(4).affine(true).track_running_stats(true)),
      torch::nn::Flatten(), torch::nn::Linear(64, 6), torch::nn::BatchNorm1d(6),
      torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})), torch::nn::Linear(6, 2));
  net->to(torch::kFloat64);
  {  // statistics and scales that are not the usual start
    const torch::NoGradGuard no_graph;
    net->train();
    net->forward(torch::randn({6, 2, 6, 6}, torch::kFloat64) + 0.3);
    for (Tensor& p : net->parameters()) p.add_(torch::randn_like(p), 0.1);
  }
  net->eval();
  const test::Network plain{
      "", net->parameters(), [&](const auto&, const Tensor& in) { return net->forward(in); }, {}};
  expect_covered(plain, torch::randn({5, 2, 6, 6}, torch::kFloat64));
}

TEST(Layers, IntegerInputsGoAllTheWay) {
  torch::manual_seed(33);
  test::Network net{
      "words",
      {parameter({11, 4}, kDouble), parameter({4}, kDouble), parameter({2, 4}, kDouble)},
      [](const std::vector<Tensor>& w, const Tensor& words) {
        const Tensor h = torch::embedding(w[0], words).mean(1);
        return torch::linear((h * w[1]).tanh(), w[2]);
      },
      {}};
  const Tensor words = torch::randint(0, 11, {6, 5}, torch::kInt64);
  expect_covered(net, words);
  const Tensor J = test::brute_force_jacobian(net, words);
  const Tensor theta = J.mm(J.t());
  // Other indices, the operator, products with vectors, the local model.
  const Tensor others = torch::randint(0, 11, {4, 5}, torch::kInt32);
  const Tensor J_others = test::brute_force_jacobian(net, others);
  EXPECT_LE(
      test::relative_error(empirical_ntk(net.model(), words, others).theta, J.mm(J_others.t())),
      test::tol::kKernel64);
  const Tensor v = torch::randn({12}, torch::kFloat64);
  for (const auto path :
       {kernel::OperatorOptions::Path::kAuto, kernel::OperatorOptions::Path::kGraph}) {
    kernel::OperatorOptions options;
    options.path = path;
    EXPECT_LE(test::relative_error(kernel::NtkOperator(net.model(), words, options).apply(v),
                                   theta.mv(v)),
              test::tol::kKernel64);
  }
  EXPECT_LE(
      test::relative_error(kernel::vector_jacobian_product(net.model(), words, v), J.t().mv(v)),
      test::tol::kKernel64);
  const Tensor step = torch::randn({J.size(1)}, torch::kFloat64);
  EXPECT_LE(test::relative_error(kernel::LocalModel(net.model(), words).predict(step) -
                                     net.forward(net.parameters, words).reshape({-1}),
                                 J.mv(step)),
            test::tol::kKernel64);
}

TEST(Layers, AnEmbeddingScaledByFrequencyIsRefused) {
  torch::manual_seed(34);
  test::Network net{"",
                    {parameter({5, 3}, kDouble)},
                    [](const std::vector<Tensor>& w, const Tensor& words) {
                      return torch::embedding(w[0], words, -1, /*scale_grad_by_freq=*/true).sum(1);
                    },
                    {}};
  try {
    empirical_ntk(net.model(), torch::randint(0, 5, {4, 3}, torch::kInt64));
    FAIL() << "was not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("scale_grad_by_freq"));
  }
}

TEST(Layers, InstanceNormThatTracksIsRefusedAndKeepsItsStatistics) {
  torch::manual_seed(35);
  torch::nn::Sequential net(
      torch::nn::InstanceNorm1d(
          torch::nn::InstanceNorm1dOptions(2).affine(true).track_running_stats(true)),
      torch::nn::Flatten(), torch::nn::Linear(8, 1));
  const Tensor mean = net->named_buffers()["0.running_mean"];
  const Tensor before = mean.clone();
  EXPECT_THROW(empirical_ntk(net, torch::randn({3, 2, 4}) + 1), InvalidArgument);
  EXPECT_TRUE(mean.equal(before));
}

}  // namespace
}  // namespace cdt
