// Runs on pictures: folders that hold what predicting needs, interruption, what is refused.
#include <cdt/core/error.h>
#include <cdt/run/parts/verify.h>
#include <cdt/run/train.h>
#include <cdt/study/parts/pictures.h>
#include <gmock/gmock.h>

#include "support/picture_folder.h"

namespace cdt::run {
namespace {

using testing::HasSubstr;

class PictureRuns : public testing::Test {
 protected:
  PictureRuns() {
    torch::set_num_threads(1);
    options_.data.file = test::write_pictures(folder_, 16).string();
    options_.data.pictures.size = 8;
    options_.data.train_fraction = 0.5;
    options_.network.choose("cnn");
    options_.network.hidden = {4};
    options_.folder = folder_ / "run";
    options_.training.steps = 30;
    options_.training.stop_loss = 1e-4;
  }
  std::string refused() {
    try {
      train(options_);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return "";
  }

  test::TempFolder folder_;
  Options options_;
};

TEST_F(PictureRuns, HoldWhatPredictingNeeds) {
  const TrainedRun done = train(options_);
  EXPECT_LE(done.result.train_loss, 1e-4);
  const RunFolder folder(options_.folder);
  const RunRecord record = folder.read_record();
  EXPECT_EQ(record.data.rows, 16);
  EXPECT_EQ(record.data.train, 8);
  EXPECT_GT(record.machine.peak_bytes, 1 << 20);
  const auto& errors = std::get<study::ClassErrors>(record.errors->train.at(0).value);
  EXPECT_EQ(errors.classes, (std::vector<std::string>{"disc", "square"}));
  EXPECT_EQ(errors.accuracy, 1);
  EXPECT_TRUE(std::isnan(errors.cross_entropy));
  for (const auto& each : record.defaults) EXPECT_NE(each.name, "categories");
  const auto predictions = read_file(folder.predictions());
  EXPECT_THAT(predictions, HasSubstr("row,split,picture,class,\"class predicted\",P(class=disc)"));
  EXPECT_THAT(predictions, HasSubstr("train,disc/"));

  const TrainedModel trained = load_trained(folder, torch::kCPU);
  EXPECT_EQ(trained.preprocess.feature_shape(), (std::vector<int64_t>{3, 8, 8}));
  const data::Table table =
      study::read_new_pictures(options_.data.file, trained.preprocess.pictures->shape);
  const Predictions found = predict(trained, table);
  ASSERT_TRUE(found.errors.has_value());
  const auto before =
      study::predict_rows(done.problem, done.problem.model, done.problem.split.train);
  const auto rows = torch::tensor(done.problem.split.train, torch::kInt64);
  EXPECT_LE((found.values.index_select(0, rows) - before.predicted).abs().max().item<double>(),
            1e-5);
  EXPECT_TRUE(verify_run(options_.folder).sound());
}

TEST_F(PictureRuns, GoOnToTheSameBits) {
  options_.training.method = "gd";
  options_.training.learning_rate = 0.01;
  options_.training.stop_loss = 0;
  options_.analysis = false;
  const TrainedRun whole = train(options_);
  options_.folder = folder_ / "other";
  Hooks hooks;
  int64_t asked = 0;
  hooks.stop_requested = [&] { return ++asked > 10; };
  EXPECT_EQ(train(options_, hooks).result.outcome, train::Outcome::kInterrupted);
  options_.resume = true;
  const TrainedRun resumed = train(options_);
  for (size_t i = 0; i < whole.problem.model->parameters().size(); ++i) {
    EXPECT_TRUE(resumed.problem.model->parameters()[i].equal(whole.problem.model->parameters()[i]));
  }
  options_.network.hidden = {5};
  EXPECT_THAT(refused(), HasSubstr("hidden 4"));
  options_.network.hidden = {4};
  options_.data.pictures.size = 9;
  EXPECT_THAT(refused(), HasSubstr("size 8"));
  options_.data.pictures.size = 8;
  const auto picture = std::filesystem::path(options_.data.file) / "disc/0.png";
  write_file_atomically(picture, {image::encode_png(image::make_pictures(1, 9, 16).pictures[0])});
  EXPECT_THAT(refused(), HasSubstr("the pictures have changed"));
}

TEST_F(PictureRuns, TakeClassesByTheCrossEntropyAndCountWhatTheySkip) {
  write_file_atomically(std::filesystem::path(options_.data.file) / "disc/bad.png", {"x"});
  options_.data.pictures.skip_bad = true;
  options_.training.loss = loss::cross_entropy();
  options_.training.stop_loss = 0;
  options_.training.steps = 3;
  const TrainedRun done = train(options_);
  const RunRecord record = RunFolder(options_.folder).read_record();
  EXPECT_EQ(record.data.skipped, 1);
  EXPECT_EQ(done.problem.data.x.size(0), 8);
  const auto& errors = std::get<study::ClassErrors>(record.errors->validation.at(0).value);
  EXPECT_TRUE(std::isfinite(errors.cross_entropy));
}

TEST_F(PictureRuns, RefuseWhatIsAboutTables) {
  options_.data.targets = {"price"};
  EXPECT_THAT(refused(), HasSubstr("target is for tables"));
  options_.data.targets.clear();
  options_.data.quantiles = 5;
  EXPECT_THAT(refused(), HasSubstr("quantiles is for tables"));
  options_.data.quantiles.reset();
  options_.data.goal = study::Goal::kPredict;
  EXPECT_THAT(refused(), HasSubstr("goal predict is for tables"));
  options_.data.goal = study::Goal::kFit;
  options_.folder = std::filesystem::path(options_.data.file) / "run";
  EXPECT_THAT(refused(), HasSubstr("as if it were a class"));
  write_file_atomically(folder_ / "t.csv", {"a,b\n1,2\n2,3\n3,5\n4,4\n"});
  options_.data.file = (folder_ / "t.csv").string();
  options_.data.targets = {"b"};
  EXPECT_THAT(refused(), HasSubstr("size is for pictures"));
  options_.data.pictures.size.reset();
  EXPECT_THAT(refused(), HasSubstr("the architecture cnn takes pictures"));
}

}  // namespace
}  // namespace cdt::run
