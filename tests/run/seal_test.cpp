// run.json with flipped bits: every reader refuses it, and one of an earlier version is still read.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/run/parts/tables.h>
#include <cdt/run/parts/verify.h>
#include <cdt/run/train.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/small_run.h"

namespace cdt::run {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Sealed : public testing::Test {
 protected:
  void SetUp() override {
    options_.data.goal = study::Goal::kPredict;
    options_.ensemble = 1;
    options_.training.steps = 3;
    train(options_);
    text_ = read_file(folder().run());
  }
  RunFolder folder() const { return RunFolder(options_.folder); }
  void put(const std::string& text) const {
    std::ofstream(folder().run(), std::ios::binary | std::ios::trunc) << text;
  }
  std::string flipped(size_t bit) const {
    std::string text = text_;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
    return text;
  }

  test::TempFolder folder_;
  Options options_ = test::small_run(folder_, 40, 4);
  std::string text_;
};

TEST_F(Sealed, NoBitOfARunChangesUnseen) {
  for (size_t bit = 0; bit < 8 * text_.size(); ++bit) {
    put(flipped(bit));
    EXPECT_THROW(folder().read_record(), InvalidArgument) << "bit " << bit;
  }
  const auto damaged = ThrowsMessage<InvalidArgument>(HasSubstr("run.json: is damaged"));
  const size_t factor = text_.find("\"factor\"");
  ASSERT_NE(factor, std::string::npos);
  std::vector<size_t> bits{8 * (factor + 10) + 1, 8 * (text_.rfind("\"checksum\"") + 2)};
  for (size_t bit = 0; bit < 8 * text_.size(); bit += 997) bits.push_back(bit);
  Options again = options_;
  again.resume = true;
  for (const size_t bit : bits) {
    put(flipped(bit));
    EXPECT_THAT([&] { load_trained(folder(), torch::kCPU); }, damaged) << "bit " << bit;
    EXPECT_THAT([&] { read_records({folder().path()}); }, damaged) << "bit " << bit;
    EXPECT_THAT([&] { train(again); }, damaged) << "bit " << bit;
    EXPECT_FALSE(verify_run(folder().path()).sound()) << "bit " << bit;
  }
  put(text_);
  EXPECT_NO_THROW(load_trained(folder(), torch::kCPU));
  EXPECT_TRUE(verify_run(folder().path()).sound());
}

TEST_F(Sealed, FilesOfEarlierVersionsAreRead) {
  auto json = nlohmann::ordered_json::parse(text_);
  json.erase("sealed");
  json.erase("checksum");
  put(json.dump(2));  // which this version does not write
  EXPECT_THAT([&] { load_trained(folder(), torch::kCPU); },
              ThrowsMessage<InvalidArgument>(HasSubstr("is damaged")));
  EXPECT_FALSE(verify_run(folder().path()).sound());
  json["version"] = "0.1.0";
  put(json.dump(2));
  EXPECT_NO_THROW(load_trained(folder(), torch::kCPU));
  EXPECT_EQ(verify_run(folder().path()).files.at(0).state, FileCheck::State::kUnchecked);
}

TEST_F(Sealed, APageIsOfTheFilesThatTheRunKnows) {
  for (const char* name : {"history.csv", "predictions.csv"}) {
    const fs::path file = folder().path() / name;
    const std::string sound = read_file(file);
    std::string bytes = sound;
    bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
    write_file_atomically(file, {bytes});
    EXPECT_THAT([&] { read_records({folder().path()}); },
                ThrowsMessage<InvalidArgument>(HasSubstr(name)));
    write_file_atomically(file, {sound});
  }
  EXPECT_NO_THROW(read_records({folder().path()}));
}

/// Without run.json nobody knows how many networks there are, and how they are calibrated.
TEST_F(Sealed, NothingPredictsWithoutItsRecord) {
  fs::remove(folder().run());
  EXPECT_THAT([&] { load_trained(folder(), torch::kCPU); },
              ThrowsMessage<InvalidArgument>(HasSubstr("it has no run.json")));
}

}  // namespace
}  // namespace cdt::run
