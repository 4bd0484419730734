/// Summaries of a sweep's runs: table rows, and curves averaged over runs.
#pragma once

#include <cdt/experiment/store.h>

#include <limits>
#include <utility>

namespace cdt::experiment {

/// The runs of one table row.
struct Row {
  std::string architecture;
  std::string method;
  double asked_lr = 0;  ///< 0: chosen by the method
  double lr = 0;        ///< mean of the chosen rates if the method chose; NaN: no rate
  std::vector<const CaseRun*> runs;
  int64_t converged = 0;
  double val_mean = 0;  ///< over converged runs, NaN if there are none; so are the others
  double val_std = 0;   ///< sample standard deviation; 0 for a single run
  double train_mean = 0;
  bool classes = false;                    ///< whether the losses are cross entropies
  double unit = 1e-3;                      ///< unit of other losses in tables
  std::vector<report::SweepError> errors;  ///< empty if not measured
  double seconds = 0;                      ///< mean per run
  int64_t reachable = 0;                   ///< runs whose kernel moves every output
  int64_t strictly_contracting = 0;        ///< runs with αc_Lλ_max < 1
  std::optional<report::PublishedLoss> published;

  /// Whether the method chose its rate; not true for gd-best.
  bool own_rate() const { return asked_lr == 0 && method != kGdBest && !predicts(method); }
  bool all_converged() const { return converged == static_cast<int64_t>(runs.size()); }
  /// (ours − published) / published spread; NaN if either is missing.
  double difference() const;
};

/// Rows in the order of the plan. `runs` must outlive them.
std::vector<Row> collect_rows(const Plan& plan, const std::vector<CaseRun>& runs);
/// nullptr if there is none. `lr` is the requested rate, 0 if the method chooses.
const Row* find_row(const std::vector<Row>& rows, const std::string& architecture,
                    const std::string& method, double lr);

/// Mean and sample standard deviation of the finite values.
std::pair<double, double> mean_and_spread(const std::vector<double>& values);
/// A quantity over steps, averaged over the converged runs of a row. Runs that ended early keep
/// their last value.
enum class Quantity { kTraining, kValidation };
struct MeanCurve {
  std::vector<int64_t> step;
  std::vector<double> mean;
  std::vector<double> spread;
};
MeanCurve mean_curve(const Row& row, Quantity quantity);
/// Mean over runs of L_GD − L_CDT, the difference of validation losses, over steps.
std::pair<std::vector<int64_t>, std::vector<double>> mean_difference(const Row& gd, const Row& cdt);
/// Spearman rank correlation of two lists, −1 to 1.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace cdt::experiment
