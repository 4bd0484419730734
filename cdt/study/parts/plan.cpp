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
/// Passes per point for conjugate gradients and overhead: 24 to 75 on four tables.
constexpr double kFreePasses = 40;
/// Four exact members are kept while two would need at most this multiple of what batches do; then
/// two, up to kExactIsWorthOfBatches. This covers about sixteen per cent more rows.
constexpr double kRoomForTwo = 1.5;

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

double member_operations(Form form, const PlanSizes& sizes, const train::TrainOptions& training) {
  const double pass = static_cast<double>(sizes.form.samples) * sizes.step_operations;
  if (training.method != train::Method::kPath) return kPlannedEpochs * pass;
  if (form == Form::kAuto) form = train::choose_form(form, sizes.form).form;
  const bool classes = training.loss->classes();
  const double of_classes = form == Form::kBatch ? kPlannedBatchesOfClasses : kPlannedOfClasses;
  const double points = classes ? of_classes : kPlannedPoints;
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

/// Operations of the members with overhead.
double whole(int64_t members, double one) {
  return static_cast<double>(members) * one + kPlanOverhead;
}

/// As many members as the budget allows.
int64_t members_within(double one) {
  for (const int64_t members : {4, 3, 2}) {
    if (static_cast<double>(members) * one <= kPlanOperations) return members;
  }
  return 1;
}

/// Number of members with all rows at once: four, or two, unless they are too slow compared with
/// batches; then 0. Two replace four before batches do, so that the time falls in two smaller
/// steps.
int64_t exact_members(Form form, double exact, double batches) {
  if (exact <= batches) return members_within(exact);
  const double beside = whole(members_within(batches), batches);
  // The ratio grows with the number of rows, except for products.
  const double room = form == Form::kFree ? kExactIsWorthOfBatches : kRoomForTwo;
  if (4 * exact <= kPlanOperations &&
      (whole(4, exact) <= kExactIsWorthOfBatches * beside || whole(2, exact) <= room * beside)) {
    return 4;
  }
  const bool two =
      2 * exact <= kPlanOperations && whole(2, exact) <= kExactIsWorthOfBatches * beside;
  return two ? 2 : 0;
}

}  // namespace

Plan usual_plan(const PlanSizes& sizes, const train::TrainOptions& training,
                std::optional<int64_t> members) {
  const auto plan_of = [&](Form form, int64_t count) {
    return Plan{form, count, static_cast<double>(count) * member_operations(form, sizes, training)};
  };
  const auto usual = [&](Form form) {
    return plan_of(form,
                   members.value_or(members_within(member_operations(form, sizes, training))));
  };
  const bool open = training.method == train::Method::kPath && training.form == Form::kAuto;
  if (!open) return usual(training.form);
  const Form exact = train::choose_form(Form::kAuto, sizes.form).form;
  if (!sizes.may_batch || sizes.form.residuals() <= kFewResiduals) return usual(exact);
  if (exact == Form::kSketch) return usual(Form::kBatch);
  const double e = member_operations(exact, sizes, training);
  const double b = member_operations(Form::kBatch, sizes, training);
  if (members) {
    const bool keeps = whole(*members, e) <= kExactIsWorthOfBatches * whole(*members, b);
    return usual(keeps ? exact : Form::kBatch);
  }
  const int64_t count = exact_members(exact, e, b);
  return count > 0 ? plan_of(exact, count) : usual(Form::kBatch);
}

}  // namespace cdt::study
