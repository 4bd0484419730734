// What a run's folder keeps: whatever is asked, a run that is there stays until there is another.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/run/parts/verify.h>
#include <cdt/run/train.h>
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/small_run.h"

namespace cdt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
namespace fs = std::filesystem;

class KeptRun : public testing::Test {
 protected:
  run::RunFolder kept() const { return run::RunFolder(options_.folder); }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::directory_iterator(options_.folder)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".cdt-")) continue;
      found[name] = read_file(entry.path());
    }
    return found;
  }
  void flip_byte(const fs::path& path) const {
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file_atomically(path, {bytes});
  }
  static void expect_refused(const run::Options& options, const std::string& message) {
    EXPECT_THAT([&] { run::train(options); }, ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  }

  test::TempFolder folder_;
  run::Options options_ = test::small_descent(folder_, 40, 8, 6);
};

TEST_F(KeptRun, StaysUntilANewOneHasSomethingToShow) {
  run::train(options_);
  const auto before = files();
  options_.overwrite = true;
  options_.training.steps = 9;
  options_.analysis = true;
  run::Hooks hooks;
  hooks.on_step = [&](const train::StepRecord& row, int64_t) {
    EXPECT_EQ(files(), before);
    if (row.step == 3) throw NumericalError("as if the kernel could not be computed");
  };
  EXPECT_THROW(run::train(options_, hooks), NumericalError);
  EXPECT_EQ(files(), before);
  hooks.on_step = {};
  hooks.on_preflight = [&](const analysis::Preflight&) { EXPECT_EQ(files(), before); };
  run::train(options_, hooks);
  EXPECT_EQ(kept().read_record().result->steps, 9);
  EXPECT_TRUE(fs::exists(kept().spectrum()));
  options_.analysis = false;
  run::train(options_);
  EXPECT_FALSE(fs::exists(kept().spectrum())) << "of another run";
  EXPECT_FALSE(fs::exists(options_.folder / ".cdt-new"));
}

TEST_F(KeptRun, GivesWayToACheckpoint) {
  run::train(options_);
  options_.overwrite = true;
  options_.training.steps = 9;
  options_.training.checkpoint_seconds = 0;  // one before each step
  run::Hooks hooks;
  hooks.on_step = [&](const train::StepRecord& row, int64_t) {
    EXPECT_FALSE(fs::exists(kept().model())) << "it would be of another run";
    EXPECT_FALSE(kept().read_record().result);
    EXPECT_NO_THROW(kept().require_intact(kept().read_record(), kept().checkpoint()));
    if (row.step == 3) throw NumericalError("the end");
  };
  EXPECT_THROW(run::train(options_, hooks), NumericalError);
  options_.overwrite = false;
  options_.resume = true;
  EXPECT_EQ(run::train(options_).result.steps, 9);
}

TEST_F(KeptRun, IsNotWrittenOverItsOwnData) {
  options_.analysis = true;  // for all its files
  run::train(options_);
  const auto before = files();
  options_.overwrite = true;
  for (const std::string& name : run::RunFolder::file_names()) {
    if (!before.contains(name)) continue;  // of other goals
    options_.data.file = (options_.folder / name).string();
    expect_refused(options_, name + " of the folder");
  }
  fs::create_hard_link(kept().predictions(), folder_ / "table.csv");
  options_.data.file = (folder_ / "table.csv").string();
  expect_refused(options_, "is predictions.csv of the folder");
  EXPECT_EQ(files(), before);
}

TEST_F(KeptRun, KeepsItsModelWhenItGoesOnAndDiverges) {
  options_.training.learning_rate = 1e6;
  options_.training.steps = 1;
  run::train(options_);
  const auto before = files();
  options_.resume = true;
  options_.training.steps = 60;
  std::string warning;
  run::Hooks hooks;
  hooks.on_warning = [&](const std::string& text) { warning = text; };
  const run::TrainedRun went_on = run::train(options_, hooks);
  EXPECT_EQ(went_on.result.outcome, train::Outcome::kDiverged);
  EXPECT_EQ(went_on.record.result->outcome, train::Outcome::kDiverged);
  EXPECT_THAT(warning, HasSubstr("keeps the model and the results that it had after 1 step"));
  EXPECT_EQ(files(), before);
  EXPECT_NO_THROW(run::load_trained(kept(), torch::kCPU));
}

