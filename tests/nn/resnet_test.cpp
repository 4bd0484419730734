// ResNet-18 as torchvision has it: tensors, function, kernel, files, the three parametrisations.
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/resnet.h>
#include <cdt/nn/saved_model.h>
#include <cdt/train/trainer.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/temp_folder.h"
#include "support/tolerance.h"

namespace cdt::nn {
namespace {

using testing::HasSubstr;
using torch::Tensor;

/// Statistics and scales as training might have left them.
void stir(const ResNet18& net) {
  const torch::NoGradGuard no_graph;
  torch::manual_seed(77);
  for (auto& [name, tensor] : net->saved_tensors()) {
    Tensor t = tensor;
    if (name.find("running_mean") != std::string::npos) t.copy_(torch::randn_like(t) * 0.3);
    if (name.find("running_var") != std::string::npos) t.copy_(torch::rand_like(t) + 0.5);
    if (name.find("num_batches") != std::string::npos) t.fill_(9);
    if (name.find("bn") != std::string::npos && name.find(".weight") != std::string::npos) {
      t.add_(torch::randn_like(t) * 0.2);
    }
  }
}

/// torchvision's module in LibTorch's own layers: a basic block.
struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        bn1(out),
        conv2(torch::nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        bn2(out) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
    if (stride == 1) return;
    downsample = torch::nn::Sequential(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
        torch::nn::BatchNorm2d(out));
    register_module("downsample", downsample);
  }
  Tensor forward(const Tensor& x) {
    const Tensor h = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(h + (downsample.is_empty() ? x : downsample->forward(x)));
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

struct ReferenceImpl : torch::nn::Module {
  ReferenceImpl(int64_t channels, int64_t outputs)
      : conv1(torch::nn::Conv2dOptions(channels, 64, 7).stride(2).padding(3).bias(false)),
        bn1(64),
        fc(512, outputs) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    int64_t in = 64;
    for (int64_t stage = 0; stage < 4; ++stage) {
      const int64_t out = 64 << stage;
      layers.push_back(
          torch::nn::Sequential(Block(in, out, stage == 0 ? 1 : 2), Block(out, out, 1)));
      register_module("layer" + std::to_string(stage + 1), layers.back());
      in = out;
    }
    register_module("fc", fc);
  }
  Tensor forward(Tensor x) {
    x = torch::max_pool2d(torch::relu(bn1(conv1(x))), 3, 2, 1);
    for (auto& layer : layers) x = layer->forward(x);
    return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  std::vector<torch::nn::Sequential> layers;
  torch::nn::Linear fc;
};
TORCH_MODULE(Reference);

TEST(ResNet18, HasTorchvisionsTensors) {
  ResNet18 net(resnet18_options({3, 224, 224}, 1000), 1);
  EXPECT_EQ(net->parameter_count(), 11'689'512);
  const auto tensors = net->saved_tensors();
  EXPECT_EQ(tensors.size(), 122u);
  EXPECT_EQ(tensors.at("conv1.weight").sizes(), (c10::IntArrayRef{64, 3, 7, 7}));
  EXPECT_EQ(tensors.at("layer4.0.downsample.0.weight").sizes(), (c10::IntArrayRef{512, 256, 1, 1}));
  EXPECT_EQ(tensors.at("layer2.1.bn2.running_var").sizes(), (c10::IntArrayRef{128}));
  EXPECT_EQ(tensors.at("bn1.num_batches_tracked").scalar_type(), torch::kInt64);
  // θ from the last layer to the first; statistics are no part of it.
  EXPECT_EQ(net->parameters().size(), 62u);
  EXPECT_EQ(net->parameters().front().size(0), 1000);
  EXPECT_EQ(net->parameters()[net->parameters().size() - 3].size(1), 3);
  EXPECT_EQ(net->describe(), "resnet18 3×224×224-1000");
  // 1.81 · 10⁹ multiply-adds a picture, as is well known of it.
  EXPECT_NEAR(net->operations_per_sample().forward / 2e9, 1.814, 1e-3);
}

// LibTorch's own modules under torchvision's names: a file of theirs loads, and gives the same.
TEST(ResNet18, TakesTheWeightsOfTorchvisionsModule) {
  const test::TempFolder folder;
  torch::manual_seed(2);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 64, 48}, {1, 33, 20}}) {
    Reference reference(shape[0], 5);
    reference->to(torch::kFloat64);
    reference->train();  // moves its statistics
    const Tensor x = torch::randn({3, shape[0], shape[1], shape[2]}, torch::kFloat64);
    reference->forward(x + 0.2);
    reference->eval();
    for (auto& item : reference->named_buffers()) {  // counters stay what they are in Python
      if (item.key().find("num_batches") != std::string::npos) {
        item.value().set_data(item.value().to(torch::kInt64));
      }
    }
    save_parameters(folder / "reference.safetensors", reference);
    ResNet18 net(resnet18_options(shape, 5), 3, torch::kFloat64);
    load_parameters(folder / "reference.safetensors", net->saved_tensors());
    EXPECT_LE(test::relative_error(net->forward(x), reference->forward(x)), 1e-13);
    // What it is, whatever mode somebody sets.
    net->train();
    EXPECT_LE(test::relative_error(net->forward(x), reference->forward(x)), 1e-13);
  }
}

