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
  train::Form form = "auto";
  int64_t members = 1;
  double operations = 0;  ///< of all members, their walks and refits
};

/// Operations a second of one core (AMD EPYC), in the mix of precisions at hand: measured 5 to
/// 8·10¹⁰ for all forms. Nothing is chosen by a clock.
inline constexpr double kPlanRate = 7e10;
/// What a default run may take: some ten seconds of two cores.
inline constexpr double kPlanOperations = 20 * kPlanRate;
/// What is around the training: the start of the program, the table, the page.
inline constexpr double kPlanOverhead = kPlanRate;

/// Operations of one member by a form, walk and refit; those in float64 count twice.
double member_operations(train::Form form, const PlanSizes& sizes,
                         const train::TrainOptions& training);

/// All rows at once (one kernel; of several classes products with it), four members or two, while
/// they take at most kExactIsWorthOfBatches times the operations of batches and stay within
/// kPlanOperations, or residuals are few: below kFewResiduals batches err more. Batches beyond, so
/// that the time goes on without a step, and as many members as kPlanOperations allow. On tables of
/// 1000 to 4000 rows four members by batches erred as much as one or two by kernels
/// (docs/tables.md). With `members` that somebody has chosen the form is compared for those.
Plan usual_plan(const PlanSizes& sizes, const train::TrainOptions& training,
                std::optional<int64_t> members = {});
inline constexpr double kExactIsWorthOfBatches = 1.9;
inline constexpr int64_t kFewResiduals = 800;

/// Rows of a batch of the plan; 0: as many as the form itself takes. Of several classes kernels of
/// kClassResiduals: smaller ones see too few rows, and end early.
int64_t batch_of_plan(const PlanSizes& sizes, const train::TrainOptions& training);
inline constexpr int64_t kClassResiduals = 1000;

}  // namespace cdt::study
