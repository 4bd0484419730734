/// What a Learner is while it works; for the sources of this folder.
#pragma once

#include <cdt/study/learn.h>
#include <cdt/study/parts/walk.h>

#include <chrono>

namespace cdt::study {

struct Learner::State {
  State(const Problem& problem, LearnOptions options);

  /// The rows that each walk holds out.
  std::vector<std::vector<int64_t>> held_rows() const;
  nn::Activation activation(size_t kind) const;
  nn::Network network(size_t member, size_t kind) const;
  size_t kinds() const { return std::max<size_t>(1, options.activations.size()); }
  int64_t folds() const;

  /// Those that this rank trains with.
  std::vector<int64_t> own_rows(const std::vector<int64_t>& rows) const;

  void start_selection();
  /// Evaluates the rows held out; keeps what each walk is where its kind is at its best yet. The
  /// walks of a kind end with its patience: what would come later would be seen or not by how long
  /// the other kind goes on.
  void look(train::StepRecord& row);
  bool patience_ended(size_t kind, int64_t at) const;
  bool patience_ended() const;
  bool selection_ended() const;
  /// Back to the best points: what the walks say there of rows that they have not seen.
  void end_selection();
  /// Only walks of kinds that predict stay.
  void leave_out_others();
  /// Of options.points, those that the selection has not taken.
  double points_left() const;
  int64_t members_to_train() const;
  void start_refit();
  /// Where the refit ends.
  int64_t last_point() const;
  bool all_over() const;
  double seconds() const;
  Learned result() const;

  struct Best {
    int64_t point = -1;
    double loss = train::kUnknown;
    /// The last point that was worth waiting for, and its loss: of a path the losses since are
    /// within kLeastGain of that.
    int64_t gain_point = -1;
    double gain_loss = train::kUnknown;
  };
  /// A walk at the best point of its kind.
  struct Kept {
    torch::Tensor outputs;                  ///< of the rows held out [h, n_L]
    std::vector<torch::Tensor> parameters;  ///< of the network
  };

  const Problem& problem;
  LearnOptions options;
  train::TrainData data;  ///< all rows
  loss::LossPtr loss;
  LearnStage stage = LearnStage::kSelection;
  std::vector<Walk> walks;  ///< of the selection, then the members
  int64_t point = 0;
  double last_loss = 0;  ///< of held-out rows
  int cores = 1;         ///< for the walks together
  std::vector<Best> best;
  std::vector<Kept> kept;
  std::vector<size_t> predicting;   ///< the kinds, once the selection has ended
  std::vector<nn::Network> chosen;  ///< the walks at their points, once the selection has ended
  torch::Tensor held_out, held_variance;
  std::vector<train::StepRecord> history, refit_history;
  double earlier_seconds = 0;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

 private:
  void check() const;
  /// As weighted as training is.
  double loss_of(const torch::Tensor& outputs, const torch::Tensor& labels,
                 const torch::Tensor& row_weights) const;
  /// Values of held-out rows to all rows: averaged where several walks have held one out, NaN where
  /// none has.
  torch::Tensor spread(const std::vector<torch::Tensor>& values) const;
  /// All but those whose rows held out are predicted much worse than others'.
  std::vector<size_t> kinds_that_predict() const;
  void find_variances();
};

}  // namespace cdt::study
