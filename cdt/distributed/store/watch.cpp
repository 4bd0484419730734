#include <cdt/core/error.h>
#include <cdt/distributed/store/watch.h>

#include <algorithm>
#include <thread>

namespace cdt::distributed {
namespace {

/// Limits in beats: when a rank counts as silent after an exchange has failed; when a rank that
/// lags behind may be the cause; when the search for the cause ends.
constexpr int64_t kSilentWhenHurt = 4;
constexpr int64_t kBehindWhenHurt = 10;
constexpr int64_t kSearch = 20;

constexpr const char* kVerdict = "cdt/verdict";

std::string key(const char* what, int64_t rank) { return c10::str("cdt/", what, "/", rank); }

}  // namespace

Watch::Watch(c10::intrusive_ptr<c10d::Store> store, const Options& options)
    : store_(std::move(store)),
      options_(options),
      most_silent_(std::max<int64_t>(kSilentWhenHurt, options.silence / kBeat)),
      seen_(static_cast<size_t>(options.size)),
      still_(static_cast<size_t>(options.size)) {}

std::shared_ptr<Watch> Watch::start(c10::intrusive_ptr<c10d::Store> store, const Options& options) {
  const std::shared_ptr<Watch> watch(new Watch(std::move(store), options));
  std::thread([watch] { watch->watch(); }).detach();
  return watch;
}

void Watch::stop() {
  std::unique_lock lock(mutex_);
  over_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, kSilentWhenHurt * kBeat, [&] { return ended_; });
}

void Watch::watch() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    lock.unlock();
    std::string lost;
    try {
      beat();
    } catch (const std::exception&) {
      lost = options_.keeper + " is gone";
    }
    lock.lock();
    ++beats_;
    if (verdict_.empty()) verdict_ = lost;
    changed_.notify_all();
    if (!lost.empty()) break;
    changed_.wait_for(lock, kBeat, [&] { return over_ || !own_end_.empty(); });
  }
  ended_ = true;
  changed_.notify_all();
}

void Watch::beat() {
  store_->add(key("beat", options_.rank), 1);
  const int64_t exchanges = exchanges_;
  store_->add(key("exchanges", options_.rank), exchanges - std::exchange(reported_, exchanges));
  std::string end;
  {
    const std::lock_guard lock(mutex_);
    std::swap(end, own_end_);
  }
  if (!end.empty() || store_->check({kVerdict})) declare(end);
  if (options_.rank == 0 || hurt_) {
    for (int64_t k = 0; k < options_.size; ++k) {
      look_at(k, hurt_ ? kSilentWhenHurt : most_silent_);
    }
  } else {
    look_at(0, most_silent_);
  }
  if (hurt_ && ++hurt_beats_ == kBehindWhenHurt) look_for_laggard();
}

void Watch::look_at(int64_t rank, int64_t most) {
  if (rank == options_.rank) return;
  const auto k = static_cast<size_t>(rank);
  const int64_t beats = store_->add(key("beat", rank), 0);
  still_[k] = beats == std::exchange(seen_[k], beats) ? still_[k] + 1 : 0;
  if (still_[k] < most) return;
  declare(c10::str("rank ", rank,
                   " does not answer any more: it was killed or stopped, or its machine cannot be "
                   "reached"));
}

void Watch::look_for_laggard() {
  std::vector<int64_t> done;
  for (int64_t k = 0; k < options_.size; ++k) done.push_back(store_->add(key("exchanges", k), 0));
  const auto [least, most] = std::minmax_element(done.begin(), done.end());
  if (*least == *most) return;
  declare(c10::str("rank ", least - done.begin(), " is alive, but does not go on: others wait at ",
                   "exchange ", *most, ", it has come to ", *least));
}

void Watch::declare(const std::string& verdict) {
  const std::vector<uint8_t> none, own(verdict.begin(), verdict.end());
  const auto stands = store_->compareSet(kVerdict, none, own);
  const std::lock_guard lock(mutex_);
  verdict_.assign(stands.begin(), stands.end());
}

void Watch::require_well() {
  const std::lock_guard lock(mutex_);
  if (!verdict_.empty()) throw IoError(verdict_);
}

void Watch::require_well_after_a_beat() {
  require_well();
  const std::lock_guard lock(mutex_);
  unanswered_ = beats_ == std::exchange(beats_seen_, beats_) ? unanswered_ + 1 : 0;
  if (unanswered_ > most_silent_) throw IoError(options_.keeper + " does not answer any more");
}

void Watch::blame(const std::string& symptom) {
  hurt_ = true;
  for (int64_t k = 0; k < kSearch; ++k) {
    require_well_after_a_beat();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kBeat, [&] { return !verdict_.empty(); });
  }
  throw IoError("ranks have lost each other: " + symptom);
}

void Watch::tell(const std::string& why) {
  std::unique_lock lock(mutex_);
  if (!verdict_.empty()) return;
  own_end_ = c10::str("rank ", options_.rank, " has failed: ", why);
  changed_.notify_all();
  changed_.wait_for(lock, kSilentWhenHurt * kBeat, [&] { return !verdict_.empty(); });
}

}  // namespace cdt::distributed
