// The MLP's distributions and scalings, and models on disk.
#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/saved_model.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/temp_folder.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using nn::Activation;
using nn::Mlp;
using nn::MlpOptions;
using nn::Parametrization;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

MlpOptions options(Parametrization parametrization, int64_t factor) {
  MlpOptions o;
  o.inputs = 30;
  o.hidden = {40, 50};
  o.outputs = 2;
  o.parametrization = parametrization;
  o.sigma_w = 1.3;
  o.sigma_b = 0.2;
  o.width_factor = factor;
  return o;
}

TEST(Mlp, DrawsAndScalesAsThePapersTable) {
  for (const auto parametrization :
       {Parametrization::kStandard, Parametrization::kNtk, Parametrization::kImproved}) {
    for (int64_t s : {1, 8}) {
      SCOPED_TRACE(testing::Message() << to_string(parametrization) << " s " << s);
      Mlp net(options(parametrization, s), 3, torch::kFloat64);
      // The weights that act, found by feeding unit vectors to a network without nonlinearity
      // between: layer by layer.
      const bool ntk = parametrization == Parametrization::kNtk;
      const bool improved = parametrization == Parametrization::kImproved;
      const std::vector<double> base{30, 40, 50};
      const std::vector<double> factor{1, static_cast<double>(s), static_cast<double>(s)};
      ASSERT_EQ(net->depth(), 3u);
      for (size_t l = 0; l < 3; ++l) {
        const Tensor& w = net->weight(l);
        EXPECT_EQ(w.size(1), static_cast<int64_t>(base[l] * factor[l]));
        const double expected = ntk        ? 1.0
                                : improved ? 1.3 / std::sqrt(base[l])
                                           : 1.3 / std::sqrt(base[l] * factor[l]);
        // The deviation of an estimated standard deviation is σ/√(2N); five of them.
        const double slack = 5 / std::sqrt(2.0 * static_cast<double>(w.numel()));
        EXPECT_NEAR(w.std().item<double>() / expected, 1, slack);
        EXPECT_NEAR(w.mean().item<double>() / expected, 0,
                    5 / std::sqrt(static_cast<double>(w.numel())));
        const Tensor& b = net->bias(l);
        const double bias = ntk ? 1.0 : 0.2;
        EXPECT_NEAR(b.square().mean().sqrt().item<double>() / bias, 1,
                    5 / std::sqrt(static_cast<double>(b.numel())));
      }
      // The forward pass, written out.
      const Tensor x = torch::randn({4, 30}, torch::kFloat64);
      Tensor z = x;
      for (size_t l = 0; l < 3; ++l) {
        if (l > 0) z = z.relu();
        const double scale = ntk        ? 1.3 / std::sqrt(base[l] * factor[l])
                             : improved ? 1 / std::sqrt(factor[l])
                                        : 1.0;
        z = scale * z.mm(net->weight(l).t()) + (ntk ? 0.2 : 1.0) * net->bias(l);
      }
      EXPECT_LE(relative_error(net->forward(x), z), 1e-13);
    }
  }
}

TEST(Mlp, ImprovedEqualsStandardAtFactorOne) {
  Mlp standard(options(Parametrization::kStandard, 1), 5);
  Mlp improved(options(Parametrization::kImproved, 1), 5);
  const Tensor x = torch::randn({4, 30});
  EXPECT_TRUE(torch::equal(standard->forward(x), improved->forward(x)));
  Mlp again(options(Parametrization::kStandard, 1), 5);
  Mlp other(options(Parametrization::kStandard, 1), 6);
  EXPECT_TRUE(torch::equal(standard->forward(x), again->forward(x)));
  EXPECT_FALSE(torch::equal(standard->forward(x), other->forward(x)));
}

