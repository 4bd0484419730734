// Pictures as tables, and as problems.
#include <cdt/core/error.h>
#include <cdt/image/folder.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/predictions.h>
#include <gmock/gmock.h>

#include <functional>

#include "support/picture_folder.h"

namespace cdt::study {
namespace {

using testing::HasSubstr;
using torch::Tensor;

std::string picture_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

class PictureProblems : public testing::Test {
 protected:
  PictureProblems() {
    torch::set_num_threads(1);
    options_.file = test::write_pictures(folder_, 20).string();
    options_.is_pictures = true;
    options_.pictures.size = 12;
    options_.train_fraction = 0.5;
    network_.choose("cnn");
    network_.hidden = {3};
  }
  Problem load(uint64_t seed = 1) { return load_problem(options_, network_, seed, torch::kCPU); }

  test::TempFolder folder_;
  DataOptions options_;
  NetworkOptions network_;
};

TEST_F(PictureProblems, AreScaledByTheTrainingPicturesAndLearnOnesAndZeros) {
  const Problem problem = load();
  EXPECT_EQ(problem.data.x.sizes(), (c10::IntArrayRef{10, 3, 12, 12}));
  EXPECT_EQ(problem.data.x_val.size(0), 10);
  EXPECT_EQ(problem.model->describe(), "cnn 3×12×12-2");
  // Against the files themselves.
  const auto folder = image::list_images(options_.file);
  image::LoadOptions load_options;
  load_options.height = load_options.width = 12;
  const auto raw = image::load_images(folder, problem.split.train, load_options);
  EXPECT_TRUE(raw.y.equal(problem.data.y));
  for (int64_t c = 0; c < 3; ++c) {
    const Tensor scaled = problem.data.x.select(1, c).to(torch::kFloat64);
    EXPECT_NEAR(scaled.mean().item<double>(), 0, 1e-6);
    EXPECT_NEAR(scaled.std(false).item<double>(), 1, 1e-6);
    const Tensor plain = raw.x.select(1, c).to(torch::kFloat64);
    const Tensor expected = (plain - plain.mean()) / plain.std(false);
    EXPECT_LE((scaled - expected).abs().max().item<double>(), 1e-5);
  }
}

TEST_F(PictureProblems, AreDrawnBySeedAndKnownByTheirPixels) {
  options_.rows = 8;
  const Problem one = load(1), again = load(1), other = load(2);
  EXPECT_EQ(one.split.train, again.split.train);
  EXPECT_TRUE(one.data.x.equal(again.data.x));
  EXPECT_EQ(one.checksum, again.checksum);
  EXPECT_NE(one.split.train, other.split.train);
  EXPECT_EQ(one.split.train.size() + one.split.validation.size(), 8U);
  // Another picture of as many bytes in the place of one that was drawn.
  const auto files = image::list_images(options_.file).files;
  const auto path = files[static_cast<size_t>(one.split.train[0])].path;
  std::string bytes = read_file(path);
  auto picture = image::decode(bytes, "p");
  picture.pixels[0] ^= 128;
  bytes = image::encode_png(picture);
  write_file_atomically(path, {bytes});
  EXPECT_NE(load(1).checksum, one.checksum);
}

TEST_F(PictureProblems, BadFilesAreNamedOrReplacedByOthers) {
  for (const char* name : {"disc/bad1.png", "square/bad2.jpg"}) {
    write_file_atomically(std::filesystem::path(options_.file) / name, {"no picture"});
  }
  EXPECT_THAT(picture_refusal([&] { load(); }), HasSubstr("bad"));
  options_.pictures.skip_bad = true;
  const Problem problem = load();
  EXPECT_EQ(problem.skipped.size(), 2U);
  EXPECT_EQ(problem.split.train.size() + problem.split.validation.size(), 20U);
  EXPECT_THAT(problem.notes.at(0), HasSubstr("2 files left out"));
  // So many as were asked for, whatever was met on the way.
  options_.rows = 19;
  for (uint64_t seed = 1; seed < 4; ++seed) {
    const Problem part = load(seed);
    EXPECT_EQ(part.split.train.size() + part.split.validation.size(), 19U) << seed;
  }
  for (const auto& file : image::list_images(options_.file).files) {
    write_file_atomically(file.path, {"no picture"});
  }
  options_.rows = 0;
  EXPECT_THAT(picture_refusal([&] { load(); }), HasSubstr("none of 22 files is a picture"));
}

TEST_F(PictureProblems, DenseNetworksTakeThemFlat) {
  NetworkOptions dense;
  dense.hidden = {4};
  const Problem problem = load_problem(options_, dense, 1, torch::kCPU);
  EXPECT_EQ(problem.data.x.sizes(), (c10::IntArrayRef{10, 432}));
  EXPECT_TRUE(problem.data.x.equal(load().data.x.flatten(1)));
  EXPECT_EQ(problem.model->describe(), "432-4-2");
}

TEST_F(PictureProblems, SaysWhatIsWrong) {
  options_.goal = Goal::kPredict;
  EXPECT_THAT(picture_refusal([&] { load(); }), HasSubstr("for tables"));
  options_.goal = Goal::kFit;
  options_.output_weights = {1, 1, 1};
  EXPECT_THAT(picture_refusal([&] { load(); }), HasSubstr("one weight a class, 2"));
  options_.output_weights.clear();
  network_.choose("alexnet");
  EXPECT_THAT(picture_refusal([&] { load(); }), HasSubstr("too small"));
  make_folders(folder_ / "one/cat");
  write_file_atomically(folder_ / "one/cat/1.png", {"x"});
  options_.file = (folder_ / "one").string();
  EXPECT_THAT(picture_refusal([&] { load(); }), HasSubstr("only \"cat\""));
  options_.file = (folder_ / "one/cat/1.png").string();
  EXPECT_THAT(picture_refusal([&] { load(); }), HasSubstr("got one picture"));
}

TEST_F(PictureProblems, EqualPicturesOfDifferentClassesAreFound) {
  const auto path = std::filesystem::path(options_.file);
  const std::string bytes = read_file(path / "disc/0.png");
  write_file_atomically(path / "square/1.png", {bytes});
  options_.train_fraction = 1;
  const Problem problem = load();
  ASSERT_EQ(problem.conflicts.size(), 1U);
  EXPECT_THAT(problem.conflicts[0].difference, HasSubstr("disc/0.png"));
  EXPECT_THAT(problem.conflicts[0].difference, HasSubstr("square/1.png"));
}

TEST_F(PictureProblems, NewOnesNeedNoClasses) {
  const std::vector<int64_t> shape{3, 12, 12};
  const auto path = std::filesystem::path(options_.file);
  const data::Table known = read_new_pictures(path, shape);
  EXPECT_EQ(known.rows(), 20);
  EXPECT_NE(known.find(kClassColumn), nullptr);
  const data::Table flat = read_new_pictures(path / "disc", shape);
  EXPECT_EQ(flat.rows(), 10);
  EXPECT_EQ(flat.find(kClassColumn), nullptr);
  const data::Table one = read_new_pictures(path / "disc/0.png", shape);
  EXPECT_EQ(one.rows(), 1);
  EXPECT_TRUE(one.pictures->load({0}).equal(flat.pictures->load({0})));
  const data::Table part = select_rows(known, {11, 3});
  EXPECT_TRUE(part.pictures->load({1}).equal(known.pictures->load({3})));
  EXPECT_EQ(part.at(kClassColumn).codes, (std::vector<int32_t>{1, 0}));
  EXPECT_TRUE(holds_pictures(path));
  EXPECT_TRUE(holds_pictures(path / "disc/0.png"));
  write_file_atomically(folder_ / "t.csv", {"a,b\n1,2\n"});
  EXPECT_FALSE(holds_pictures(folder_ / "t.csv"));
  EXPECT_FALSE(holds_pictures(folder_ / "none"));
}

TEST(IdxPictures, ComeWithTheLabelsBesideThem) {
  const test::TempFolder folder;
  std::string pixels;
  for (int i = 0; i < 6 * 4 * 5; ++i) pixels += static_cast<char>(i * 2);
  write_file_atomically(folder / "t-images-idx3-ubyte", {test::idx_bytes({6, 4, 5}, pixels)});
  DataOptions options;
  options.file = (folder / "t-images-idx3-ubyte").string();
  EXPECT_TRUE(holds_pictures(options.file));
  options.is_pictures = true;
  EXPECT_THAT(picture_refusal([&] { read_table(options); }), HasSubstr("t-labels-idx1-ubyte"));
  const auto labels = folder / "t-labels-idx1-ubyte";
  write_file_atomically(labels, {test::idx_bytes({5}, {7, 3, 7, 3, 7})});
  EXPECT_THAT(picture_refusal([&] { read_table(options); }), HasSubstr("expected 6 labels"));
  write_file_atomically(labels, {test::idx_bytes({6}, {7, 3, 7, 3, 7, 3})});
  const data::Table table = read_table(options);
  EXPECT_EQ(table.pictures->shape(), (std::vector<int64_t>{1, 4, 5}));
  const Tensor x = table.pictures->load({0, 5});
  EXPECT_EQ(x.sizes(), (c10::IntArrayRef{2, 1, 4, 5}));
  EXPECT_FLOAT_EQ(x[0][0][1][2].item<float>(), 14.0F / 255);
  const Tensor all = table.pictures->load({0, 1, 2, 3, 4, 5});
  for (const std::vector<int64_t>& rows :
       std::vector<std::vector<int64_t>>{{4, 1}, {5}, {2, 2, 0}, {3, 4, 5}}) {
    const data::Table fresh = read_table(options);  // which has read none of them
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(fresh.pictures->load(rows).equal(
          all.index_select(0, torch::tensor(rows, torch::kInt64))));
    }
  }
  EXPECT_EQ(table.at(kPictureColumn).categories,
            (std::vector<std::string>{"1", "2", "3", "4", "5", "6"}));
  options.pictures.size = 3;
  EXPECT_EQ(read_table(options).pictures->load({1}).sizes(), (c10::IntArrayRef{1, 1, 3, 3}));
  options.pictures.size.reset();
  NetworkOptions network;
  network.hidden = {2};
  const Problem problem = load_problem(options, network, 1, torch::kCPU);
  EXPECT_EQ(problem.preprocess.classes(), (std::vector<std::string>{"3", "7"}));
  write_file_atomically(folder / "digits", {test::idx_bytes({6, 4, 5}, pixels)});
  options.file = (folder / "digits").string();
  EXPECT_THAT(picture_refusal([&] { read_table(options); }), HasSubstr("in its name"));
  EXPECT_EQ(read_new_pictures(options.file, {1, 4, 5}).rows(), 6);
}

/// The nearest point of the simplex, by trying every set of entries that stay above zero.
TEST(NearestProbabilities, AreTheNearest) {
  torch::manual_seed(3);
  const Tensor outputs = torch::randn({50, 3}, torch::kFloat64);
  const Tensor found = nearest_probabilities(outputs);
  for (int64_t i = 0; i < outputs.size(0); ++i) {
    const Tensor z = outputs[i];
    double best = INFINITY;
    for (int mask = 1; mask < 8; ++mask) {
      Tensor p = torch::zeros({3}, torch::kFloat64);
      double sum = 0;
      int count = 0;
      for (int c = 0; c < 3; ++c) {
        if ((mask >> c & 1) != 0) sum += z[c].item<double>(), ++count;
      }
      for (int c = 0; c < 3; ++c) {
        if ((mask >> c & 1) != 0) p[c] = z[c].item<double>() - (sum - 1) / count;
      }
      if (p.min().item<double>() >= 0) best = std::min(best, (p - z).norm().item<double>());
    }
    EXPECT_NEAR(found[i].sum().item<double>(), 1, 1e-12);
    EXPECT_GE(found[i].min().item<double>(), 0);
    EXPECT_NEAR((found[i] - z).norm().item<double>(), best, 1e-12) << i;
  }
  EXPECT_TRUE(found.argmax(1).equal(outputs.argmax(1)));
}

}  // namespace
}  // namespace cdt::study
