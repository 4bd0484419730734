/// Models that predict: a path (or an optimizer's epochs) whose best point rows decide that were
/// held out, and members that are then trained on all rows to that point.
///
/// Walk w holds fold w out. All walks go on together, point by point; the loss of all rows held
/// out, each by the walk that has not seen it, picks the point: one for all walks of an activation,
/// less noisy than each walk's own. The walks of an activation end with its own patience. One whose
/// held-out loss is much beyond another's is left out. Members then start anew, from the same
/// starts, on all rows, to that point. Predictions are averaged over them and the walks, whose work
/// is done anyway.
///
/// Walks are independent and go on threads of their own, each with its share of the cores. Several
/// ranks (`problem.data.ranks`, each with the same problem) share the rows of each walk instead,
/// and all come to the same end.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/core/safetensors.h>
#include <cdt/study/problem.h>
#include <cdt/train/result.h>

#include <functional>

namespace cdt::study {

struct LearnOptions {
  /// Method, loss, seed; `steps` is the most of points (of an optimizer: epochs), `patience` the
  /// points without a lower held-out loss after which the walks end.
  train::TrainOptions training;
  NetworkOptions network;
  /// Members take turns with these; empty: all have that of `network`.
  std::vector<nn::Activation> activations;
  int64_t members = 4;
  /// Parts of the rows, each held out by a walk. 0: by the problem's own split if there is one
  /// member, else one fold a member, and at least kLeastFolds.
  int64_t folds = 0;
  /// The caller has chosen LibTorch's number of threads; otherwise networks that cannot use as
  /// many (--form batch) take fewer.
  bool keep_threads = false;
  bool refit = true;       ///< otherwise the walks alone, at the point, predict
  bool intervals = false;  ///< also finds `held_variance`, of quadratic losses by a path
};

inline constexpr int64_t kLeastFolds = 4;
/// Options of networks where none are given. Beyond some twenty points a path takes its time for a
/// per cent of the error (bench/RESULTS.md), and how far it goes depends on the draw of the rows.
inline constexpr int64_t kMostPoints = 20;
inline constexpr int64_t kPathPatience = 5;
inline constexpr int64_t kBatchPatience = 3;  ///< by epochs of batches, each dear
/// The share of its loss that a path must gain within its patience: on tables of categories a path
/// creeps for dozens of points without leaving the noise of the rows held out.
inline constexpr double kLeastGain = 0.005;
/// σ_w of networks that a path starts from: larger ones have kernels that learn no features.
inline constexpr double kPathSigma = 0.5;
/// An ensemble has no more: beyond some ten there is nothing to gain.
inline constexpr int64_t kMostMembers = 32;
/// Members and walks; a line (linear.h) may come beside them.
inline constexpr int64_t kMostNetworks = 2 * kMostMembers;

/// Default number of members: four where all of the work stays within some ten seconds of two
/// cores, three or two where that does, else one (plan.h).
int64_t usual_members(const Problem& problem, const train::TrainOptions& training);

enum class LearnStage { kSelection, kRefit };

struct LearnHooks {
  /// Point k of at most `points`; in the selection the row has the loss of held-out rows.
  std::function<void(LearnStage, const train::StepRecord& row, int64_t points)> on_point;
  std::function<bool()> stop_requested;
  /// Every `checkpoint_seconds`, when asked to stop, and at the end of the selection.
  std::function<void(const SafeTensors&)> checkpoint;
};

/// Where walks of one activation are best.
struct PickedPoint {
  nn::Activation activation = nn::Activation::kRelu;
  int64_t point = 0;
  double loss = train::kUnknown;  ///< there, of the rows that they have held out

  void fields(Fields& f);
};

/// What came of it.
struct Learned {
  std::vector<nn::Network> networks;  ///< the members trained on all rows, then the walks
  loss::LossPtr loss;                 ///< that they have learned by
  /// Of the selection: losses are means over the walks that go on, weighted by their rows; val_loss
  /// is of all rows held out, walks that have ended count with their best; `best_step` is the first
  /// member's point. Seconds include the refit.
  train::TrainResult result;
  std::vector<train::StepRecord> refit;  ///< of the members, in the mean; empty without refit
  double decay = train::kUnknown;        ///< τ of the first network's last point; of a path
  std::vector<PickedPoint> picked;       ///< by activation, the first member's first
  /// Activations whose networks err much more on the rows that they held out: no member has one,
  /// their walks do not predict, and are not counted below.
  std::vector<PickedPoint> left_out;
  /// Outputs [r, n_L] of the walk that held the row out, at its point; NaN for rows that none did.
  /// Rows are in the order of all_rows().
  torch::Tensor held_out;
  std::vector<std::vector<int64_t>> held;  ///< the rows that each walk held out
  /// Their relative variances [r, n_L] (intervals.h), if they were asked for.
  torch::Tensor held_variance;
  /// A network without hidden layers that predicts beside the others, and its share by target
  /// (linear.h); of none there is no such network.
  std::optional<nn::Network> line;
  std::vector<double> line_shares;
};

/// All rows that may train: x, y and sample weights of the problem's training rows, then of its
/// validation rows.
train::TrainData all_rows(const Problem& problem);

/// Learns the problem, which must outlive it; `problem.model` is the first member's start.
class Learner {
 public:
  /// @throws InvalidArgument if options contradict each other or rows are too few for the folds.
  Learner(const Problem& problem, LearnOptions options);
  ~Learner();
  Learner(Learner&&) noexcept;

  /// To the end, or until asked to stop: then result.outcome is kInterrupted and there are no
  /// networks.
  /// @throws NumericalError if a kernel cannot be computed.
  Learned run(const LearnHooks& hooks = {});

  SafeTensors checkpoint() const;
  /// Goes on from there, to the same bits as an uninterrupted one.
  /// @throws InvalidArgument if the content is no checkpoint of such a learner.
  void restore(const SafeTensors& content);
  /// The point at which walks have ended by themselves: a higher limit of points changes nothing.
  std::optional<int64_t> ended_at() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cdt::study
