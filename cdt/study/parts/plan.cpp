#include <cdt/study/learn.h>
#include <cdt/study/parts/plan.h>

#include <algorithm>

namespace cdt::study {
namespace {

using train::Form;

/// Points of a walk and its refit together, as they were on tables of 500 to 5000 rows; of classes,
/// where noise begins early, both were 13 to 26 on eleven tables, 18 in the mean.
constexpr double kPlannedPoints = 30;
constexpr double kPlannedOfClasses = 20;
/// Of their batches, which go as far in fewer.
constexpr double kPlannedBatchesOfClasses = 12;
/// Of an optimizer.
constexpr double kPlannedEpochs = 150;
/// Factors of the dual form a point: as many steps are taken back as are kept.
constexpr double kFactors = 2;
/// Passes over all rows beside a form's own: the kernel's self-check, trials, evaluation.
constexpr double kPlannedPasses = 4;
/// Conjugate gradients and what is around them, a point: 24 to 75 on four tables.
constexpr double kFreePasses = 40;
/// Two exact members take the place of four while they take so much of what batches do, and up to
/// kExactIsWorthOfBatches: some sixteen per cent more rows.
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
  if (!training.method->path) return kPlannedEpochs * pass;
  if (form->open) form = train::choose_form(form, sizes.form).form;
  const bool classes = training.loss->classes();
  const double of_classes = form->batches ? kPlannedBatchesOfClasses : kPlannedOfClasses;
  const double points = classes ? of_classes : kPlannedPoints;
  if (form->products) return points * kFreePasses * pass;
  train::FormSizes counted = sizes.form;
  counted.batch = batch_of_plan(sizes, training);
  double operations = train::form_cost(form, counted).operations;
  if (form->one_kernel) {
    const auto n = static_cast<double>(sizes.form.residuals());
    operations += (kFactors - 1) * 2 * n * n * n / 3;
  }
  return points * (operations + (form->batches ? 0 : kPlannedPasses * pass));
}

namespace {

/// Members and what is around them.
double whole(int64_t members, double one) {
  return static_cast<double>(members) * one + kPlanOverhead;
}

/// As many as the budget allows.
int64_t members_within(double one) {
  for (const int64_t members : {4, 3, 2}) {
    if (static_cast<double>(members) * one <= kPlanOperations) return members;
  }
  return 1;
}

/// Of one that takes all rows at once: four members, or two, while they are not too slow beside
/// batches; 0 beyond. Before batches come, two take the place of four: so the time halves, and
/// halves again, and no step is larger.
int64_t exact_members(Form form, double exact, double batches) {
  if (exact <= batches) return members_within(exact);
  const double beside = whole(members_within(batches), batches);
  // The ratio grows with the rows, but for products.
  const double room = form->products ? kExactIsWorthOfBatches : kRoomForTwo;
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
  const bool open = training.method->path && training.form->open;
  if (!open) return usual(training.form);
  const Form exact = train::choose_form("auto", sizes.form).form;
  if (!sizes.may_batch || sizes.form.residuals() <= kFewResiduals) return usual(exact);
  if (exact->sketches) return usual("batch");
  const double e = member_operations(exact, sizes, training);
  const double b = member_operations("batch", sizes, training);
  if (members) {
    const bool keeps = whole(*members, e) <= kExactIsWorthOfBatches * whole(*members, b);
    return usual(keeps ? exact : Form("batch"));
  }
  const int64_t count = exact_members(exact, e, b);
  return count > 0 ? plan_of(exact, count) : usual("batch");
}

}  // namespace cdt::study
