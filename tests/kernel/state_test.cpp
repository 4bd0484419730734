// What a model keeps between two calls, and outputs that no kernel is made of.
#include <cdt/core/error.h>
#include <cdt/kernel/local_model.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/own_memory.h>
#include <cdt/kernel/record/parameter_scope.h>
#include <cdt/kernel/record/recorder.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt::kernel {
namespace {

using test::relative_error;
using testing::HasSubstr;
using torch::Tensor;

const auto kWide = torch::TensorOptions().dtype(torch::kFloat64);

template <class Work>
std::string refusal_of(const Work& work) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

/// A weight over its largest singular value, by one more power iteration each call, as PyTorch's
/// spectral norm has it in training mode.
struct Spectral {
  Tensor weight = torch::randn({3, 4}, kWide).requires_grad_();
  Tensor u = torch::ones({3}, kWide);

  Tensor forward(const Tensor& x) {
    {
      const torch::NoGradGuard no_graph;
      const Tensor v = torch::mv(weight.t(), u);
      torch::div_out(u, torch::mv(weight, v / v.norm()), torch::mv(weight, v / v.norm()).norm());
    }
    const Tensor sigma = torch::mv(weight, torch::mv(weight.t(), u)).norm().sqrt();
    return x.mm((weight / sigma).t());
  }
};

TEST(States, OnesThatMoveTheOutputsAreRefusedAndStay) {
  torch::manual_seed(1);
  Spectral layer;
  const Model model([&](const Tensor& x) { return layer.forward(x); }, {layer.weight});
  const Tensor x = torch::randn({5, 4}, kWide), before = layer.u.clone();
  const Tensor one = torch::ones({15}, kWide);
  for (const auto& ask : std::vector<std::function<void()>>{
           [&] { empirical_ntk(model, x); }, [&] { empirical_ntk(model, x, x); },
           [&] { NtkOperator(model, x).apply(one); },
           [&] { vector_jacobian_product(model, x, one); }, [&] { ntk_trace(model, x); }}) {
    EXPECT_THAT(refusal_of(ask), HasSubstr("Call eval() on the model first"));
    EXPECT_TRUE(layer.u.equal(before));
  }
}

TEST(States, CountersAndStatisticsThatNobodyReadsStayToo) {
  torch::manual_seed(2);
  const Tensor w = torch::randn({2, 4}, kWide).requires_grad_();
  Tensor calls = torch::zeros({}, torch::kInt64), mean = torch::zeros({2}, kWide);
  const Model model(
      [&](const Tensor& x) {
        const Tensor h = torch::linear(x, w).tanh();
        calls += 1;
        mean.mul_(0.9).add_(h.detach().mean(0), 0.1);
        Tensor own = torch::zeros_like(h);
        own.copy_(h);  // written to, but made here
        return own;
      },
      {w});
  const Tensor x = torch::randn({5, 4}, kWide);
  const Tensor found = empirical_ntk(model, x).theta;
  EXPECT_EQ(calls.item<int64_t>(), 0);
  EXPECT_EQ(mean.abs().max().item<double>(), 0);
  const Model plain([&](const Tensor& x) { return torch::linear(x, w).tanh(); }, {w});
  EXPECT_LE(relative_error(found, empirical_ntk(plain, x).theta), test::tol::kKernel64);
}

TEST(States, RandomNumbersAreRefusedWhereverTheyAreDrawn) {
  torch::manual_seed(3);
  const Tensor w = torch::randn({2, 4}, kWide).requires_grad_();
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 3).num_layers(2).dropout(0.5).batch_first(true));
  lstm->to(torch::kFloat64);
  const auto recurrent = [&](const Tensor& x) {
    return std::get<0>(lstm->forward(x.unsqueeze(1).expand({-1, 3, -1}))).select(1, -1);
  };
  const Tensor x = torch::randn({5, 4}, kWide);
  EXPECT_THAT(refusal_of([&] {
                empirical_ntk({recurrent, lstm->parameters()}, x);
              }),
              HasSubstr("draws random numbers (aten::lstm)"));
  const Model noisy([&](const Tensor& x) { return torch::linear(x + torch::rand_like(x), w); },
                    {w});
  EXPECT_THAT(refusal_of([&] { empirical_ntk(noisy, x); }), HasSubstr("draws random numbers"));
  EXPECT_THAT(refusal_of([&] { watch(noisy, [&] { noisy.forward(x); }); }),
              HasSubstr("draws random numbers"));
  lstm->eval();
  EXPECT_EQ(refusal_of([&] { empirical_ntk({recurrent, lstm->parameters()}, x); }), "");
}

