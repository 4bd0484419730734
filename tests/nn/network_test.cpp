// Networks of any architecture: what they say of themselves, the table, and files by the table.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/safetensors.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/saved_model.h>
#include <gmock/gmock.h>

#include "support/temp_folder.h"

namespace cdt {
namespace {

using nn::Network;
using nn::NetworkOptions;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

/// An architecture that the library does not have: r images [2, 3, 3] → r means, scaled.
class MeanImpl : public nn::NetworkImpl {
 public:
  explicit MeanImpl(int64_t outputs) : outputs_(outputs) {
    scale_ = register_parameter("scale", torch::ones({outputs}));
    offset_ = register_buffer("offset", torch::zeros({outputs}));
  }
  Tensor forward(Tensor x) override { return x.mean({1, 2, 3}).unsqueeze(1) * scale_ + offset_; }
  std::string architecture() const override { return "mean"; }
  std::string record() const override {
    return c10::str("{\"type\": \"mean\", \"outputs\": ", outputs_, "}");
  }
  std::vector<int64_t> input_shape() const override { return {2, 3, 3}; }
  int64_t output_count() const override { return outputs_; }
  nn::Parametrization parametrization() const override { return nn::Parametrization::kStandard; }
  std::string describe() const override { return "mean"; }
  nn::Operations operations_per_sample() const override { return {1, 2}; }

  Tensor scale_, offset_;

