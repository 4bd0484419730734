// Parameters and buffers of any module, saved and restored by name.
#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/nn/parameters.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "support/temp_folder.h"

namespace cdt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

/// A module of one's own, with modules in it, a parameter and buffers.
struct CustomImpl : torch::nn::Module {
  CustomImpl()
      : conv(torch::nn::Conv2dOptions(2, 3, 2)), bn(3), head(torch::nn::LinearOptions(12, 2)) {
    register_module("conv", conv);
    register_module("bn", bn);
    register_module("head", head);
    gain = register_parameter("gain", torch::randn({2}));
    steps = register_buffer("steps", torch::zeros({1}, torch::kInt64));
  }
  Tensor forward(const Tensor& x) { return head(torch::relu(bn(conv(x))).flatten(1)) * gain; }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d bn;
  torch::nn::Linear head;
  Tensor gain, steps;
};
TORCH_MODULE(Custom);

class Parameters : public testing::Test {
 protected:
  test::TempFolder folder_;
  std::filesystem::path path_ = folder_.path() / "net.safetensors";

  void refused(Custom& net, const std::vector<std::string>& words) {
    const Tensor before = net->gain.detach().clone();
    try {
      nn::load_parameters(path_, net);
      ADD_FAILURE() << "not refused: " << words.front();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("net.safetensors"));
      for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
    }
    EXPECT_TRUE(torch::equal(net->gain, before)) << "a refused file has changed the module";
  }
};

TEST_F(Parameters, OfACustomModuleComeBackBuffersIncluded) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    torch::manual_seed(1);
    Custom net, other;
    net->to(dtype);
    other->to(dtype);
    const Tensor x = torch::randn({6, 2, 3, 3}, dtype);
    net->forward(x);  // moves the running mean and variance
    net->steps.add_(41);
    nn::save_parameters(path_, net);
    nn::load_parameters(path_, other);
    net->eval();
    other->eval();
    EXPECT_TRUE(torch::equal(net->forward(x), other->forward(x)));
    EXPECT_EQ(other->steps.item<int64_t>(), 41);
    EXPECT_EQ(other->bn->num_batches_tracked.item<int64_t>(), 1);
    EXPECT_TRUE(other->gain.requires_grad() && other->gain.is_leaf());
  }
}

TEST_F(Parameters, GoByTheNamesOfLibTorch) {
  Custom net;
  nn::save_parameters(path_, *net);
  const SafeTensors file = load_safetensors(path_);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("bn.bias", "bn.num_batches_tracked", "bn.running_mean",
                                          "bn.running_var", "bn.weight", "conv.bias", "conv.weight",
                                          "gain", "head.bias", "head.weight", "steps"));
}

TEST_F(Parameters, AsATableOfTensors) {
  const Tensor a = torch::randn({2, 3}), b = torch::arange(4);
  nn::save_parameters(path_, nn::NamedTensors{{"a", a}, {"b", b}});
  const Tensor a2 = torch::zeros({2, 3}), b2 = torch::zeros({4}, torch::kInt64);
  nn::load_parameters(path_, nn::NamedTensors{{"a", a2}, {"b", b2}});
  EXPECT_TRUE(torch::equal(a, a2));
  EXPECT_TRUE(torch::equal(b, b2));
}

TEST_F(Parameters, SayWhatDoesNotFit) {
  Custom net;
  const nn::NamedTensors good = nn::named_tensors(*net);
  const auto write = [&](const nn::NamedTensors& tensors) { nn::save_parameters(path_, tensors); };
  auto tensors = good;
  tensors.erase("bn.running_var");
  write(tensors);
  refused(net, {"expected a tensor bn.running_var", "bn.running_mean"});
  tensors = good;
  tensors["extra"] = torch::ones({1});
  write(tensors);
  refused(net, {"expected no tensor extra", "conv.weight"});
  tensors = good;
  tensors["head.weight"] = torch::ones({12, 2});
  write(tensors);
  refused(net, {"head.weight", "expected", "[2, 12]", "got [12, 2]"});
  tensors = good;
  tensors["gain"] = torch::ones({2}, torch::kFloat64);
  write(tensors);
  refused(net, {"expected gain in Float", "got Double"});
  EXPECT_THROW(nn::load_parameters(folder_.path() / "absent", net), InvalidArgument);
}

}  // namespace
}  // namespace cdt
