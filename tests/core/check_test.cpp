/// The named checks: what passes, and that each message carries name, expectation and offender.
#include "cdt/core/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "cdt/core/error.h"
#include "support/compare.h"

namespace {

using cdt::InvalidArgument;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using cdt::test::kInfinity;
using cdt::test::kNan;

TEST(Check, FloatingTakesFloatsOfAnyWidthAndRank) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
    EXPECT_NO_THROW(cdt::require_floating(torch::zeros({}, dtype), "x"));
    EXPECT_NO_THROW(cdt::require_floating(torch::zeros({0, 3}, dtype), "x"));
  }
}

TEST(Check, FloatingNamesDtypeAndLayout) {
  EXPECT_THAT([] { cdt::require_floating({}, "weights"); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("weights"), HasSubstr("undefined"))));
  for (const auto dtype : {torch::kInt64, torch::kBool, torch::kComplexDouble}) {
    EXPECT_THAT(
        [&] { cdt::require_floating(torch::zeros({2}, dtype), "weights"); },
        ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("weights must be a floating-point tensor"),
                                             HasSubstr(c10::toString(dtype)))));
  }
  EXPECT_THAT([] { cdt::require_floating(torch::eye(2).to_sparse(), "weights"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("Sparse")));
  const auto meta = torch::TensorOptions().device(torch::kMeta);
  EXPECT_THAT([&] { cdt::require_floating(torch::empty({2}, meta), "weights"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("meta")));
}

TEST(Check, FiniteNamesTheFirstOffendingEntry) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
    auto x = torch::ones({4, 2}, dtype);
    EXPECT_NO_THROW(cdt::require_finite(x, "x"));
    x[3][1] = kNan;
    EXPECT_THAT([&] { cdt::require_finite(x, "x"); },
                ThrowsMessage<InvalidArgument>(HasSubstr("x must be finite, but its entry [3, 1] "
                                                         "is nan")));
    x[2][0] = -kInfinity;
    EXPECT_THAT([&] { cdt::require_finite(x, "x"); },
                ThrowsMessage<InvalidArgument>(HasSubstr("[2, 0] is -inf")));
  }
}