TEST(States, GeneratorsDrawAfterARefusalWhatTheyWouldHave) {
  const Tensor w = torch::randn({2, 4}, kWide).requires_grad_();
  const Model noisy([&](const Tensor& x) { return torch::linear(x + torch::rand_like(x), w); },
                    {w});
  const Tensor x = torch::randn({5, 4}, kWide);
  torch::manual_seed(4);
  const Tensor expected = torch::rand({3});
  for (const auto& ask : std::vector<std::function<void()>>{
           [&] { empirical_ntk(noisy, x); }, [&] { empirical_ntk(noisy, x, x); },
           [&] { NtkOperator(noisy, x); }, [&] { ntk_trace(noisy, x); },
           [&] { watch(noisy, [&] { noisy.forward(x); }); }}) {
    torch::manual_seed(4);
    EXPECT_THAT(refusal_of(ask), HasSubstr("draws random numbers"));
    EXPECT_TRUE(torch::rand({3}).equal(expected));
  }
}

TEST(States, ParametersWhoseEntriesShareMemoryAreNotMoved) {
  const Tensor x = torch::ones({2, 3}, kWide);
  const auto model_of = [](const Tensor& w) {
    return Model([w](const Tensor& x) { return x.mm(w); }, {w});
  };
  const Tensor line = torch::arange(20, kWide);
  for (const Tensor& shared : {torch::ones({3, 1}, kWide).expand({3, 2}),
                               line.as_strided({3, 2}, {1, 1}), line.as_strided({3, 4}, {3, 2})}) {
    EXPECT_TRUE(entries_share_memory(shared));
    const Tensor leaf = shared.detach().requires_grad_();
    EXPECT_THAT(refusal_of([&] { LocalModel(model_of(leaf), x); }),
                HasSubstr("parameter 0 of shape"));
    EXPECT_EQ(refusal_of([&] { empirical_ntk(model_of(leaf), x); }), "");
  }
  for (const Tensor& own : {line.as_strided({3, 2}, {4, 3}), line.as_strided({3, 2}, {2, 7}),
                            line.view({4, 5}).t(), line.as_strided({1, 2}, {0, 1}), line[0]}) {
    EXPECT_FALSE(entries_share_memory(own));
  }
}

TEST(States, ParametersGoBackWhateverWasDoneToThem) {
  Tensor w = torch::ones({3, 2}, kWide).requires_grad_();
  const Model model([&](const Tensor& x) { return x.mm(w); }, {w});
  const Tensor before = w.detach().clone();
  EXPECT_THROW(
      {
        const ParameterCopyScope scope(model, {2 * before});
        EXPECT_TRUE(w.detach().equal(2 * before));
        w.set_data(torch::zeros({4, 3, 2}, kWide));
        throw InvalidArgument("mine");
      },
      InvalidArgument);
  EXPECT_TRUE(w.detach().equal(before));
  EXPECT_THROW(ParameterCopyScope(model, {torch::ones({5}, kWide)}), c10::Error);
  EXPECT_TRUE(w.detach().equal(before));
}

TEST(States, OtherWidthsThanLastTimeAreNoError) {
  torch::manual_seed(4);
  Tensor w = torch::randn({2, 4}, kWide).requires_grad_();
  int64_t outputs = 2;
  const Model model([&](const Tensor& x) { return torch::linear(x, w).narrow(1, 0, outputs); },
                    {w});
  const Tensor x = torch::randn({5, 4}, kWide), other = torch::randn({3, 4}, kWide);
  for (const int64_t width : {2, 1, 2}) {
    outputs = width;
    for (int again = 0; again < 2; ++again) {
      const Tensor theta = empirical_ntk(model, x, other).theta;
      const Tensor expected = torch::kron(x.mm(other.t()), torch::eye(width, kWide));
      EXPECT_LE(relative_error(theta, expected), test::tol::kKernel64);
    }
  }
}

