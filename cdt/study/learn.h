/// Trains ensembles for prediction: held-out rows select the point of the path (or an optimizer's
/// epoch), to which members are then trained on all rows.
///
/// Fold network w trains without fold w. All fold networks advance together, point by point. The
/// loss of all held-out rows, each predicted by the network that has not seen it, selects one point
/// for all fold networks of an activation, which is less noisy than a point for each. Each
/// activation stops by its own patience. An activation with a much larger held-out loss than
/// another is left out. Members then start again, from the same starts, on all rows, up to that
/// point. Predictions are averaged over members and fold networks.
///
/// Fold networks are independent and run on their own threads, each with a share of the cores. With
/// several ranks (`problem.data.ranks`, each with the same problem), the ranks share the rows of
/// each fold network instead, and reach the same result.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/core/safetensors.h>
#include <cdt/study/problem.h>
#include <cdt/train/result.h>

#include <functional>

namespace cdt::study {

struct LearnOptions {
  /// Method, loss, seed; `steps` is the maximum number of points (of an optimizer: epochs),
  /// `patience` the number of points without a lower held-out loss after which fold networks stop.
  train::TrainOptions training;
  NetworkOptions network;
  /// Members alternate between these; empty: all use that of `network`.
  std::vector<nn::Activation> activations;
  int64_t members = 4;
  /// Points for selection and refit of a path together; one unit is one point on all rows. The
  /// refit trains as many members as the selection leaves points for, so that the time of a run
  /// hardly depends on where its best point is. 0: exactly `members`.
  double points = 0;
  /// Number of folds. 0: a single member uses the problem's own split, if there is one; otherwise
  /// one fold per member, at least kLeastFolds.
  int64_t folds = 0;
  /// Keep LibTorch's number of threads, as chosen by the caller. Otherwise fold networks that
  /// cannot use so many (trained in batches) take fewer.
  bool keep_threads = false;
  bool refit = true;       ///< false: only the fold networks predict, at the selected point
  bool intervals = false;  ///< also computes `held_variance`; quadratic losses on a path only
};

inline constexpr int64_t kLeastFolds = 4;
/// Defaults for fold networks. Beyond about twenty points a path gains one per cent of the error at
/// most (bench/RESULTS.md), at a high cost, and its length depends on the rows drawn.
inline constexpr int64_t kMostPoints = 20;
inline constexpr int64_t kPathPatience = 5;
inline constexpr int64_t kBatchPatience = 3;  ///< in epochs of batches, which are expensive
/// Relative decrease of the loss that a path must reach within its patience. On tables of
/// categories a path otherwise advances for dozens of points within the noise of the held-out rows.
inline constexpr double kLeastGain = 0.005;
/// σ_w of networks that start a path; the kernels of larger ones learn no features.
inline constexpr double kPathSigma = 0.5;
/// Maximum size of an ensemble; more than about ten members bring no gain.
inline constexpr int64_t kMostMembers = 32;
/// Members and fold networks; a linear model (linear.h) may be added.
inline constexpr int64_t kMostNetworks = 2 * kMostMembers;

/// Maximum number of members in a refit with planned points.
inline constexpr int64_t kMostFilled = 12;

enum class LearnStage { kSelection, kRefit };

struct LearnHooks {
  /// Called at point k of at most `points`; in the selection the row has the held-out loss.
  std::function<void(LearnStage, const train::StepRecord& row, int64_t points)> on_point;
  std::function<bool()> stop_requested;
  /// Called every `checkpoint_seconds`, when asked to stop, and at the end of the selection.
  std::function<void(const SafeTensors&)> checkpoint;
};

/// The selected point of an activation.
struct PickedPoint {
  nn::Activation activation = nn::Activation::kRelu;
  int64_t point = 0;
  double loss = train::kUnknown;  ///< held-out loss at that point

  void fields(Fields& f);
};

/// Result of Learner::run.
struct Learned {
  std::vector<nn::Network> networks;  ///< the members trained on all rows, then the fold networks
  loss::LossPtr loss;                 ///< used in training
  /// Result of the selection. Losses are means over the fold networks still running, weighted by
  /// their rows; val_loss is that of all held-out rows, where stopped networks count with their
  /// best; `best_step` is the first member's point. Seconds include the refit.
  train::TrainResult result;
  int64_t members = 0;                   ///< trained on all rows; 0 without refit
  std::vector<train::StepRecord> refit;  ///< mean over members; empty without refit
  double decay = train::kUnknown;        ///< path only: τ of the first network's last point
  std::vector<PickedPoint> picked;       ///< by activation, beginning with the first member's
  /// Activations left out because of a much larger held-out loss: no member uses them, their fold
  /// networks do not predict and are not counted below.
  std::vector<PickedPoint> left_out;
  /// Outputs [r, n_L] of the fold network that held the row out, at its point; NaN for rows never
  /// held out. In the order of all_rows().
  torch::Tensor held_out;
  std::vector<std::vector<int64_t>> held;  ///< rows held out by each fold network
  /// Their relative variances [r, n_L] (intervals.h), if requested.
  torch::Tensor held_variance;
  /// A linear model that predicts together with the networks, and its share by target (linear.h);
  /// not set if all shares are zero.
  std::optional<nn::Network> line;
  std::vector<double> line_shares;
};

/// All training data: x, y and sample weights of the problem's training rows, then of its
/// validation rows.
train::TrainData all_rows(const Problem& problem);

/// Trains for prediction. The problem must outlive it; `problem.model` is the first member's start.
class Learner {
 public:
  /// @throws InvalidArgument if options contradict each other or there are too few rows for the
  ///   folds.
  Learner(const Problem& problem, LearnOptions options);
  ~Learner();
  Learner(Learner&&) noexcept;

  /// Trains to the end, or until asked to stop: then result.outcome is kInterrupted and there are
  /// no networks.
  /// @throws NumericalError if a kernel cannot be computed.
  Learned run(const LearnHooks& hooks = {});

  SafeTensors checkpoint() const;
  /// Continues from a checkpoint, with bitwise the same result as an uninterrupted run.
  /// @throws InvalidArgument if the content is not a checkpoint of such a learner.
  void restore(const SafeTensors& content);
  /// The point at which all fold networks stopped by themselves: a higher limit changes nothing.
  std::optional<int64_t> ended_at() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cdt::study
