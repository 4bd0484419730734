#include <cdt/study/learn.h>
#include <cdt/study/plan.h>

#include <algorithm>

namespace cdt::study {
namespace {

using train::Form;

/// Points of a walk and its refit together, as they were on tables of 500 to 5000 rows; of classes,
/// where noise begins early, both were 13 to 26 on eleven tables, 18 in the mean.
constexpr double kPlannedPoints = 30;
constexpr double kPlannedOfClasses = 20;
/// Of an optimizer.
constexpr double kPlannedEpochs = 150;
/// Factors of the dual form a point: as many steps are taken back as are kept.
constexpr double kFactors = 2;
/// Passes over all rows beside a form's own: the kernel's self-check, trials, evaluation.
constexpr double kPlannedPasses = 4;
/// Conjugate gradients and what is around them, a point: 24 to 75 on four tables.
constexpr double kFreePasses = 40;
/// Batches of which four members take less than this share of what one takes otherwise come late.
constexpr double kMuchQuicker = 4;

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
  const bool several = training.loss == dynamics::Loss::kCrossEntropy && sizes.form.per_sample > 1;
  if (training.batch > 0 || !several) return training.batch;
  return std::max<int64_t>(1, kClassResiduals / sizes.form.per_sample);
}

double member_operations(Form form, const PlanSizes& sizes, const train::TrainOptions& training) {
  const double pass = static_cast<double>(sizes.form.samples) * sizes.step_operations;
  if (training.method != train::Method::kPath) return kPlannedEpochs * pass;
  if (form == Form::kAuto) form = train::choose_form(form, sizes.form).form;
  const bool classes = training.loss == dynamics::Loss::kCrossEntropy;
  const double points = classes ? kPlannedOfClasses : kPlannedPoints;
  if (form == Form::kFree) return points * kFreePasses * pass;
  train::FormSizes counted = sizes.form;
  counted.batch = batch_of_plan(sizes, training);
  double operations = train::form_cost(form, counted).operations;
  if (form == Form::kDual) {
    const auto n = static_cast<double>(sizes.form.residuals());
    operations += (kFactors - 1) * 2 * n * n * n / 3;
  }
  return points * (operations + (form == Form::kBatch ? 0 : kPlannedPasses * pass));
}

namespace {

/// What takes all rows at once in the fewest operations: of several classes products with the
/// kernel, else the kernel or the matrix of the parameters. kAuto: neither fits.
Form cheapest_exact(const PlanSizes& sizes, const train::TrainOptions& training) {
  const Form usual = train::choose_form(Form::kAuto, sizes.form).form;
  if (usual == Form::kFree) return usual;
  Form best = Form::kAuto;
  for (const Form form : {Form::kDual, Form::kPrimal}) {
    const bool fits =
        train::form_cost(form, sizes.form).bytes <= static_cast<double>(sizes.form.memory_bytes);
    if (!fits || (form == Form::kDual && sizes.form.residuals() > train::kMostDual)) continue;
    if (best == Form::kAuto ||
        member_operations(form, sizes, training) < member_operations(best, sizes, training)) {
      best = form;
    }
  }
  return best;
}

/// The form where batches may be taken.
Form form_beside_batches(const PlanSizes& sizes, const train::TrainOptions& training) {
  const Form exact = cheapest_exact(sizes, training);
  const Form usual = train::choose_form(Form::kAuto, sizes.form).form;
  if (sizes.form.residuals() <= kFewResiduals) {
    return exact == Form::kPrimal && 2 * sizes.form.parameters < sizes.form.residuals() ? exact
                                                                                        : usual;
  }
  if (exact == Form::kAuto) return Form::kBatch;
  const double operations = member_operations(exact, sizes, training);
  const double batches = member_operations(Form::kBatch, sizes, training);
  const double members = operations > kMuchQuicker * batches ? 1 : 2;
  const bool quick = exact == Form::kFree && members * operations <= kPlanOperations;
  if (!quick && operations > kExactIsWorthOfBatches * batches) return Form::kBatch;
  return exact;
}

}  // namespace

Plan usual_plan(const PlanSizes& sizes, const train::TrainOptions& training) {
  Plan plan;
  plan.form = training.form;
  if (training.method == train::Method::kPath && training.form == Form::kAuto) {
    plan.form = sizes.may_batch ? form_beside_batches(sizes, training)
                                : train::choose_form(Form::kAuto, sizes.form).form;
  }
  const double one = member_operations(plan.form, sizes, training);
  for (const int64_t members : {4, 2, 1}) {
    plan.members = members;
    plan.operations = static_cast<double>(members) * one;
    if (plan.operations <= kPlanOperations) break;
  }
  return plan;
}

}  // namespace cdt::study