TEST(ResNet18, KernelByRulesIsThatOfTheJacobian) {
  ResNet18 net(resnet18_options({2, 9, 8}, 2), 4, torch::kFloat64);
  stir(net);
  torch::manual_seed(5);
  const Tensor x = torch::randn({3, 2, 9, 8}, torch::kFloat64);
  const test::Network plain{
      "", net->parameters(), [&](const auto&, const Tensor& in) { return net->forward(in); }, {}};
  const Tensor J = test::brute_force_jacobian(plain, x);
  const auto ntk = kernel::empirical_ntk(net, x);
  EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
  for (const auto& p : ntk.coverage) EXPECT_EQ(p.coverage, kernel::Coverage::kRule) << p.reason;
}

TEST(ResNet18, ParametrisationsDifferInWhereTheyScale) {
  PictureOptions o = resnet18_options({1, 12, 12}, 2);
  o.sigma_w = 1.4;
  o.sigma_b = 0.3;
  const Tensor x = torch::randn({2, 1, 12, 12}, torch::kFloat64);
  ResNet18 standard(o, 7, torch::kFloat64);
  o.parametrization = Parametrization::kImproved;
  ResNet18 improved(o, 7, torch::kFloat64);
  EXPECT_TRUE(standard->forward(x).equal(improved->forward(x)));
  o.parametrization = Parametrization::kNtk;
  ResNet18 ntk(o, 7, torch::kFloat64);
  EXPECT_LE(test::relative_error(ntk->forward(x), standard->forward(x)), 1e-12);
  // The same function of w/√s: the standard network of widened layers with smaller weights.
  o.width_factor = 2;
  o.parametrization = Parametrization::kImproved;
  ResNet18 wide(o, 8, torch::kFloat64);
  o.parametrization = Parametrization::kStandard;
  ResNet18 scaled(o, 9, torch::kFloat64);
  copy_tensors(wide->saved_tensors(), scaled->saved_tensors());
  {
    const torch::NoGradGuard no_graph;
    for (auto& [name, tensor] : scaled->saved_tensors()) {
      if (tensor.dim() > 1 && name != "conv1.weight") Tensor(tensor).div_(std::sqrt(2.0));
    }
  }
  EXPECT_LE(test::relative_error(wide->forward(x), scaled->forward(x)), 1e-12);
  EXPECT_EQ(wide->saved_tensors().at("layer1.0.conv1.weight").size(1), 128);
}

TEST(ResNet18, ComesBackFromAFileWithItsStatistics) {
  const test::TempFolder folder;
  PictureOptions o = resnet18_options({3, 20, 24}, 3);
  o.parametrization = Parametrization::kNtk;
  o.activation = Activation::kTanh;
  ResNet18 net(o, 5);
  stir(net);
  save_model(folder / "net.safetensors", net);
  const Network again = load_model(folder / "net.safetensors");
  EXPECT_EQ(again->record(), net->record());
  EXPECT_EQ(again->architecture(), "resnet18");
  const Tensor x = torch::randn({2, 3, 20, 24});
  EXPECT_TRUE(again->forward(x).equal(net->forward(x)));
  const NamedTensors tensors = again->saved_tensors();
  for (const auto& [name, tensor] : net->saved_tensors()) {
    EXPECT_TRUE(tensors.at(name).equal(tensor)) << name;
  }

  const auto refused = [&](const std::string& name, const Tensor& value) -> std::string {
    SafeTensors file = load_safetensors(folder / "net.safetensors");
    if (value.defined()) {
      file.tensors[name] = value;
    } else {
      file.tensors.erase(name);
    }
    try {
      parse_model(file, "file");
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "was not refused";
  };
  EXPECT_THAT(refused("bn1.running_mean", {}), HasSubstr("bn1.running_mean is missing"));
  EXPECT_THAT(refused("bn1.running_var", -torch::ones({64})), HasSubstr("must not be negative"));
  EXPECT_THAT(refused("bn1.running_var", torch::ones({63})), HasSubstr("bn1.running_var"));
  EXPECT_THAT(refused("bn1.num_batches_tracked", torch::ones({})), HasSubstr("one dtype"));
  EXPECT_THAT(refused("extra", torch::ones({2})), HasSubstr("122 tensors"));
}

TEST(ResNet18, IsMadeByTheTableAndTrainedByGuardedCdt) {
  NetworkOptions options;
  options.architecture = "resnet18";
  options.input_shape = {1, 16, 16};
  options.outputs = 2;
  const Network net = make_network(options, 4);
  torch::manual_seed(3);
  train::TrainData data;
  data.x = torch::randn({6, 1, 16, 16});
  data.y = torch::one_hot(torch::arange(6) % 2, 2).to(torch::kFloat64);
  train::TrainOptions training;
  training.steps = 40;
  training.stop_loss = 1e-6;
  const auto result = train::Trainer(net, data, training, make_engine(net)).run();
  EXPECT_EQ(result.outcome, train::Outcome::kTarget);
  EXPECT_TRUE(net->saved_tensors().at("bn1.running_mean").eq(0).all().item<bool>());

  const auto refused = [&] {
    try {
      make_network(options, 1);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("was not refused");
  };
  options.hidden = {5};
  EXPECT_THAT(refused(), HasSubstr("hidden"));
  options.hidden.clear();
  options.input_shape = {12};
  EXPECT_THAT(refused(), HasSubstr("takes pictures"));
  options.input_shape = {3, 16, 16};
  options.width_factor = 10'000'000;
  EXPECT_THAT(refused(), HasSubstr("widened"));
  EXPECT_THROW(net->forward(torch::zeros({1, 1, 16, 15})), InvalidArgument);
}

}  // namespace
}  // namespace cdt::nn