TEST(Check, FiniteCountsIndicesAsTheCallerSeesThem) {
  const auto x = torch::zeros({2, 3, 4}, torch::kFloat64);
  x[1][0][3] = kInfinity;
  EXPECT_THAT([&] { cdt::require_finite(x, "x"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("[1, 0, 3] is inf")));
  EXPECT_THAT(
      [&] {
        cdt::require_finite(x.permute({2, 0, 1}), "x");
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("[3, 1, 0] is inf")));
  EXPECT_THAT([] { cdt::require_finite(torch::tensor(kNan), "x"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("[] is nan")));
}

TEST(Check, FiniteIsNotFooledByASumThatOverflows) {
  EXPECT_NO_THROW(cdt::require_finite(torch::full({4}, 1e308, torch::kFloat64), "x"));
  EXPECT_NO_THROW(cdt::require_finite(torch::full({4}, 6e4, torch::kFloat16), "x"));
}

TEST(Check, FiniteTakesEmptyIntegerAndGradTensors) {
  EXPECT_NO_THROW(cdt::require_finite(torch::zeros({0, 3}), "x"));
  EXPECT_NO_THROW(cdt::require_finite(torch::arange(3), "x"));
  EXPECT_NO_THROW(cdt::require_finite(torch::ones({3}).requires_grad_(), "x"));
  EXPECT_THROW(cdt::require_finite({}, "x"), InvalidArgument);
  EXPECT_THROW(cdt::require_finite(torch::zeros({2}, torch::kComplexDouble), "x"), InvalidArgument);
}

TEST(Check, ShapeTakesMinusOneForAny) {
  EXPECT_NO_THROW(cdt::require_shape(torch::zeros({3, 4}), {3, 4}, "x"));
  EXPECT_NO_THROW(cdt::require_shape(torch::zeros({3, 0}), {-1, -1}, "x"));
  EXPECT_NO_THROW(cdt::require_shape(torch::zeros({}), {}, "x"));
}

TEST(Check, ShapeNamesBothShapes) {
  EXPECT_THAT(
      [] {
        cdt::require_shape(torch::zeros({3, 5}), {-1, 4}, "labels");
      },
      ThrowsMessage<InvalidArgument>(
          HasSubstr("labels must have shape [any, 4], got shape [3, 5]")));
  EXPECT_THAT(
      [] {
        cdt::require_shape(torch::zeros({3}), {3, 1}, "labels");
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("got shape [3]")));
  EXPECT_THAT([] { cdt::require_shape(torch::zeros({}), {-1}, "labels"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("got shape []")));
  EXPECT_THAT([] { cdt::require_shape({}, {3}, "labels"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("undefined")));
}

TEST(Check, SquareNamesShapeDtypeAndEntry) {
  EXPECT_NO_THROW(cdt::require_square(torch::eye(3, torch::kFloat64), "A"));
  for (const auto& shape : std::vector<std::vector<int64_t>>{{}, {4}, {2, 3}, {0, 0}, {2, 2, 2}}) {
    EXPECT_THAT([&] { cdt::require_square(torch::zeros(shape, torch::kFloat64), "A"); },
                ThrowsMessage<InvalidArgument>(
                    AllOf(HasSubstr("A must be a non-empty square matrix"),
                          HasSubstr(c10::str("got shape ", c10::IntArrayRef(shape))))));
  }
  EXPECT_THAT([] { cdt::require_square(torch::eye(3, torch::kFloat32), "A"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("A must be float64, got dtype Float")));
  EXPECT_THAT(
      [] {
        cdt::require_square(torch::full({1, 1}, kNan, torch::kFloat64), "A");
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("[0, 0] is nan")));
  EXPECT_THROW(cdt::require_square({}, "A"), InvalidArgument);
}

TEST(Check, KernelsMustNotOverflow) {
  const auto eye = torch::eye(3, torch::kFloat64);
  EXPECT_NO_THROW(cdt::require_kernel(1e150 * eye));
  EXPECT_THROW(cdt::require_kernel(1e151 * eye), cdt::InvalidArgument);
  EXPECT_THROW(cdt::require_kernel(-1e307 * eye), cdt::InvalidArgument);
}

TEST(Check, SymmetricNamesTheWorstPair) {
  auto x = torch::eye(4, torch::kFloat64) * 2;
  x[0][1] = 1e-3;
  x[1][3] = 0.5;
  x[3][1] = 0.5000000001;
  x[2][3] = -1;
  x[3][2] = -1.25;
  EXPECT_THAT([&] { cdt::require_symmetric(x, "Q", 1e-12); },
              ThrowsMessage<InvalidArgument>(
                  AllOf(HasSubstr("Q must be symmetric within 1e-12 of its largest entry 2"),
                        HasSubstr("[2, 3] is -1 and [3, 2] is -1.25"))));
  x[2][3] = -1.25;
  x[0][1] = 0;
  // Two values that differ in the tenth digit must not print alike.
  EXPECT_THAT(
      [&] { cdt::require_symmetric(x, "Q", 1e-12); },
      ThrowsMessage<InvalidArgument>(HasSubstr("[1, 3] is 0.5 and [3, 1] is 0.5000000001")));
  EXPECT_THAT(
      [&] { cdt::require_symmetric(x.t(), "Q", 1e-12); },
      ThrowsMessage<InvalidArgument>(HasSubstr("[1, 3] is 0.5000000001 and [3, 1] is 0.5")));
}

TEST(Check, SymmetricScalesWithTheLargestEntry) {
  auto x = torch::eye(2, torch::kFloat64) * -1000;  // The largest in magnitude is negative.
  x[0][1] = 0.009;
  EXPECT_NO_THROW(cdt::require_symmetric(x, "Q", 1e-5));
  EXPECT_THROW(cdt::require_symmetric(x, "Q", 8e-6), InvalidArgument);
  EXPECT_THROW(cdt::require_symmetric(x, "Q", 0), InvalidArgument);
  EXPECT_THROW(cdt::require_symmetric(x, "Q", kNan), InvalidArgument);
  EXPECT_NO_THROW(cdt::require_symmetric(torch::zeros({2, 2}, torch::kFloat64), "Q", 0));
  EXPECT_THROW(cdt::require_symmetric(torch::zeros({2, 3}, torch::kFloat64), "Q", 1),
               InvalidArgument);
}

TEST(Check, SymmetricSeesAGapThatOverflows) {
  const auto x = torch::tensor({{1.0, 1.7e308}, {-1.7e308, 1.0}}, torch::kFloat64);
  EXPECT_THROW(cdt::require_symmetric(x, "Q", 1), InvalidArgument);
}

TEST(Check, DistributionsNameTheirWorst) {
  const auto check = [](const torch::Tensor& rows) { cdt::require_distributions(rows, "labels"); };
  EXPECT_NO_THROW(check(torch::tensor({{0.0, 1.0}, {0.25, 0.75}})));
  EXPECT_THAT(
      [&] {
        check(torch::tensor({{0.0, 1.0}, {-0.25, 1.25}}));
      },
      ThrowsMessage<InvalidArgument>(
          "labels must be distributions over classes, but the smallest entry is -0.25"));
  EXPECT_THAT(
      [&] {
        check(torch::tensor({{0.0, 1.0}, {0.25, 1.0}}));
      },
      ThrowsMessage<InvalidArgument>(
          "labels of each sample must sum to 1, but one is off by 0.25"));
  EXPECT_THAT(
      [&] {
        check(torch::tensor({{kNan, 1.0}}));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("[0, 0] is nan")));
}

TEST(Check, NumbersNameTheValue) {
  EXPECT_NO_THROW(cdt::require_positive(1e-300, "eta"));
  EXPECT_NO_THROW(cdt::require_non_negative(0, "eta"));
  EXPECT_THAT([] { cdt::require_positive(0, "eta"); },
              ThrowsMessage<InvalidArgument>("eta must be a finite number above zero, got 0"));
  EXPECT_THAT(
      [] { cdt::require_non_negative(-0.25, "eta"); },
      ThrowsMessage<InvalidArgument>("eta must be a finite number, zero or above, got -0.25"));
  for (const double value : {kNan, -kNan, kInfinity, -kInfinity, -1.0}) {
    SCOPED_TRACE(testing::Message() << value);
    EXPECT_THROW(cdt::require_positive(value, "eta"), InvalidArgument);
    EXPECT_THROW(cdt::require_non_negative(value, "eta"), InvalidArgument);
  }
}

TEST(Check, WorksOnTheGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto x = torch::eye(64, torch::TensorOptions().dtype(torch::kFloat64).device(torch::kCUDA));
  EXPECT_NO_THROW(cdt::require_symmetric(x, "Q", 0));
  x[3][5] = 2;
  EXPECT_THAT([&] { cdt::require_symmetric(x, "Q", 1e-12); },
              ThrowsMessage<InvalidArgument>(HasSubstr("[3, 5] is 2 and [5, 3] is 0")));
  x[7][1] = kNan;
  EXPECT_THAT([&] { cdt::require_square(x, "Q"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("[7, 1] is nan")));
}

}  // namespace
