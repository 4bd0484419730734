// Arrays of NumPy in place of a CSV file: the same models, predictions and refusals.
#include <cdt/core/npy.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "support/program.h"

namespace cdt {
namespace {

using testing::HasSubstr;

class ArrayFiles : public test::Program {
 protected:
  static constexpr int64_t kRows = 60;
  static constexpr const char* kFit =
      " --goal fit --threads 1 --no-analysis --hidden 8 --steps 4 --checkpoint-seconds 0 ";

  void SetUp() override {
    torch::manual_seed(1);
    x_ = torch::randn({kRows, 3}, torch::kFloat64);
    y_ = x_.select(1, 0) * 2 + x_.select(1, 1).sin();
    save_npy(folder_ / "x.npy", x_);
    save_npy(folder_ / "y.npy", y_);
    std::ostringstream csv;
    csv.precision(17);
    csv << "x1,x2,x3,y\n";
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < 3; ++j) csv << x_[i][j].item<double>() << ",";
      csv << y_[i].item<double>() << "\n";
    }
    write("table.csv", csv.str());
  }
  Result good(const std::string& arguments) const {
    Result result = cdt(arguments);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
    return result;
  }
  torch::Tensor x_, y_;
};

TEST_F(ArrayFiles, GiveTheModelOfTheSameTable) {
  good(std::string("train --inputs x.npy --labels y.npy --out arrays") + kFit);
  good(std::string("train table.csv --target y --out table") + kFit);
  EXPECT_EQ(slurp("arrays/model.safetensors"), slurp("table/model.safetensors"));
  EXPECT_EQ(slurp("arrays/predictions.csv"), slurp("table/predictions.csv"));
  good("predict arrays --inputs x.npy --out a.csv --threads 1");
  good("predict arrays x.npy --labels y.npy --out b.csv --threads 1");
  const Result told = good("predict table table.csv --out c.csv --threads 1");
  EXPECT_EQ(slurp("a.csv"), slurp("c.csv"));
  EXPECT_EQ(slurp("b.csv"), slurp("c.csv"));
  EXPECT_THAT(told.out, HasSubstr("errors of y in the file"));
}

TEST_F(ArrayFiles, LearnToPredictByDefault) {
  good("train --inputs x.npy --labels y.npy --out run --hidden 8 --ensemble 1 --threads 1");
  EXPECT_EQ(parse("run/run.json")["settings"]["labels"], (folder_ / "y.npy").string());
  good("predict run x.npy --interval 0.9 --out p.csv --threads 1");
  good("verify run");
}

TEST_F(ArrayFiles, RunsGoOn) {
  good(std::string("train --inputs x.npy --labels y.npy --out run") + kFit);
  good("train --resume run --steps 6");
  EXPECT_EQ(parse("run/run.json")["result"]["steps"], 6);
  // Elsewhere, and with the flag.
  good("train --resume run --steps 7 --inputs ./x.npy");
  y_[3] += 1;
  save_npy(folder_ / "y.npy", y_);
  expect_wrong_usage("train --resume run --steps 9", "has changed since the run started");
}

TEST_F(ArrayFiles, AreAnalyzedAndDescribed) {
  const std::string network = " --hidden 8 --trial-steps 0 --threads 1";
  const Result arrays = good("analyze --inputs x.npy --labels y.npy" + network);
  const Result table = good("analyze table.csv --target y" + network);
  // Lines above have a header before them.
  EXPECT_EQ(arrays.out.substr(arrays.out.find("Numbers\n")),
            table.out.substr(table.out.find("Numbers\n")));
  // Of its own trials, not of a training that would compute its kernel anew.
  good(
      "analyze table.csv --target y --hidden 8 --trial-steps 2 --curvature-products 8 --threads 1");
  EXPECT_THAT(good("data describe --inputs x.npy --labels y.npy").out,
              HasSubstr("60 rows × 4 columns"));
}

TEST_F(ArrayFiles, RefuseWhatDoesNotFit) {
  expect_wrong_usage("train --out no", "FILE is required");
  expect_wrong_usage("train --inputs x.npy --out no", "got inputs without labels");
  expect_wrong_usage("train table.csv --labels y.npy --target y --out no", "--labels goes with");
  expect_wrong_usage("train table.csv --inputs x.npy --target y --out no", "excludes");
  expect_wrong_usage("train --inputs table.csv --target y --out no",
                     "expected NumPy arrays (.npy, .npz)");
  expect_wrong_usage("train --inputs x.npy --labels y.npy --no-header --out no",
                     "no-header is for CSV files");
  expect_wrong_usage("analyze --inputs table.csv --labels y.npy",
                     "expected NumPy arrays (.npy, .npz)");
  save_npy(folder_ / "few.npy", x_.narrow(1, 0, 2).contiguous());
  good(std::string("train --inputs x.npy --labels y.npy --out run") + kFit);
  expect_wrong_usage("predict run few.npy --out p.csv --threads 1",
                     "few.npy: expected inputs [rows, 3], as the run was trained on, got 2");
  save_npy(folder_ / "more.npy", torch::cat({x_, x_}, 1));
  expect_wrong_usage("predict run more.npy --out p.csv --threads 1", "got 6 columns");
}

}  // namespace
}  // namespace cdt