TEST(Mlp, DrawsTheFirstLayerFirst) {
  for (const auto parametrization :
       {Parametrization::kStandard, Parametrization::kNtk, Parametrization::kImproved}) {
    for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
      SCOPED_TRACE(testing::Message() << to_string(parametrization) << " in " << dtype);
      Mlp net(options(parametrization, 2), 11, dtype);
      auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
      const bool ntk = parametrization == Parametrization::kNtk;
      for (size_t l = 0; l < net->depth(); ++l) {
        const Tensor& w = net->weight(l);
        const bool base = parametrization == Parametrization::kImproved && l > 0;
        const auto width = static_cast<double>(w.size(1)) / (base ? 2 : 1);
        const Tensor weight = torch::randn(w.sizes(), generator, torch::kFloat64) *
                              (ntk ? 1 : 1.3 / std::sqrt(width));
        const Tensor bias = torch::randn({w.size(0)}, generator, torch::kFloat64) * (ntk ? 1 : 0.2);
        EXPECT_TRUE(torch::equal(w, weight.to(dtype))) << "layer " << l;
        EXPECT_TRUE(torch::equal(net->bias(l), bias.to(dtype))) << "layer " << l;
      }
    }
  }
}

// θ = [vec(W^L) b^L … vec(W^1) b^1], vec stacking the columns of the paper's W [in, out].
TEST(Mlp, ParametersComeInThePapersOrder) {
  for (bool bias : {true, false}) {
    MlpOptions o = options(Parametrization::kNtk, 2);
    o.bias = bias;
    Mlp net(o, 1);
    std::vector<Tensor> expected;
    for (size_t l = net->depth(); l-- > 0;) {
      const Tensor W = net->weight(l).t();
      for (int64_t j = 0; j < W.size(1); ++j) expected.push_back(W.select(1, j));
      if (bias) expected.push_back(net->bias(l));
    }
    const kernel::Model model = net;
    EXPECT_EQ(model.parameters().size(), bias ? 6u : 3u);
    EXPECT_TRUE(torch::equal(kernel::flatten(model, model.parameters()), torch::cat(expected)));
  }
}

TEST(Mlp, EveryParametrizationGoesByRules) {
  for (const auto parametrization :
       {Parametrization::kStandard, Parametrization::kNtk, Parametrization::kImproved}) {
    for (const auto activation : {Activation::kRelu, Activation::kTanh, Activation::kGelu,
                                  Activation::kSoftplus, Activation::kErf}) {
      SCOPED_TRACE(to_string(parametrization) + " " + to_string(activation));
      MlpOptions o = options(parametrization, 2);
      o.activation = activation;
      Mlp net(o, 1, torch::kFloat64);
      const Tensor x = torch::randn({5, 30}, torch::kFloat64);
      kernel::NtkOptions rows;
      rows.path = kernel::NtkOptions::Path::kJacobian;
      const auto ntk = kernel::empirical_ntk(net, x);
      EXPECT_LE(relative_error(ntk.theta, kernel::empirical_ntk(net, x, rows).theta),
                test::tol::kKernel64);
      for (const auto& p : ntk.coverage) EXPECT_EQ(p.coverage, kernel::Coverage::kRule) << p.reason;
    }
  }
}

TEST(Mlp, RefusesBadOptionsAndInputs) {
  MlpOptions o = options(Parametrization::kStandard, 1);
  o.hidden = {10, 0};
  EXPECT_THROW(Mlp(o, 1), InvalidArgument);
  o = options(Parametrization::kStandard, 0);
  EXPECT_THROW(Mlp(o, 1), InvalidArgument);
  o = options(Parametrization::kStandard, 1);
  o.sigma_w = NAN;
  EXPECT_THROW(Mlp(o, 1), InvalidArgument);
  Mlp net(options(Parametrization::kStandard, 1), 1);
  EXPECT_THAT(
      [&] {
        net->forward(torch::ones({4, 7}));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("30 features")));
  EXPECT_THROW(nn::parse_activation("sigmoid"), InvalidArgument);
  EXPECT_THROW(nn::parse_parametrization("xavier"), InvalidArgument);
}

class SavedModel : public testing::Test {
 protected:
  test::TempFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.safetensors";

  void write(const std::string& architecture, std::map<std::string, Tensor> tensors) {
    save_safetensors(path_, {std::move(tensors), {{"architecture", architecture}}});
  }
};

TEST_F(SavedModel, ComesBackTheSame) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    for (bool bias : {true, false}) {
      MlpOptions o = options(Parametrization::kNtk, 2);
      o.activation = Activation::kErf;
      o.bias = bias;
      Mlp net(o, 9, dtype);
      nn::save_model(path_, net);
      const nn::Network loaded = nn::load_model(path_);
      const Tensor x = torch::randn({3, 30}, dtype);
      EXPECT_TRUE(torch::equal(net->forward(x), loaded->forward(x)));
      const auto mlp = loaded.as<nn::MlpImpl>();
      ASSERT_NE(mlp, nullptr);
      EXPECT_EQ(mlp->options().sigma_w, 1.3);
      EXPECT_TRUE(mlp->weight(0).requires_grad());
    }
  }
}

