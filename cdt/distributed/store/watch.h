/// Whether all ranks are alive, and which one is not; for the sources of this folder.
///
/// Every rank beats: a thread of its own adds one to its counter in the store, twice a second, also
/// while the rank computes. Rank 0 looks at all counters, the others at that of rank 0; whoever's
/// stands still for too long is silent: killed, stopped, or cut off. What went wrong is written to
/// the store once, the verdict, by which all ranks name the same culprit.
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
    std::chrono::milliseconds silence{60000};  ///< the most that is allowed
    std::string keeper;                        ///< of the store, in words
  };
  /// `store` is for the thread alone, which may hang in it: so it shares the watch, and is left
  /// alone in the end. Silence is counted in beats: a machine that sleeps takes its ranks along.
  static std::shared_ptr<Watch> start(c10::intrusive_ptr<c10d::Store> store,
                                      const Options& options);
  void stop();

  /// @throws IoError if there is a verdict.
  void require_well();
  /// The same after a beat of waiting for others: counts how long the store has not answered.
  void require_well_after_a_beat();
  /// An exchange with others has failed: finds out who was the reason, in some seconds.
  /// @throws IoError that names it, or has the symptom alone if all ranks seem well.
  [[noreturn]] void blame(const std::string& symptom);
  /// Tells others that this rank is at its end, and why.
  void tell(const std::string& why);
  /// An exchange begins.
  void count() { ++exchanges_; }

 private:
  Watch(c10::intrusive_ptr<c10d::Store> store, const Options& options);

  void watch();
  void beat();
  void look_at(int64_t rank, int64_t most);
  /// The rank that is behind in exchanges, if one is.
  void look_for_laggard();
  /// Unless there is a verdict already.
  void declare(const std::string& verdict);

  c10::intrusive_ptr<c10d::Store> store_;
  const Options options_;
  const int64_t most_silent_;          ///< beats
  std::vector<int64_t> seen_, still_;  ///< of each rank: its counter, and for how many beats
  int64_t reported_ = 0;               ///< exchanges that the store knows of
  int64_t hurt_beats_ = 0;

  std::atomic<int64_t> exchanges_ = 0;
  std::atomic<bool> hurt_ = false;  ///< an exchange has failed: who is silent now is the reason
  std::mutex mutex_;                ///< of what follows
  std::condition_variable changed_;
  bool over_ = false;   ///< the thread shall end
  bool ended_ = false;  ///< it has
  int64_t beats_ = 0;
  int64_t beats_seen_ = -1, unanswered_ = 0;  ///< by who waits
  std::string verdict_;
  std::string own_end_;  ///< to be told
};

}  // namespace cdt::distributed