 private:
  int64_t outputs_;
};

nn::Architectures table_with_mean() {
  auto table = nn::architectures();
  table.push_back({"mean",
                   [](const NetworkOptions& options, uint64_t, torch::ScalarType) {
                     return Network(std::make_shared<MeanImpl>(options.outputs));
                   },
                   [](const std::string&, const nn::NamedTensors& tensors) {
                     const auto net = std::make_shared<MeanImpl>(tensors.at("scale").numel());
                     nn::copy_tensors(tensors, net->saved_tensors());
                     return Network(net);
                   }});
  return table;
}

TEST(NetworkTable, MakesTheSameNetworkAsItsClass) {
  NetworkOptions options;
  options.input_shape = {6};
  options.hidden = {4, 5};
  options.outputs = 3;
  options.activation = nn::Activation::kErf;
  options.parametrization = nn::Parametrization::kNtk;
  options.sigma_w = 1.2;
  options.sigma_b = 0.3;
  options.width_factor = 2;
  const Network network = nn::make_network(options, 7, torch::kFloat64);
  nn::MlpOptions layers;
  layers.inputs = 6;
  layers.hidden = {4, 5};
  layers.outputs = 3;
  layers.activation = nn::Activation::kErf;
  layers.parametrization = nn::Parametrization::kNtk;
  layers.sigma_w = 1.2;
  layers.sigma_b = 0.3;
  layers.width_factor = 2;
  nn::Mlp mlp(layers, 7, torch::kFloat64);
  const Tensor x = torch::randn({4, 6}, torch::kFloat64);
  EXPECT_TRUE(torch::equal(network->forward(x), mlp->forward(x)));
  EXPECT_EQ(network->record(), mlp->record());
}

TEST(NetworkTable, SaysWhatItIs) {
  nn::MlpOptions layers;
  layers.inputs = 79;
  layers.hidden = {500, 250};
  layers.width_factor = 2;
  layers.parametrization = nn::Parametrization::kImproved;
  const Network network = nn::Mlp(layers, 1);
  EXPECT_EQ(network->architecture(), "mlp");
  EXPECT_EQ(network->describe(), "79-1000-500-1");
  EXPECT_EQ(network->input_shape(), std::vector<int64_t>{79});
  EXPECT_EQ(network->output_count(), 1);
  EXPECT_EQ(network->parametrization(), nn::Parametrization::kImproved);
  EXPECT_EQ(network->parameter_count(), 80 * 1000 + 1001 * 500 + 501);
  EXPECT_EQ(network->dtype(), torch::kFloat32);
  EXPECT_TRUE(network->device().is_cpu());
  // One multiplication and one addition a weight; the first layer's input needs no gradient.
  const nn::Operations count = network->operations_per_sample();
  EXPECT_EQ(count.forward, 2 * (79e3 + 500e3 + 500));
  EXPECT_EQ(count.step, 2 * (2 * 79e3 + 3 * 500e3 + 3 * 500));
  EXPECT_FALSE(Network());
  EXPECT_EQ(network.as<MeanImpl>(), nullptr);
}

TEST(NetworkTable, IsAModelToTheKernel) {
  nn::MlpOptions layers;
  layers.inputs = 3;
  layers.hidden = {8};
  nn::Mlp mlp(layers, 2, torch::kFloat64);
  const Network network = mlp;
  const Tensor x = torch::randn({5, 3}, torch::kFloat64);
  EXPECT_TRUE(
      torch::equal(kernel::empirical_ntk(network, x).theta, kernel::empirical_ntk(mlp, x).theta));
}

TEST(NetworkTable, RefusesWhatItDoesNotKnow) {
  NetworkOptions options;
  options.architecture = "vgg";
  EXPECT_THAT([&] { nn::make_network(options, 1); },
              ThrowsMessage<InvalidArgument>(
                  HasSubstr("must be mlp or alexnet or cnn or resnet18, got 'vgg'")));
  EXPECT_THAT([&] { nn::make_network(options, 1, torch::kFloat32, table_with_mean()); },
              ThrowsMessage<InvalidArgument>(
                  HasSubstr("must be mlp or alexnet or cnn or resnet18 or mean, got 'vgg'")));
  options.architecture = "mlp";
  options.input_shape = {3, 32, 32};
  EXPECT_THAT([&] { nn::make_network(options, 1); },
              ThrowsMessage<InvalidArgument>(HasSubstr("[3, 32, 32]")));
}

TEST(NetworkTable, FilesOfAnotherArchitectureComeBackByTheTable) {
  const test::TempFolder folder;
  const auto path = folder.path() / "mean.safetensors";
  NetworkOptions options;
  options.architecture = "mean";
  options.outputs = 2;
  const Network network = nn::make_network(options, 1, torch::kFloat32, table_with_mean());
  {
    const torch::NoGradGuard no_graph;
    network.as<MeanImpl>()->scale_.mul_(3);
    network.as<MeanImpl>()->offset_.add_(2);
  }
  nn::save_model(path, network);
  const Tensor x = torch::randn({4, 2, 3, 3});
  const Network again = nn::load_model(path, table_with_mean());
  EXPECT_TRUE(torch::equal(again->forward(x), network->forward(x)));
  EXPECT_THAT([&] { nn::load_model(path); },
              ThrowsMessage<InvalidArgument>(testing::AllOf(
                  HasSubstr("mean.safetensors"),
                  HasSubstr("must be mlp or alexnet or cnn or resnet18, got 'mean'"))));
}

// Files of today are read and written as before the table.
TEST(NetworkTable, AnMlpsFileStaysTheSameToTheByte) {
  const test::TempFolder folder;
  const auto path = folder.path() / "model.safetensors";
  nn::MlpOptions layers;
  layers.inputs = 2;
  layers.hidden = {3};
  layers.bias = false;
  nn::Mlp mlp(layers, 5);
  nn::save_model(path, mlp);
  const auto expected = folder.path() / "expected.safetensors";
  save_safetensors(
      expected,
      {{{"layers.0.weight", mlp->weight(0).detach()}, {"layers.1.weight", mlp->weight(1).detach()}},
       {{"architecture",
         R"({"type":"mlp","inputs":2,"hidden":[3],"outputs":1,"activation":"relu",)"
         R"("parametrization":"standard","sigma_w":1.0,"sigma_b":0.1,"width_factor":1,)"
         R"("bias":false})"}}});
  EXPECT_EQ(read_file(path), read_file(expected));
}

}  // namespace
}  // namespace cdt
