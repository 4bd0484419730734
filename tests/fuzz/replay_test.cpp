// The corpus: seeds of every reader and all that fuzzing has found, read again.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fuzz/mutate.h"

namespace cdt::fuzz {
namespace {

namespace fs = std::filesystem;

class Corpus : public testing::TestWithParam<Target> {
 protected:
  static std::vector<fs::path> files() {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(fs::path(CDT_CORPUS) / GetParam().name)) {
      found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_P(Corpus, IsReadOrRefused) {
  for (const fs::path& file : files()) {
    SCOPED_TRACE(file.string());
    EXPECT_NO_THROW(run(GetParam(), read_file(file)));
  }
}

/// The first seed is sound: a reader that refuses everything would pass every other test.
TEST_P(Corpus, HasASoundSeed) {
  const std::vector<fs::path> all = files();
  ASSERT_FALSE(all.empty());
  bool read = false;
  for (const fs::path& file : all) {
    if (!file.filename().string().starts_with("seed")) continue;
    SCOPED_TRACE(file.string());
    EXPECT_NO_THROW(GetParam().read(read_file(file)));
    read = true;
  }
  EXPECT_TRUE(read) << "a file seed… must show what the reader reads";
}

/// A short walk from the seeds, so that `./dev test` without libFuzzer looks around, too.
TEST_P(Corpus, SurvivesMutations) {
  constexpr int kWalk = 300;
  Random random(1);
  const auto bytes = [&](std::string_view text) {
    std::string changed(text);
    for (int i = 0; i < 3 && !changed.empty(); ++i) {
      changed[random() % changed.size()] = static_cast<char>(random() % 256);
    }
    if (random() % 4 == 0) changed.resize(random() % (changed.size() + 1));
    return changed;
  };
  for (const fs::path& file : files()) {
    std::string text = read_file(file);
    const std::string origin = text;
    if (origin.size() > 100000) continue;
    for (int i = 0; i < kWalk; ++i) {
      if (i % 10 == 0) text = origin;
      text = mutate(text, GetParam().shape, random, bytes);
      EXPECT_NO_THROW(run(GetParam(), text)) << file << ", mutation " << i;
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, Corpus, testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cdt::fuzz
