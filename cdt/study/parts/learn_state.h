/// State of a running Learner; internal to this folder. A Walk is a fold network or a member on its
/// way along the path; its kind is the index of its activation.
#pragma once

#include <cdt/study/learn.h>
#include <cdt/study/parts/walk.h>

#include <chrono>

namespace cdt::study {

struct Learner::State {
  State(const Problem& problem, LearnOptions options);

  /// The rows held out by each fold network.
  std::vector<std::vector<int64_t>> held_rows() const;
  nn::Activation activation(size_t kind) const;
  nn::Network network(size_t member, size_t kind) const;
  size_t kinds() const { return std::max<size_t>(1, options.activations.size()); }
  int64_t folds() const;

  /// The rows with which this rank trains.
  std::vector<int64_t> own_rows(const std::vector<int64_t>& rows) const;

  void start_selection();
  /// Evaluates the held-out rows; saves the fold networks of each kind at its best point so far.
  /// Those of a kind stop by its own patience; otherwise what comes later would count depending on
  /// how long the other kind continues.
  void look(train::StepRecord& row);
  bool patience_ended(size_t kind, int64_t at) const;
  bool patience_ended() const;
  bool selection_ended() const;
  /// Returns to the best points, and collects the fold networks' outputs for their held-out rows.
  void end_selection();
  /// Removes fold networks of kinds that do not predict.
  void leave_out_others();
  /// Of options.points, those that the selection has not taken.
  double points_left() const;
  int64_t members_to_train() const;
  void start_refit();
  /// The point at which the refit ends.
  int64_t last_point() const;
  bool all_over() const;
  double seconds() const;
  Learned result() const;

  struct Best {
    int64_t point = -1;
    double loss = train::kUnknown;
    /// The last point with sufficient gain, and its loss: on a path later losses are within
    /// kLeastGain of it.
    int64_t gain_point = -1;
    double gain_loss = train::kUnknown;
  };
  /// A fold network at the best point of its kind.
  struct Kept {
    torch::Tensor outputs;                  ///< for held-out rows [h, n_L]
    std::vector<torch::Tensor> parameters;  ///< of the network
  };

  const Problem& problem;
  LearnOptions options;
  train::TrainData data;  ///< all rows
  loss::LossPtr loss;
  LearnStage stage = LearnStage::kSelection;
  std::vector<Walk> walks;  ///< fold networks of the selection, then members
  int64_t point = 0;
  double last_loss = 0;  ///< on held-out rows
  int cores = 1;         ///< shared by all walks
  std::vector<Best> best;
  std::vector<Kept> kept;
  std::vector<size_t> predicting;   ///< the kinds that predict, once the selection has ended
  std::vector<nn::Network> chosen;  ///< fold networks at their points, once the selection has ended
  torch::Tensor held_out, held_variance;
  std::vector<train::StepRecord> history, refit_history;
  double earlier_seconds = 0;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

 private:
  void check() const;
  /// Loss with the weights of training.
  double loss_of(const torch::Tensor& outputs, const torch::Tensor& labels,
                 const torch::Tensor& row_weights) const;
  /// Expands values of held-out rows to all rows: averaged if several fold networks hold one out,
  /// NaN if none does.
  torch::Tensor spread(const std::vector<torch::Tensor>& values) const;
  /// All kinds except those whose held-out rows are predicted much worse.
  std::vector<size_t> kinds_that_predict() const;
  void find_variances();
};

}  // namespace cdt::study