TEST(Outputs, ThatAreComplexNameViewAsReal) {
  const Tensor w = torch::randn({2, 4}, kWide).requires_grad_();
  const auto complex = [&](const Tensor& x) { return torch::view_as_complex(torch::linear(x, w)); };
  const Model model(complex, {w});
  const Tensor x = torch::randn({5, 4}, kWide);
  for (const auto& ask : std::vector<std::function<void()>>{
           [&] { model.forward(x); }, [&] { empirical_ntk(model, x); },
           [&] { NtkOperator(model, x); },
           [&] { jacobian_vector_product(model, x, torch::ones({8}, kWide)); }}) {
    EXPECT_THAT(refusal_of(ask), HasSubstr("torch.view_as_real"));
  }
  // As it says: the two parts are outputs like any other.
  const Model parts([&](const Tensor& x) { return torch::view_as_real(complex(x)); }, {w});
  const Tensor expected = torch::kron(x.mm(x.t()), torch::eye(2, kWide));
  EXPECT_LE(relative_error(empirical_ntk(parts, x).theta, expected), test::tol::kKernel64);
}

TEST(Outputs, ThatAreNoneAreRefused) {
  const Tensor w = torch::randn({2, 4}, kWide).requires_grad_();
  const Tensor x = torch::randn({5, 4}, kWide);
  const Model empty([&](const Tensor& x) { return torch::linear(x, w).narrow(0, 0, 0); }, {w});
  const Model columns([&](const Tensor& x) { return torch::linear(x, w).narrow(1, 0, 0); }, {w});
  for (const Model* model : {&empty, &columns}) {
    EXPECT_THAT(refusal_of([&] { empirical_ntk(*model, x); }), HasSubstr("select nothing"));
    EXPECT_THAT(refusal_of([&] { model->forward(x); }), HasSubstr("select nothing"));
  }
}

TEST(Outputs, OfFewDigitsAreRefusedByTheirOperator) {
  const Tensor w = torch::randn({2, 4}).requires_grad_();
  const Model model(
      [&](const Tensor& x) {
        return torch::linear(x.to(torch::kBFloat16), w.to(torch::kBFloat16)).to(torch::kFloat32);
      },
      {w});
  const Tensor x = torch::randn({5, 4});
  EXPECT_THAT(refusal_of([&] { empirical_ntk(model, x); }),
              HasSubstr("computes in BFloat16 (aten::"));
}

// Products are those of the same model without the conversion at its end.
TEST(Outputs, OfMoreDigitsThanTheParametersHaveProducts) {
  torch::manual_seed(5);
  const Tensor w = torch::randn({6, 4}).requires_grad_(), v = torch::randn({2, 6}).requires_grad_();
  const auto forward = [&](const Tensor& x) {
    return torch::linear(torch::linear(x, w).tanh(), v);
  };
  const Model plain(forward, {w, v});
  const Model wide([&](const Tensor& x) { return forward(x).to(torch::kFloat64); }, {w, v});
  const Tensor x = torch::randn({5, 4}), u = torch::randn({36}), n = torch::randn({10});
  for (const auto& ask : std::vector<std::function<Tensor(const Model&)>>{
           [&](const Model& m) { return jacobian_vector_product(m, x, u); },
           [&](const Model& m) { return vector_jacobian_product(m, x, n); },
           [&](const Model& m) { return hessian_vector_product(m, x, n, u); },
           [&](const Model& m) { return second_derivative(m, x, u, u); }}) {
    const Tensor found = ask(wide);
    EXPECT_EQ(found.scalar_type(), torch::kFloat32);
    EXPECT_LE(relative_error(found.to(torch::kFloat64), ask(plain).to(torch::kFloat64)), 1e-5);
  }
}

}  // namespace
}  // namespace cdt::kernel