TEST_F(SavedModel, DefaultsLetPyTorchUsersWriteLittle) {
  write(R"({"type": "mlp", "inputs": 3, "hidden": [4]})", {{"layers.0.weight", torch::ones({4, 3})},
                                                           {"layers.0.bias", torch::zeros({4})},
                                                           {"layers.1.weight", torch::ones({1, 4})},
                                                           {"layers.1.bias", torch::zeros({1})}});
  EXPECT_EQ(nn::load_model(path_)->forward(torch::ones({2, 3}))[0].item<float>(), 12);
}

TEST_F(SavedModel, SaysWhatIsWrongWithAFile) {
  const std::map<std::string, Tensor> good{{"layers.0.weight", torch::ones({1, 3})},
                                           {"layers.0.bias", torch::zeros({1})}};
  const std::string record = R"({"type": "mlp", "inputs": 3})";
  const auto refused = [&](const std::string& why) {
    EXPECT_THAT([&] { nn::load_model(path_); },
                ThrowsMessage<InvalidArgument>(
                    testing::AllOf(HasSubstr(why), HasSubstr("model.safetensors"))));
  };
  EXPECT_THROW(nn::load_model(folder_.path() / "absent"), InvalidArgument);
  save_safetensors(path_, {good, {}});
  refused("architecture");
  write("not json", good);
  refused("architecture record");
  write(R"([1, 2])", good);
  refused("architecture record");
  write(R"({"type": "transformer", "inputs": 3})", good);
  refused("must be mlp");
  write(R"({"type": "mlp"})", good);
  refused("inputs");
  write(R"({"type": "mlp", "inputs": "three"})", good);
  refused("architecture record");
  write(R"({"type": "mlp", "inputs": 4})", good);
  refused("layers.0.weight");
  write(R"({"type": "mlp", "inputs": 3, "hidden": [9223372036854775807], "width_factor": 4})",
        good);
  refused("hidden");
  // Nothing stands for its default by a slip of the pen, and nothing is rounded.
  write(R"({"type": "mlp", "inputs": 3, "activaton": "tanh"})", good);
  refused("has no 'activaton'; it may have type, inputs, hidden");
  write(R"({"type": "mlp", "inputs": 3, "parametrisation": "ntk"})", good);
  refused("has no 'parametrisation'");
  write(R"({"type": "mlp", "inputs": 3.7})", good);
  refused(
      "the architecture record: inputs: expected a whole number from 1 to 2147483647, got "
      "3.7");
  write(R"({"type": "mlp", "inputs": 3, "hidden": [4.9]})", good);
  refused("hidden[0]: expected a whole number");
  write(R"({"type": "mlp", "inputs": 3, "hidden": 4})", good);
  refused("hidden: expected a list");
  write(R"({"type": "mlp", "inputs": 3, "width_factor": 1.9})", good);
  refused("width_factor: expected a whole number");
  write(R"({"type": "mlp", "inputs": 1180591620717411303424})", good);
  refused("inputs: expected a whole number");
  write(R"({"type": "mlp", "inputs": 3, "activation": "step"})", good);
  refused("activation");
  auto tensors = good;
  tensors.erase("layers.0.bias");
  write(record, tensors);
  refused("layers.0.bias is missing");
  tensors = good;
  tensors["extra"] = torch::ones({1});
  write(record, tensors);
  refused("3");
  tensors = good;
  tensors["layers.0.weight"] = torch::full({1, 3}, NAN);
  write(record, tensors);
  refused("layers.0.weight");
  tensors = good;
  tensors["layers.0.weight"] = torch::ones({1, 3}, torch::kInt64);
  write(record, tensors);
  refused("layers.0.weight");
  tensors = good;
  tensors["layers.0.bias"] = torch::zeros({1}, torch::kFloat64);
  write(record, tensors);
  refused("one dtype");
  write(record, good);
  EXPECT_NO_THROW(nn::load_model(path_));
}

}  // namespace
}  // namespace cdt
