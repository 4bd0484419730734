#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/seal.h>
#include <cdt/core/safetensors.h>
#include <cdt/core/version.h>
#include <cdt/nn/saved_model.h>
#include <cdt/run/folder.h>
#include <cdt/run/parts/verify.h>
#include <fmt/format.h>

#include <algorithm>

namespace cdt::run {
namespace {

namespace fs = std::filesystem;
using State = FileCheck::State;

/// @throws std::exception if the file's content does not fit its name.
void read_by_name(const RunFolder& folder, const fs::path& file) {
  if (file == folder.preprocess()) {
    folder.read_preprocess();
  } else if (file.filename().string().starts_with("model")) {
    nn::load_model(file);
  } else if (file == folder.checkpoint()) {
    load_safetensors(file);
  } else if (file == folder.history()) {
    folder.read_history();
  } else {
    read_regular_file(file);
  }
}

FileCheck check_file(const RunFolder& folder, const RunRecord& record, const std::string& name) {
  FileCheck found{name, State::kIntact, ""};
  const fs::path file = folder.path() / name;
  try {
    folder.require_intact(record, file);
    read_by_name(folder, file);
    if (!record.files.contains(name)) found.state = State::kUnchecked;
  } catch (const std::exception& error) {
    found.state = State::kDamaged;
    found.note = error.what();
  }
  return found;
}

/// Whether a run with this outcome must have the file.
bool is_needed(const RunFolder& folder, const RunRecord& record, const fs::path& file) {
  if (file == folder.run() || file == folder.preprocess()) return true;
  if (record.files.contains(file.filename().string())) return true;
  if (!record.result) return false;
  // With goal predict there are no networks before the end; other runs list theirs.
  const bool has_model =
      !record.result->diverged() && record.result->outcome != train::Outcome::kInterrupted;
  return file == folder.history() || (file == folder.model() && has_model);
}

}  // namespace

std::string to_string(FileCheck::State state) {
  switch (state) {
    case State::kIntact:
      return "intact";
    case State::kUnchecked:
      return "unchecked";
    case State::kDamaged:
      return "damaged";
    case State::kMissing:
      return "missing";
  }
  return "";
}

bool FolderCheck::sound() const {
  return std::none_of(files.begin(), files.end(), [](const FileCheck& each) {
    return each.state == State::kDamaged || each.state == State::kMissing;
  });
}

void FolderCheck::add_notes(const fs::path& folder, const std::string& not_ended) {
  if (!version.empty() && version != kVersion) {
    notes.push_back(fmt::format("written by cdt {}; this is cdt {}", version, kVersion));
  }
  const std::string holder = lock_holder(folder);
  if (!holder.empty()) {
    notes.push_back(fmt::format("{} is writing to it", holder));
  } else if (!not_ended.empty()) {
    notes.push_back(not_ended);
  }
}

FolderCheck verify_run(const fs::path& path) {
  const RunFolder folder(path);
  FolderCheck found;
  found.kind = "run";
  CDT_REQUIRE(folder.holds_run(), path.string(),
              ": expected the folder of a run, but it has no run.json");
  RunRecord record;
  std::string not_ended;
  try {
    record = folder.read_record();
    found.version = record.version;
    found.revision = record.revision;
    const bool sealed = require_seal(read_regular_file(folder.run(), kLongestJson), folder.run());
    found.files.push_back({"run.json", sealed ? State::kIntact : State::kUnchecked, ""});
    if (!record.result || record.result->outcome == train::Outcome::kInterrupted) {
      not_ended = "its training has not ended: cdt train --resume goes on";
    }
  } catch (const InvalidArgument& error) {
    found.files.push_back({"run.json", State::kDamaged, error.what()});
  }
  for (const std::string& name : RunFolder::file_names()) {
    const fs::path file = path / name;
    if (file == folder.run()) continue;
    if (path_exists(file)) {
      found.files.push_back(check_file(folder, record, name));
    } else if (is_needed(folder, record, file)) {
      found.files.push_back({name, State::kMissing, ""});
    }
  }
  found.add_notes(path, not_ended);
  return found;
}

}  // namespace cdt::run
