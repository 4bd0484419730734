// Numbers that do not fit, networks that do not fit either, and computations that take too long for
// somebody who wants to stop.
#include <gmock/gmock.h>

#include <thread>

#include "support/device.h"
#include "support/program.h"

namespace cdt {
namespace {

using testing::HasSubstr;
using testing::Not;

class Limits : public test::Program {
 protected:
  void SetUp() override { ASSERT_EQ(cdt("data make h.csv --rows 60").code, 0); }
  const std::string train_ = "train h.csv --target price --goal fit --no-analysis --out run ";
};

TEST_F(Limits, WholeNumbersMustFitTheirOptions) {
  for (const char* number : {"18446744073709551616", "-1", "99999999999999999999999"}) {
    expect_wrong_usage(train_ + "--seed " + number, number);
  }
  expect_wrong_usage(train_ + "--steps 9223372036854775808", "9223372036854775808");
  expect_wrong_usage("data make x.csv --rows 9223372036854775808", "9223372036854775808");
  expect_wrong_usage(train_ + "--hidden 8,9223372036854775808", "9223372036854775808");
  EXPECT_FALSE(exists("run"));
  EXPECT_EQ(cdt(train_ + "--seed 18446744073709551615 --steps 1 --hidden 4").code, 0);
}

TEST_F(Limits, NetworksMustBeCountableAndFitIntoMemory) {
  expect_wrong_usage(train_ + "--hidden 4611686018427387904 --width-factor 4", "2147483647");
  expect_wrong_usage(train_ + "--hidden 1073741824 --width-factor 4", "2147483647");
  expect_wrong_usage(train_ + "--hidden 2000000000,2000000000", "GB of memory; there are");
  EXPECT_FALSE(exists("run"));
}

TEST_F(Limits, ThreadsAreBoundedByTheCores) {
  const std::string cores = std::to_string(std::thread::hardware_concurrency());
  expect_wrong_usage(train_ + "--threads 4096000", "cores (" + cores + ")");
  expect_wrong_usage(train_ + "--threads -1", "cores (" + cores + ")");
}

TEST_F(Limits, ARateBeyondFloat32IsDivergence) {
  for (const char* given :
       {"adam --lr 1e38", "momentum --lr 1e39", "gd --lr 1e39", "lbfgs --lr 1e38",
        "gd --lr 1e39 --activation tanh", "cdt --lr 1e39 --weight-decay 1e-3"}) {
    const Result result = cdt(train_ + "--overwrite --hidden 8 --steps 5 --method " + given);
    SCOPED_TRACE(c10::str(given, "\n", result.err));
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, Not(HasSubstr("converted")));
    EXPECT_THAT(result.out, HasSubstr("DIVERGED"));
  }
}

TEST_F(Limits, TuneIsForMethodsThatTheForecastKnows) {
  for (const char* method : {"adam", "momentum", "lbfgs", "gd-matched"}) {
    expect_wrong_usage(
        "train h.csv --target price --goal fit --out run --tune --method " + std::string(method),
        method);
  }
  EXPECT_FALSE(exists("run"));
}

TEST_F(Limits, KernelsThatOverflowAreRefused) {
  const torch::Tensor theta = torch::eye(3, test::kDouble) + 0.5;
  for (const double scale : {1e151, 1e307}) {
    save("theta.npy", theta * scale);
    expect_wrong_usage("design --out gain.npy --kernel theta.npy --lr 1e-307", "squares overflow");
    expect_wrong_usage("analyze --kernel theta.npy --lr 1e-307", "squares overflow");
  }
  EXPECT_FALSE(exists("gain.npy"));
}

TEST_F(Limits, CtrlCDoesNotWaitForAnEigendecomposition) {
  // The first linearization of 3000 samples takes many seconds.
  ASSERT_EQ(cdt("data make large.csv --rows 4200").code, 0);
  const Result result =
      shell(CDT_PROGRAM
            " train large.csv --target price --goal fit --out long --lr 1 --batch 4200 "
            "--no-analysis --hidden 8 "
            "--threads 1 "
            "& pid=$!; while ! [ -e long/preprocess.json ]; do sleep 0.02; done; sleep 1; "
            "start=$(date +%s%N); kill -INT $pid; wait $pid; code=$?; "
            "echo $(( ($(date +%s%N) - start) / 1000000 )); exit $code");
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_LT(std::stod(result.out.substr(result.out.rfind('\n', result.out.size() - 2) + 1)), 3500);
  EXPECT_TRUE(exists("long/run.json"));
  EXPECT_FALSE(exists("long/model.safetensors"));
}

}  // namespace
}  // namespace cdt