TEST_F(KeptRun, KeepsItsAnalysisAndItsResultsThroughAnInterruption) {
  options_.analysis = true;
  options_.training.checkpoint_seconds = 0;
  run::train(options_);
  const run::RunRecord before = kept().read_record();
  ASSERT_NE(before.analysis, "");
  options_.resume = true;
  options_.training.steps = 12;
  run::Hooks hooks;
  hooks.on_step = [&](const train::StepRecord& row, int64_t) {
    if (row.step == 9) throw NumericalError("as if killed");
  };
  EXPECT_THROW(run::train(options_, hooks), NumericalError);
  const run::RunRecord between = kept().read_record();
  EXPECT_EQ(between.analysis, before.analysis);
  EXPECT_EQ(between.result->steps, 6) << "of the model that is there";
  EXPECT_TRUE(run::verify_run(options_.folder).sound());
  EXPECT_NO_THROW(run::load_trained(kept(), torch::kCPU));
  run::train(options_);
  const run::RunRecord after = kept().read_record();
  EXPECT_EQ(after.analysis, before.analysis);
  EXPECT_EQ(after.analysis_text, before.analysis_text);
  EXPECT_EQ(after.seconds->analysis, before.seconds->analysis);
  EXPECT_EQ(after.result->steps, 12);
}

TEST_F(KeptRun, BelongsToOneProcessAtATime) {
  run::Hooks hooks;
  hooks.on_step = [&](const train::StepRecord& row, int64_t) {
    if (row.step != 2) return;
    run::Options other = options_;
    for (const bool resume : {true, false}) {
      other.resume = resume;
      other.overwrite = !resume;
      expect_refused(other, "is in use by process " + std::to_string(::getpid()));
    }
  };
  run::train(options_, hooks);
  EXPECT_EQ(kept().read_record().result->steps, 6);
  EXPECT_FALSE(fs::exists(options_.folder / ".cdt-lock"));
}

TEST_F(KeptRun, TrustsNoFileThatHasChanged) {
  run::train(options_);
  EXPECT_TRUE(run::verify_run(options_.folder).sound());
  options_.resume = true;
  options_.training.steps = 9;
  for (const std::string name : {"model.safetensors", "preprocess.json"}) {
    SCOPED_TRACE(name);
    flip_byte(options_.folder / name);
    EXPECT_THAT([&] { run::load_trained(kept(), torch::kCPU); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(name), HasSubstr("is damaged"))));
    flip_byte(options_.folder / name);
  }
  const auto before = files();
  flip_byte(kept().checkpoint());
  expect_refused(options_, "checkpoint.safetensors: is damaged");
  flip_byte(kept().checkpoint());
  EXPECT_EQ(files(), before);
}

TEST_F(KeptRun, IsVerifiedFileByFile) {
  using State = run::FileCheck::State;
  run::train(options_);
  const auto state_of = [&](const std::string& name) {
    for (const run::FileCheck& each : run::verify_run(options_.folder).files) {
      if (each.file == name) return each.state;
    }
    ADD_FAILURE() << name;
    return State::kIntact;
  };
  const auto before = files();
  for (const std::string& name : run::RunFolder::file_names()) {
    if (!before.contains(name)) continue;  // spectrum.csv
    SCOPED_TRACE(name);
    const fs::path path = options_.folder / name;
    EXPECT_EQ(state_of(name), State::kIntact);
    if (name != "run.json") {
      flip_byte(path);
      EXPECT_EQ(state_of(name), State::kDamaged);
      fs::remove(path);
      EXPECT_EQ(state_of(name), State::kMissing);
      EXPECT_FALSE(run::verify_run(options_.folder).sound());
    } else {
      write_file_atomically(path, {before.at(name).substr(0, 100)});
      EXPECT_EQ(state_of(name), State::kDamaged);
      std::string other = before.at(name);
      other.replace(other.find("\"steps\": 6"), 10, "\"steps\": 7");  // still a run
      write_file_atomically(path, {other});
      EXPECT_EQ(state_of(name), State::kDamaged);
    }
    write_file_atomically(path, {before.at(name)});
  }
  // As earlier versions wrote it.
  auto old = nlohmann::ordered_json::parse(before.at("run.json"));
  for (const char* name : {"files", "sealed", "checksum"}) old.erase(name);
  old["version"] = "0.0.1";
  write_file_atomically(kept().run(), {old.dump()});
  EXPECT_EQ(state_of("run.json"), State::kUnchecked);
  EXPECT_EQ(state_of("model.safetensors"), State::kUnchecked);
  const run::FolderCheck found = run::verify_run(options_.folder);
  EXPECT_TRUE(found.sound());
  EXPECT_THAT(found.notes, testing::ElementsAre(HasSubstr("written by cdt 0.0.1")));
  write_file_atomically(kept().model(), {"{}"});
  EXPECT_EQ(state_of("model.safetensors"), State::kDamaged);
  EXPECT_THROW(run::verify_run(folder_.path()), InvalidArgument);
}

