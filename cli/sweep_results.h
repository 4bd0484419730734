/// What the runs of a sweep say together: rows of the table, claims, figures, and their files.
#pragma once

#include <cdt/report/page.h>

#include "cli/sweep.h"

namespace cdt::cli {

/// The runs that belong to one row of the table.
struct SweepRow {
  std::string architecture;
  std::string method;
  double lr = 0;  ///< the mean for gd-best
  std::vector<const SweepRun*> runs;
  int64_t converged = 0;
  double val_mean = 0;  ///< over the converged, NaN if there are none; likewise the others
  double val_std = 0;   ///< with n − 1; 0 for a single one
  double train_mean = 0;
  double seconds = 0;                ///< mean of a run
  int64_t reachable = 0;             ///< runs whose kernel moves every output
  int64_t strictly_contracting = 0;  ///< runs with αc_Lλ_max < 1
  const PublishedRow* published = nullptr;
  bool all_converged() const { return converged == static_cast<int64_t>(runs.size()); }
  /// (ours − published) / published spread; NaN where either has none.
  double difference() const;
};

struct Claim {
  std::string text;
  std::optional<bool> held;  ///< empty: these runs cannot say
  std::string evidence;
};

/// In the order of the plan. `runs` must outlive the rows.
std::vector<SweepRow> collect_rows(const SweepPlan& plan, const std::vector<SweepRun>& runs);
/// nullptr if there is none.
const SweepRow* find_row(const std::vector<SweepRow>& rows, const std::string& architecture,
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
MeanCurve mean_curve(const SweepRow& row, Quantity quantity);
/// L_GD − L_CDT of the validation losses, averaged, over steps.
std::pair<std::vector<int64_t>, std::vector<double>> mean_difference(const SweepRow& gd,
                                                                     const SweepRow& cdt);
/// How far two lists order their entries alike, −1 to 1 (Spearman).
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

/// The paper's statements, checked on these runs. Empty unless there are gd and cdt.
std::vector<Claim> check_claims(const SweepPlan& plan, const std::vector<SweepRow>& rows,
                                const std::vector<SweepRun>& runs);
std::vector<report::Figure> draw_figures(const SweepPlan& plan, const std::vector<SweepRow>& rows,
                                         const std::vector<SweepRun>& runs);

/// results.json (docs/formats.md); data, machine and timings are for the caller to fill in.
nlohmann::ordered_json to_json(const SweepPlan& plan, const std::vector<SweepRow>& rows,
                               const std::vector<Claim>& claims, const std::vector<SweepRun>& runs);
std::string to_csv(const std::vector<SweepRow>& rows);
std::string to_markdown(const SweepPlan& plan, const std::vector<SweepRow>& rows,
                        const std::vector<Claim>& claims);
/// The table and the claims, for a terminal.
std::string to_text(const SweepPlan& plan, const std::vector<SweepRow>& rows,
                    const std::vector<Claim>& claims);

}  // namespace cdt::cli
