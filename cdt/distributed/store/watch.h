/// Monitors whether all ranks are alive, and finds the one that is not; internal to this folder.
///
/// On every rank a thread increments the rank's counter in the store twice a second (a beat), also
/// during computations. Rank 0 observes all counters, the others that of rank 0. A rank whose
/// counter stops for too long is silent: killed, stopped, or disconnected. The cause is written to
/// the store once, the verdict, so that all ranks report the same culprit.
#pragma once

#include <cdt/core/error.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cdt::distributed {

inline constexpr std::chrono::milliseconds kBeat{500};

class Watch {
 public:
  struct Options {
    int64_t rank = 0;
    int64_t size = 1;
    std::chrono::milliseconds silence{60000};  ///< maximum silence
    std::string keeper;                        ///< description of the process that keeps the store
  };
  /// `store` is used only by the thread, which may hang in it; so the thread shares ownership of
  /// the watch and is abandoned in the end. Silence is counted in beats, so that a suspended
  /// machine does not count.
  static std::shared_ptr<Watch> start(c10::intrusive_ptr<c10d::Store> store,
                                      const Options& options);
  void stop();

  /// @throws IoError if there is a verdict.
  void require_well();
  /// The same after waiting one beat for others; counts how long the store has not answered.
  void require_well_after_a_beat();
  /// Called when an exchange has failed: finds the cause within some seconds.
  /// @throws IoError that names it, or gives only the symptom if all ranks seem healthy.
  [[noreturn]] void blame(const std::string& symptom);
  /// Tells the others that this rank ends, and why.
  void tell(const std::string& why);
  /// Counts an exchange.
  void count() { ++exchanges_; }

 private:
  Watch(c10::intrusive_ptr<c10d::Store> store, const Options& options);

  void watch();
  void beat();
  void look_at(int64_t rank, int64_t most);
  /// Finds the rank that lags behind in exchanges, if any.
  void look_for_laggard();
  /// Unless there is already a verdict.
  void declare(const std::string& verdict);

  c10::intrusive_ptr<c10d::Store> store_;
  const Options options_;
  const int64_t most_silent_;          ///< beats
  std::vector<int64_t> seen_, still_;  ///< per rank: its counter, and since how many beats it has
                                       ///< not changed
  int64_t reported_ = 0;               ///< exchanges reported to the store
  int64_t hurt_beats_ = 0;

  std::atomic<int64_t> exchanges_ = 0;
  std::atomic<bool> hurt_ = false;  ///< an exchange has failed, so a silent rank is the cause
  std::mutex mutex_;                ///< protects the members below
  std::condition_variable changed_;
  bool over_ = false;   ///< the thread must end
  bool ended_ = false;  ///< the thread has ended
  int64_t beats_ = 0;
  int64_t beats_seen_ = -1, unanswered_ = 0;  ///< counted by the waiting thread
  std::string verdict_;
  std::string own_end_;  ///< to be reported
};

}  // namespace cdt::distributed