TEST_F(KeptRun, TakesNothingThatIsNotOfARun) {
  fs::create_directory(options_.folder);
  const fs::path mine = kept().predictions();
  write_file_atomically(mine, {"mine"});
  expect_refused(options_, "has a predictions.csv");
  EXPECT_EQ(read_file(mine), "mine");
  EXPECT_EQ(files().size(), 1U);
  options_.overwrite = true;
  run::train(options_);
  EXPECT_NE(read_file(mine), "mine");
  // A folder where a file is to be shows before training, not when it is to be written.
  fs::create_directory(kept().model(2));
  const std::string model = read_file(kept().model());
  run::Hooks hooks;
  hooks.on_step = [](const train::StepRecord&, int64_t) { ADD_FAILURE() << "too late"; };
  for (const bool resume : {true, false}) {
    options_.resume = resume;
    options_.overwrite = !resume;
    options_.training.steps = 9;
    EXPECT_THAT([&] { run::train(options_, hooks); },
                ThrowsMessage<InvalidArgument>(HasSubstr("got a folder")));
    EXPECT_EQ(read_file(kept().model()), model);
  }
}

TEST_F(KeptRun, WritesThroughNoLinkOfItsFolder) {
  run::train(options_);
  const fs::path elsewhere = folder_ / "elsewhere";
  write_file_atomically(elsewhere, {"precious"});
  for (const fs::path& file : {kept().report(), kept().history(), kept().predictions()}) {
    fs::remove(file);
    fs::create_symlink(elsewhere, file);
  }
  options_.resume = true;
  options_.training.steps = 9;
  run::train(options_);
  EXPECT_EQ(read_file(elsewhere), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(kept().report())));
  EXPECT_TRUE(run::verify_run(options_.folder).sound());
}

TEST_F(KeptRun, IsVerifiedWithHowItGoesOn) {
  run::Hooks hooks;
  hooks.on_step = [&](const train::StepRecord& row, int64_t) {
    if (row.step != 2) return;
    EXPECT_THAT(run::verify_run(options_.folder).notes,
                testing::ElementsAre(HasSubstr("is writing to it")));
    throw NumericalError("as if killed");
  };
  EXPECT_THROW(run::train(options_, hooks), NumericalError);
  EXPECT_THAT(run::verify_run(options_.folder).notes, testing::ElementsAre(HasSubstr("--resume")));
  options_.resume = true;
  hooks.on_step = nullptr;
  hooks.stop_requested = [] { return true; };
  run::train(options_, hooks);
  EXPECT_THAT(run::verify_run(options_.folder).notes, testing::ElementsAre(HasSubstr("--resume")));
  run::train(options_);
  EXPECT_THAT(run::verify_run(options_.folder).notes, testing::IsEmpty());
}

TEST_F(KeptRun, LeavesAFileAloneThatIsNoFolder) {
  for (const std::string name : {"houses.csv", "notes.txt"}) {
    const fs::path file = folder_ / name;
    if (!fs::exists(file)) write_file_atomically(file, {"mine"});
    const std::string before = read_file(file);
    for (const bool overwrite : {false, true}) {
      options_.overwrite = overwrite;
      options_.folder = file;
      expect_refused(options_, "expected a folder, got a file");
      options_.folder = file / "run";
      expect_refused(options_, "Not a directory");
    }
    EXPECT_EQ(read_file(file), before);
  }
  // A folder that was there stays, though nothing came of the run.
  fs::create_directory(folder_ / "empty");
  options_.folder = folder_ / "empty";
  options_.data.targets = {"none"};
  EXPECT_THROW(run::train(options_), InvalidArgument);
  EXPECT_TRUE(fs::exists(folder_ / "empty"));
}

TEST_F(KeptRun, TakesTheNextFreeName) {
  const fs::path here = fs::current_path();
  fs::current_path(folder_.path());
  options_.folder.clear();
  EXPECT_EQ(run::train(options_).folder.path(), "run1");
  fs::create_directory("run2");
  EXPECT_EQ(run::train(options_).folder.path(), "run3");
  fs::current_path(here);
}

}  // namespace
}  // namespace cdt
