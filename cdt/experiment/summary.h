/// What the runs of a sweep say together: rows of the table, and curves averaged over their runs.
#pragma once

#include <cdt/experiment/store.h>

#include <limits>
#include <utility>

namespace cdt::experiment {

/// The runs that belong to one row of the table.
struct Row {
  std::string architecture;
  std::string method;
  double asked_lr = 0;  ///< 0: the method's own
  double lr = 0;        ///< of its own ones the mean; NaN: it has none
  std::vector<const CaseRun*> runs;
  int64_t converged = 0;
  double val_mean = 0;  ///< over the converged, NaN without any; likewise the others
  double val_std = 0;   ///< with n − 1; 0 for a single one
  double train_mean = 0;
  bool classes = false;                    ///< whether the losses are cross entropies
  double unit = 1e-3;                      ///< of other losses, in tables
  std::vector<report::SweepError> errors;  ///< empty where no run has measured them
  double seconds = 0;                      ///< mean of a run
  int64_t reachable = 0;                   ///< runs whose kernel moves every output
  int64_t strictly_contracting = 0;        ///< runs with αc_Lλ_max < 1
  std::optional<report::PublishedLoss> published;

  /// Whether the method has chosen its rate, which is not what gd-best is about.
  bool own_rate() const { return asked_lr == 0 && method != kGdBest && !predicts(method); }
  bool all_converged() const { return converged == static_cast<int64_t>(runs.size()); }
  /// (ours − published) / published spread; NaN where either has none.
  double difference() const;
};

/// In the order of the plan. `runs` must outlive the rows.
std::vector<Row> collect_rows(const Plan& plan, const std::vector<CaseRun>& runs);
/// nullptr if it is missing. `lr` is the one asked for, 0 the method's own.
const Row* find_row(const std::vector<Row>& rows, const std::string& architecture,
                    const std::string& method, double lr);

/// The mean and spread (with n − 1) of finite values.
std::pair<double, double> mean_and_spread(const std::vector<double>& values);
/// A quantity over steps, averaged over the runs of a row that converged. Runs that ended early
/// count with their last value.
enum class Quantity { kTraining, kValidation };
struct MeanCurve {
  std::vector<int64_t> step;
  std::vector<double> mean;
  std::vector<double> spread;
};
MeanCurve mean_curve(const Row& row, Quantity quantity);
/// L_GD − L_CDT of the validation losses, averaged, over steps.
std::pair<std::vector<int64_t>, std::vector<double>> mean_difference(const Row& gd, const Row& cdt);
/// How far two lists order their entries alike, −1 to 1 (Spearman).
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace cdt::experiment
