#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/numpy/arrays.h>
#include <cdt/run/parts/claim.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace cdt::run {

void Claim::require_free() const {
  CDT_REQUIRE(options_.overwrite || !folder_.holds_run(), folder_.path().string(),
              ": holds a run already; resume it, overwrite it, or choose another folder");
}

/// A run folder among the folders of pictures would become a class in the next run.
void Claim::require_outside_of_pictures() const {
  const auto whole = [](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(path.empty() ? "." : path);
  };
  const std::filesystem::path pictures = whole(options_.data.file), place = whole(options_.folder);
  const auto [end, rest] =
      std::mismatch(pictures.begin(), pictures.end(), place.begin(), place.end());
  CDT_REQUIRE(end != pictures.end() || !folder_exists(pictures), options_.data.file,
              ": the run would lie among the pictures, as if it were a class; choose a folder "
              "outside (--out)");
}

void Claim::lock_known_folder() {
  CDT_REQUIRE(!options_.resume || !options_.folder.empty(), "resume needs the folder of the run");
  if (options_.data.is_pictures) require_outside_of_pictures();
  if (options_.folder.empty()) return;
  for (const std::string* file : {&options_.data.file, &options_.data.labels}) {
    folder_.require_apart(data::archive_of(*file));
  }
  if (options_.resume) {
    CDT_REQUIRE(folder_.holds_run(), folder_.path().string(),
                ": expected the folder of a run, but it has no run.json");
  } else {
    require_free();
  }
  if (!folder_.holds_run()) return;
  lock_.emplace(folder_.path());
  require_own_files();
}

void Claim::take() {
  if (lock_) return;
  if (options_.folder.empty()) {
    folder_ = RunFolder(make_free_folder());
    made_folder_ = true;
  } else {
    const bool there = folder_exists(folder_.path());
    make_folders(folder_.path());
    made_folder_ = !there;
  }
  lock_.emplace(folder_.path());
  require_free();  // another process may have been faster
  require_own_files();
}

/// Checks, before training begins, for files that it would overwrite or cannot write.
void Claim::require_own_files() const {
  std::vector<std::string> names = RunFolder::file_names();
  names.push_back(folder_.report().filename());
  for (const std::string& name : names) {
    std::error_code unknown;
    const auto kind = std::filesystem::symlink_status(folder_.path() / name, unknown).type();
    CDT_REQUIRE(kind != std::filesystem::file_type::directory, (folder_.path() / name).string(),
                ": expected a file, or none, got a folder");
    const bool there = !unknown && kind != std::filesystem::file_type::not_found;
    CDT_REQUIRE(!there || folder_.holds_run() || options_.overwrite, folder_.path().string(),
                ": has a ", name,
                ", which training would replace, and no run that it could be of; ",
                "choose another folder, or overwrite it");
  }
}

void Claim::give_back() {
  update_.reset();
  lock_.reset();
  // Removes empty folders only; if the path is a file, no folder was created.
  if (made_folder_) ::rmdir(folder_.path().c_str());
}

void Claim::begin(RunRecord& record, const data::Preprocess& preprocess) {
  replaces_ = folder_.holds_run();
  add(record, [&](const RunFolder& staged, RunRecord& next) {
    next.files.clear();
    staged.write_preprocess(preprocess);
    // run.json is replaced, never removed: it marks the folder as a run.
    for (const std::string& name : RunFolder::file_names()) {
      if (folder_.path() / name != folder_.run()) update_->remove(name);
    }
    drop_report();
  });
}

void Claim::drop_report() const { update_->remove(folder_.report().filename()); }

mode_t Claim::mode_of_report() const {
  const auto own = lock_->mode_of(folder_.report().filename());
  return own ? *own : lock_->mode_of(folder_.run().filename()).value_or(0666) & 0666;
}

void Claim::update(RunRecord& record, bool commit, const Write& write) {
  if (!update_) update_.emplace(*lock_);
  const RunFolder staged(update_->path());
  RunRecord next = record;
  try {
    write(staged, next);
    for (const std::string& name : RunFolder::file_names()) {
      if (staged.path() / name == staged.run() || !path_exists(staged.path() / name)) continue;
      next.files[name] = checksum_of_file(staged.path() / name);
    }
    staged.write_record(next);
    if (commit) update_->commit();
  } catch (...) {
    if (update_->committed()) {
      record = next;
      replaces_ = false;
    }
    if (!replaces_) update_.reset();
    throw;
  }
  record = std::move(next);
  if (!commit) return;
  update_.reset();
  replaces_ = false;
}

}  // namespace cdt::run
