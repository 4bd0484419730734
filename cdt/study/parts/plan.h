/// Counts the operations of a run with goal predict before it begins, and chooses solver and number
/// of members accordingly. Counted, not timed, so that the same rows give the same bits.
#pragma once

#include <cdt/study/problem.h>
#include <cdt/train/forms/form_choice.h>

#include <optional>

namespace cdt::study {

/// Sizes that determine the plan, besides the options.
struct PlanSizes {
  train::FormSizes form;       ///< sizes of all training and validation rows
  double step_operations = 0;  ///< operations of a gradient step, per sample
  /// Whether batches are allowed: rows of a table, one process, a CPU.
  bool may_batch = false;
};
PlanSizes plan_sizes(const Problem& problem, const train::TrainOptions& training);

struct Plan {
  train::Form form = "auto";
  int64_t members = 1;
  /// Points of all networks in selection and refit together; one unit is one point on all rows.
  double points = 0;
  double operations = 0;  ///< operations of these points
};

/// Operations per second of one core (AMD EPYC), in the given mix of precisions: measured 5 to
/// 8·10¹⁰ for all solvers. Choices never depend on a clock.
inline constexpr double kPlanRate = 7e10;
/// Budget of a default run: about ten seconds on two cores.
inline constexpr double kPlanOperations = 20 * kPlanRate;
/// Overhead of a run: starting the program, the table, the page.
inline constexpr double kPlanOverhead = kPlanRate;

/// Operations of one point on all rows (of an optimizer: one epoch). Those in float64 count twice.
double point_operations(train::Form form, const PlanSizes& sizes,
                        const train::TrainOptions& training);

/// Chooses solver, members and points by counted operations, so that the time has no jump as the
/// number of rows grows.
///
/// The points are as many as kPlanOperations allows, between those of one member and of four. The
/// solver takes all rows at once (one kernel; for several classes products with it) while there are
/// few residuals, since batches have larger errors below kFewResiduals, and beyond that while two
/// members need at most kExactIsWorthOfBatches times the operations of batches. On tables of 1000
/// to 4000 rows four members with batches had the same error as one or two with kernels
/// (docs/tables.md). `members` is the number that the user asked for, if any.
Plan usual_plan(const PlanSizes& sizes, const train::TrainOptions& training,
                std::optional<int64_t> members = {});
inline constexpr double kExactIsWorthOfBatches = 1.3;
inline constexpr int64_t kFewResiduals = 800;

/// Rows of a batch in the plan; 0: the solver's default. For several classes kernels of
/// kClassResiduals, since smaller ones see too few rows and stop early.
int64_t batch_of_plan(const PlanSizes& sizes, const train::TrainOptions& training);
inline constexpr int64_t kClassResiduals = 1000;

}  // namespace cdt::study
