// Networks of convolutions: AlexNet as torchvision has it, a small one, files, the three
// parametrisations.
#include <cdt/core/error.h>
#include <cdt/nn/conv_net.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/saved_model.h>
#include <cdt/train/trainer.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/temp_folder.h"

namespace cdt::nn {
namespace {

using testing::HasSubstr;
using torch::Tensor;

std::string refused_network(const std::function<void()>& make) {
  try {
    make();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "was not refused";
}

TEST(AlexNet, HasTorchvisionsTensors) {
  // 61 100 840 parameters for 1000 classes; the dense layers do not depend on the pictures' size.
  ConvNet net(alexnet_options({3, 224, 224}, 1000), 1);
  EXPECT_EQ(net->parameter_count(), 61'100'840);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : net->saved_tensors()) names.push_back(name);
  EXPECT_THAT(
      names, testing::ElementsAre("classifier.1.bias", "classifier.1.weight", "classifier.4.bias",
                                  "classifier.4.weight", "classifier.6.bias", "classifier.6.weight",
                                  "features.0.bias", "features.0.weight", "features.10.bias",
                                  "features.10.weight", "features.3.bias", "features.3.weight",
                                  "features.6.bias", "features.6.weight", "features.8.bias",
                                  "features.8.weight"));
  EXPECT_EQ(net->saved_tensors().at("features.0.weight").sizes(),
            (c10::IntArrayRef{64, 3, 11, 11}));
  EXPECT_EQ(net->saved_tensors().at("classifier.1.weight").sizes(), (c10::IntArrayRef{4096, 9216}));
  // θ from the last layer to the first.
  EXPECT_EQ(net->parameters().front().size(0), 1000);
  EXPECT_EQ(net->parameters().back().size(0), 64);
  EXPECT_EQ(net->describe(), "alexnet 3×224×224-1000");
}

TEST(AlexNet, ComputesWhatTorchvisionsDoes) {
  torch::manual_seed(2);
  ConvNet net(alexnet_options({3, 96, 96}, 2), 3, torch::kFloat64);
  NamedTensors w = net->saved_tensors();
  const Tensor x = torch::randn({2, 3, 96, 96}, torch::kFloat64);
  const auto conv = [&](const Tensor& z, const std::string& name, int64_t stride, int64_t padding) {
    return torch::relu(
        torch::conv2d(z, w.at(name + ".weight"), w.at(name + ".bias"), stride, padding));
  };
  Tensor z = torch::max_pool2d(conv(x, "features.0", 4, 2), 3, 2);
  z = torch::max_pool2d(conv(z, "features.3", 1, 2), 3, 2);
  z = conv(conv(z, "features.6", 1, 1), "features.8", 1, 1);
  z = torch::max_pool2d(conv(z, "features.10", 1, 1), 3, 2);
  z = torch::adaptive_avg_pool2d(z, {6, 6}).flatten(1);
  for (const char* name : {"classifier.1", "classifier.4", "classifier.6"}) {
    z = torch::linear(z, w.at(std::string(name) + ".weight"), w.at(std::string(name) + ".bias"));
    if (std::string(name) != "classifier.6") z = torch::relu(z);
  }
  EXPECT_TRUE(net->forward(x).equal(z));
}

ConvNetOptions small_options(Parametrization parametrization, int64_t factor) {
  ConvNetOptions o = cnn_options({2, 8, 6}, {3, 4}, 5);
  o.parametrization = parametrization;
  o.width_factor = factor;
  o.sigma_w = 1.3;
  o.sigma_b = 0.2;
  return o;
}

TEST(Cnn, ParametrisationsDifferInWhereTheyScale) {
  const Tensor x = torch::randn({3, 2, 8, 6}, torch::kFloat64);
  // At s = 1 standard and improved are the same network; the ntk's is, up to what is drawn.
  ConvNet standard(small_options(Parametrization::kStandard, 1), 7, torch::kFloat64);
  ConvNet improved(small_options(Parametrization::kImproved, 1), 7, torch::kFloat64);
  ConvNet ntk(small_options(Parametrization::kNtk, 1), 7, torch::kFloat64);
  EXPECT_TRUE(standard->forward(x).equal(improved->forward(x)));
  EXPECT_LE(test::relative_error(ntk->forward(x), standard->forward(x)), 1e-13);
  // At s = 4 every layer but the first sums over four times as much, and its weights are smaller.
  ConvNet wide(small_options(Parametrization::kImproved, 4), 7, torch::kFloat64);
  const auto w = wide->saved_tensors();
  EXPECT_EQ(w.at("features.0.weight").sizes(), (c10::IntArrayRef{12, 2, 3, 3}));
  EXPECT_EQ(w.at("classifier.0.weight").sizes(), (c10::IntArrayRef{5, 16 * 2 * 1}));
  Tensor z = torch::max_pool2d(
      torch::relu(torch::conv2d(x, w.at("features.0.weight"), w.at("features.0.bias"), 1, 1)), 2,
      2);
  z = torch::max_pool2d(
      torch::relu(torch::conv2d(z, w.at("features.3.weight") / 2, w.at("features.3.bias"), 1, 1)),
      2, 2);
  z = torch::linear(z.flatten(1), w.at("classifier.0.weight") / 2, w.at("classifier.0.bias"));
  EXPECT_LE(test::relative_error(wide->forward(x), z), 1e-14);
}

TEST(Cnn, CountsItsProducts) {
  ConvNet net(small_options(Parametrization::kStandard, 1), 1);
  // 8 × 6 positions of 3·2·9, then 4 × 3 of 4·3·9, then 5 of 4·2·1.
  const double first = 2.0 * 48 * 54, second = 2.0 * 12 * 108, head = 2.0 * 5 * 8;
  EXPECT_DOUBLE_EQ(net->operations_per_sample().forward, first + second + head);
  EXPECT_DOUBLE_EQ(net->operations_per_sample().step, 2 * first + 3 * (second + head));
}

TEST(Cnn, ComesBackFromAFile) {
  const test::TempFolder folder;
  for (const auto& options :
       {small_options(Parametrization::kNtk, 2), alexnet_options({1, 63, 70}, 3)}) {
    ConvNet net(options, 5);
    save_model(folder / "net.safetensors", net);
    const Network again = load_model(folder / "net.safetensors");
    EXPECT_EQ(again->record(), net->record());
    auto shape = options.input_shape;
    shape.insert(shape.begin(), 2);
    const Tensor x = torch::randn(shape);
    EXPECT_TRUE(again->forward(x).equal(net->forward(x)));
  }
}

TEST(Cnn, IsMadeByTheTableOfArchitectures) {
  NetworkOptions options;
  options.architecture = "cnn";
  options.input_shape = {3, 16, 16};
  options.outputs = 2;
  options.sigma_w = 1.2;
  const Network net = make_network(options, 4);
  EXPECT_EQ(net->describe(), "cnn 3×16×16-2");
  EXPECT_EQ(net->forward(torch::zeros({1, 3, 16, 16})).sizes(), (c10::IntArrayRef{1, 2}));
  options.architecture = "alexnet";
  EXPECT_THAT(refused_network([&] { make_network(options, 1); }),
              HasSubstr("too small for the architecture alexnet"));
  options.input_shape = {3, 63, 63};
  options.hidden = {5};
  EXPECT_THAT(refused_network([&] { make_network(options, 1); }), HasSubstr("hidden"));
  options.hidden.clear();
  options.input_shape = {12};
  EXPECT_THAT(refused_network([&] { make_network(options, 1); }), HasSubstr("takes pictures"));
  options.input_shape = {3, 100000, 63};
  EXPECT_THAT(refused_network([&] { make_network(options, 1); }), HasSubstr("sides of pictures"));
  options.input_shape = {3, 96, 96};
  options.width_factor = 2'000'000;
  EXPECT_THAT(refused_network([&] { make_network(options, 1); }), HasSubstr("widened"));
  EXPECT_THAT(refused_network([&] {
                net->forward(torch::zeros({1, 3, 16, 15}));
              }),
              HasSubstr("takes pictures of shape"));
}

TEST(Cnn, IsTrainedByGuardedCdt) {
  torch::manual_seed(3);
  ConvNet net(cnn_options({1, 8, 8}, {6}, 2), 2);
  train::TrainData data;
  data.x = torch::randn({10, 1, 8, 8});
  data.y = torch::one_hot(torch::arange(10) % 2, 2).to(torch::kFloat64);
  train::TrainOptions options;
  options.steps = 60;
  options.stop_loss = 1e-6;
  const auto result = train::Trainer(net, data, options, make_engine(net)).run();
  EXPECT_EQ(result.outcome, train::Outcome::kTarget);
}

}  // namespace
}  // namespace cdt::nn
