#include <cdt/study/learn.h>
#include <cdt/study/parts/plan.h>

#include <algorithm>

namespace cdt::study {
namespace {

using train::Form;

/// Points of selection and refit together, as on tables of 500 to 5000 rows. For classes, where
/// overfitting begins early, 13 to 26 on eleven tables, 18 on average.
constexpr double kPlannedPoints = 30;
constexpr double kPlannedOfClasses = 20;
/// For classes trained in batches, which need fewer points.
constexpr double kPlannedBatchesOfClasses = 12;
/// Epochs of an optimizer.
constexpr double kPlannedEpochs = 150;
/// Factorizations of the dual solver per point: as many steps are rejected as accepted.
constexpr double kFactors = 2;
/// Passes over all rows besides the solver's own: the kernel's self-check, trials, evaluation.
constexpr double kPlannedPasses = 4;
/// Passes per point for conjugate gradients and overhead: 24 to 75 on four tables. They are few
/// while the preconditioner is the whole kernel.
constexpr double kFreePasses = 70;
constexpr double kFreePassesOfWholeKernel = 30;
/// Share of the planned points for the selection, which goes beyond the best point.
constexpr double kSelectionPart = 0.55;

}  // namespace

PlanSizes plan_sizes(const Problem& problem, const train::TrainOptions& training) {
  const train::TrainData all = all_rows(problem);
  PlanSizes sizes;
  sizes.form = train::form_sizes(kernel::Model(problem.model), training.loss, all.y.size(0),
                                 all.y.size(1), training.memory_bytes);
  sizes.form.batch = training.batch;
  sizes.step_operations = problem.model->operations_per_sample().step;
  sizes.may_batch =
      problem.data.x.dim() == 2 && problem.data.x.device().is_cpu() && !all.ranks->several();
  return sizes;
}

int64_t batch_of_plan(const PlanSizes& sizes, const train::TrainOptions& training) {
  const bool several = training.loss->classes() && sizes.form.per_sample > 1;
  if (training.batch > 0 || !several) return training.batch;
  return std::max<int64_t>(1, kClassResiduals / sizes.form.per_sample);
}

double point_operations(Form form, const PlanSizes& sizes, const train::TrainOptions& training) {
  const double pass = static_cast<double>(sizes.form.samples) * sizes.step_operations;
  if (!training.method->path) return pass;
  if (form->open) form = train::choose_form(form, sizes.form).form;
  if (form->products) {
    const bool whole = sizes.form.residuals() <= train::kSketchResiduals;
    return (whole ? kFreePassesOfWholeKernel : kFreePasses) * pass;
  }
  train::FormSizes counted = sizes.form;
  counted.batch = batch_of_plan(sizes, training);
  double operations = train::form_cost(form, counted).operations;
  if (form->one_kernel) {
    const auto n = static_cast<double>(sizes.form.residuals());
    operations += (kFactors - 1) * 2 * n * n * n / 3;
  }
  return operations + (form->batches ? 0 : kPlannedPasses * pass);
}

namespace {

/// Points of one network's selection and refit together.
double planned_points(Form form, const train::TrainOptions& training) {
  if (!training.method->path) return kPlannedEpochs;
  if (!training.loss->classes()) return kPlannedPoints;
  return form->batches ? kPlannedBatchesOfClasses : kPlannedOfClasses;
}

/// Points, in units of one point on all rows, that a run by one form takes.
struct PointCounts {
  double operations = 0;  ///< of the unit
  double selection = 0;   ///< of one fold's network
  double refit = 0;       ///< of one member

  /// Of one network a fold, or of one an activation where the problem's own split decides.
  double of(int64_t members) const {
    const int64_t folds = members > 1 ? std::max(members, kLeastFolds) : 2;
    return static_cast<double>(folds) * selection + static_cast<double>(members) * refit;
  }
  /// What fits kPlanOperations: no less than one member takes, no more than four.
  double within_budget() const { return std::clamp(kPlanOperations / operations, of(1), of(4)); }
  /// The most members that take no more than these points.
  int64_t members_of(double points) const {
    if (points < of(2)) return 1;
    return points < of(3) ? 2 : points < of(4) ? 3 : 4;
  }
};

PointCounts count_points(Form form, const PlanSizes& sizes, const train::TrainOptions& training) {
  PlanSizes fold = sizes;
  fold.form.samples = std::max<int64_t>(1, sizes.form.samples * (kLeastFolds - 1) / kLeastFolds);
  PointCounts counts;
  counts.operations = point_operations(form, sizes, training);
  const double points = planned_points(form, training);
  const double share = point_operations(form, fold, training) / counts.operations;
  counts.selection = kSelectionPart * points * share;
  counts.refit = (1 - kSelectionPart) * points;
  return counts;
}

}  // namespace

Plan usual_plan(const PlanSizes& sizes, const train::TrainOptions& training,
                std::optional<int64_t> members) {
  const auto plan_of = [&](Form form, const PointCounts& counts, double points) {
    return Plan{form, members.value_or(counts.members_of(points)), points,
                points * counts.operations};
  };
  const auto usual = [&](Form form) {
    const PointCounts counts = count_points(form, sizes, training);
    return plan_of(form, counts, members ? counts.of(*members) : counts.within_budget());
  };
  const bool open = training.method->path && training.form->open;
  if (!open) return usual(training.form);
  const Form exact = train::choose_form("auto", sizes.form).form;
  if (!sizes.may_batch || sizes.form.residuals() <= kFewResiduals) return usual(exact);
  const Plan batches = usual("batch");
  if (exact->sketches) return batches;
  const PointCounts counts = count_points(exact, sizes, training);
  const double most = kExactIsWorthOfBatches * (batches.operations + kPlanOverhead) - kPlanOverhead;
  const double points =
      std::min(members ? counts.of(*members) : counts.within_budget(), most / counts.operations);
  const double least = counts.of(members.value_or(2));
  return points >= least ? plan_of(exact, counts, points) : batches;
}

}  // namespace cdt::study
