/// What a kernel does beside its products: what it reads from the device, and what it keeps for the
/// next one.
#include <ATen/record_function.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/ntk.h>
#include <gmock/gmock.h>

#include <string>

#include "kernel/networks.h"
#include "support/compare.h"

namespace cdt {
namespace {

using kernel::empirical_ntk;
using torch::Tensor;

/// How often numbers were read, since it was set to zero.
thread_local int64_t reads = 0;

class CountReads {
 public:
  CountReads() {
    reads = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& call)
                                       -> std::unique_ptr<at::ObserverContext> {
          if (std::string(call.name()) == "aten::_local_scalar_dense") ++reads;
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~CountReads() { at::removeCallback(handle_); }

 private:
  at::CallbackHandle handle_;
  at::RecordFunctionGuard enabled_{true};
};

TEST(Overhead, TheSecondKernelOfAShapeReadsItsChecksAloneAndRecordsNoSamplesForItself) {
  torch::manual_seed(1);
  for (const auto& net : {test::mlp(3, 1, true, false, false, torch::kFloat32),
                          test::mlp(2, 3, true, false, false, torch::kFloat64)}) {
    const Tensor x = test::inputs(6, net, net.parameters[0].scalar_type());
    int64_t passes = 0;
    const kernel::Model model(
        [&](const Tensor& samples) {
          ++passes;
          return net.forward(net.parameters, samples);
        },
        net.parameters);
    const Tensor first = empirical_ntk(model, x).theta;
    EXPECT_EQ(passes, 3);  // two samples, all, the last one alone
    passes = 0;
    const CountReads count;
    const Tensor second = empirical_ntk(model, x).theta;
    EXPECT_EQ(passes, 2);
    EXPECT_EQ(reads, 0);  // the checks are read as one tensor
    EXPECT_TRUE(torch::equal(first, second));
    kernel::NtkOptions together;
    together.layers = kernel::NtkOptions::Layers::kTogether;
    empirical_ntk(model, x, together);
    EXPECT_EQ(reads, 0);
    x.sum().item<double>();
    EXPECT_EQ(reads, 1);
  }
}

// A model whose function changes between two kernels, its parameters being the same tensors.
TEST(Overhead, WhatIsKeptDoesNotOutliveTheModelsShape) {
  torch::manual_seed(2);
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).requires_grad(true);
  const Tensor w = torch::randn({3, 3}, options);
  enum { kRows, kPositionsFirst, kMoreOutputs, kTwoLayers } form = kRows;
  const auto forward = [&](const Tensor& x) {  // x [b, 3, 3]
    switch (form) {
      case kRows:
        return torch::linear(x, w).tanh().sum(1);
      case kPositionsFirst:  // [3, b, 3]
        return torch::linear(x.transpose(0, 1), w).tanh().sum(0);
      case kMoreOutputs:
        return torch::linear(x, w).tanh().flatten(1);
      case kTwoLayers:
        return torch::linear(torch::linear(x, w).tanh(), w).sum(1);
    }
    return Tensor();
  };
  const kernel::Model model(forward, {w});
  const Tensor x = torch::randn({5, 3, 3}, torch::kFloat64);
  for (const auto next :
       {kRows, kPositionsFirst, kMoreOutputs, kTwoLayers, kPositionsFirst, kRows}) {
    form = next;
    for (int times = 0; times < 2; ++times) {
      const Tensor fresh = empirical_ntk(kernel::Model(forward, {w}), x).theta;
      const auto kept = empirical_ntk(model, x);
      EXPECT_TRUE(torch::equal(kept.theta, fresh)) << next;
      EXPECT_EQ(kept.coverage[0].coverage, kernel::Coverage::kRule) << next;
    }
  }
}

TEST(Overhead, ErrorsAreTheSameWithWhatIsKept) {
  torch::manual_seed(3);
  const auto net = test::mlp(2, 1, true, false, false, torch::kFloat64);
  const Tensor x = test::inputs(6, net, torch::kFloat64);
  Tensor noise = torch::zeros({6, 1}, torch::kFloat64);
  const kernel::Model model(
      [&](const Tensor& samples) {
        return net.forward(net.parameters, samples) + noise.narrow(0, 0, samples.size(0));
      },
      net.parameters);
  empirical_ntk(model, x);
  Tensor bad = x.clone();
  bad[4][1] = NAN;
  EXPECT_THAT([&] { empirical_ntk(model, bad); },
              testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("inputs must be finite")));
  noise[2] = INFINITY;
  EXPECT_THAT([&] { empirical_ntk(model, x); },
              testing::ThrowsMessage<NumericalError>(testing::HasSubstr("outputs are not finite")));
  noise.zero_();
  noise[5] = 1.0;  // sample 5 among others, and alone
  EXPECT_THAT([&] { empirical_ntk(model, x); }, testing::ThrowsMessage<InvalidArgument>(
                                                    testing::HasSubstr("the outputs of sample 5")));
  noise.zero_();
  EXPECT_NO_THROW(empirical_ntk(model, x));
}

TEST(PendingChecks, SeeTheirOwnNumbersInOrder) {
  kernel::PendingChecks checks;
  std::vector<double> seen;
  const auto note = [&](int64_t count) {
    return
        [&seen, count](const double* values) { seen.insert(seen.end(), values, values + count); };
  };
  checks.settle();  // nothing to read
  checks.add({torch::tensor(1.5), torch::tensor({2.0, 3.0}, torch::kFloat64)}, note(3));
  checks.add({}, note(0));
  checks.add({torch::tensor(true), torch::tensor(7)}, note(2));
  EXPECT_TRUE(seen.empty());
  checks.settle();
  EXPECT_THAT(seen, testing::ElementsAre(1.5, 2, 3, 1, 7));
  checks.settle();
  EXPECT_EQ(seen.size(), 5);
  checks.add({torch::tensor(1)}, [](const double*) { throw InvalidArgument("wrong"); });
  checks.add({torch::tensor(2)}, note(1));
  EXPECT_THROW(checks.settle(), InvalidArgument);
  checks.settle();
  EXPECT_EQ(seen.size(), 5);  // what followed the wrong one is gone
}

/// A block whose group 0 has the given rows, and group 1 ones of size 1; the second parameter's
/// J is known exactly, the first one's Jᵀv is off by `off`.
kernel::Factors block(double size, double off) {
  kernel::Factors factors;
  factors.samples = 1;
  factors.width = 1;
  factors.outputs = torch::zeros({1, 1});
  factors.probe = torch::ones({1}, torch::kFloat64);
  factors.coverage.resize(2);
  for (size_t p = 0; p < 2; ++p) {
    factors.coverage[p].coverage = kernel::Coverage::kRule;
    kernel::FactorGroup group;
    group.parameters = {p};
    group.rows = torch::full({1, 1}, p == 0 ? size : 1.0, torch::kFloat64);
    group.trace = trace_bound(group);
    factors.pulled_back.push_back(group.rows.flatten() + (p == 0 ? off : 0.0));
    factors.pulled_back_squares.push_back(factors.pulled_back.back().square().sum());
    factors.groups.push_back(group);
  }
  return factors;
}

// Derivatives that cancel in block a, to rounding of what they are made of, and not in b.
TEST(SelfCheck, OfTwoBlocksAllowsForRoundingInEither) {
  const Tensor w = torch::ones({1}, torch::requires_grad());
  const kernel::Model model([&](const Tensor& x) { return x * w; }, {w});
  const auto passes = [&](const kernel::Factors& a, const kernel::Factors& b) {
    const kernel::NtkOptions options;
    kernel::CheckedFactors source(model, options, {});
    const Tensor images = torch::stack(
        {a.groups[0].rows[0] * b.groups[0].rows[0], a.groups[1].rows[0] * b.groups[1].rows[0]});
    try {
      source.check(a, b, images);
      source.settle();
      return true;
    } catch (const kernel::RefutedRule&) {
      return false;
    }
  };
  const double rounding = 16 * tol::epsilon(torch::kFloat32);
  const auto whole = block(1, 0);
  EXPECT_TRUE(passes(block(1e-12, 0.5 * rounding), whole));
  EXPECT_TRUE(passes(whole, block(1e-12, 0.5 * rounding)));
  EXPECT_FALSE(passes(block(1e-12, 1e3 * rounding), whole));
  EXPECT_FALSE(passes(whole, block(1e-12, 1e3 * rounding)));
  // Of a block with itself both factors are off, so it is held to the square.
  const auto cancelled = block(1e-12, 0.5 * rounding);
  EXPECT_TRUE(passes(cancelled, cancelled));
  const auto wrong = block(1e-12, 10 * rounding);
  EXPECT_FALSE(passes(wrong, wrong));
}

}  // namespace
}  // namespace cdt
