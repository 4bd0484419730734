/// What a run of the goal predict will cost, counted before it begins, and what is chosen by that:
/// the form of its steps and the number of members. Counted, not timed, so that the same rows give
/// the same bits.
#pragma once

#include <cdt/study/problem.h>
#include <cdt/train/forms/form_choice.h>

#include <optional>

namespace cdt::study {

/// What decides, beside the options.
struct PlanSizes {
  train::FormSizes form;       ///< of all rows that may train
  double step_operations = 0;  ///< of a gradient step of one sample
  /// Whether steps may go by batches: rows of a table, one process, a CPU.
  bool may_batch = false;
};
PlanSizes plan_sizes(const Problem& problem, const train::TrainOptions& training);

struct Plan {
  train::Form form = train::Form::kAuto;
  int64_t members = 1;
  /// Points of all networks in selection and refit together; the unit is one point on all rows.
  double points = 0;
  double operations = 0;  ///< of these points
};

/// Operations a second of one core (AMD EPYC), in the mix of precisions at hand: measured 5 to
/// 8·10¹⁰ for all forms. Nothing is chosen by a clock.
inline constexpr double kPlanRate = 7e10;
/// What a default run may take: some ten seconds of two cores.
inline constexpr double kPlanOperations = 20 * kPlanRate;
/// What is around the training: the start of the program, the table, the page.
inline constexpr double kPlanOverhead = kPlanRate;

/// Operations of one point on all rows (of an optimizer: one epoch). Those in float64 count twice.
double point_operations(train::Form form, const PlanSizes& sizes,
                        const train::TrainOptions& training);

/// Chooses solver, members and points by counted operations, without a step as the rows grow.
///
/// The points are as many as kPlanOperations allows, between what one member and what four members
/// usually take. All rows at once (one kernel; of several classes products with it) is the choice
/// while residuals are few, since batches err more below kFewResiduals, and beyond that while two
/// members fit into kExactIsWorthOfBatches times the operations of batches. On tables of 1000 to
/// 4000 rows four members by batches erred as much as one or two by kernels (docs/tables.md).
/// `members` are those that the user asked for, if any.
Plan usual_plan(const PlanSizes& sizes, const train::TrainOptions& training,
                std::optional<int64_t> members = {});
inline constexpr double kExactIsWorthOfBatches = 1.3;
inline constexpr int64_t kFewResiduals = 800;

/// Rows of a batch of the plan; 0: as many as the form itself takes. Of several classes kernels of
/// kClassResiduals: smaller ones see too few rows, and end early.
int64_t batch_of_plan(const PlanSizes& sizes, const train::TrainOptions& training);
inline constexpr int64_t kClassResiduals = 1000;

}  // namespace cdt::study
