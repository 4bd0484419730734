#include <cdt/core/error.h>
#include <cdt/core/text/numbers.h>
#include <cdt/kernel/record/own_memory.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/method.h>
#include <cdt/train/setup.h>

#include <algorithm>
#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

const TrainOptions& checked(const TrainOptions& options) {
  require_valid(options);
  return options;
}

/// Undefined `rows` means all.
Tensor rows_of(const Tensor& all, const Tensor& rows) {
  return rows.defined() ? all.index_select(0, rows.to(all.device())) : all;
}

Tensor weights_of(const TrainData& data, const Tensor& rows) {
  if (!data.sample_weights.defined() && !data.output_weights.defined()) return {};
  const auto ones = [&](int64_t count) { return torch::ones({count}, data.y.options()); };
  const Tensor samples = data.sample_weights.defined() ? data.sample_weights : ones(data.x.size(0));
  const Tensor outputs = data.output_weights.defined() ? data.output_weights : ones(data.y.size(1));
  return torch::outer(rows_of(samples, rows), outputs).reshape({-1});
}

}  // namespace

Setup::Setup(kernel::Model model_, TrainData data_, const TrainOptions& options_,
             std::shared_ptr<kernel::StepEngine> engine_)
    : model(std::move(model_)),
      options(checked(options_)),
      data(prepare(std::move(data_), model, options)),
      loss(smoothing_of(options) > 0 ? options.loss->smoothed(smoothing_of(options))
                                     : options.loss),
      batches(step_batches(options, data.x.size(0), data.y.size(1))),
      engine(engine_ ? std::move(engine_) : std::make_shared<kernel::GraphEngine>(model)) {
  kernel::require_own_memory(model);
  require_shareable();
  samples = static_cast<int64_t>(data.ranks->sum(static_cast<double>(data.x.size(0))));
}

void Setup::require_shareable() const {
  if (!data.ranks->several()) return;
  const auto refuse = [](const std::string& what) {
    throw InvalidArgument(c10::str(
        "workers share the rows of steps by the forms primal, sketch and free, of the goal predict "
        "or of guarded training that finds its own rate; not ",
        what));
  };
  if (!options.method->solves) refuse("of method " + options.method.name());
  if (!options.loss->traits().has_curvature()) refuse("of the loss " + to_string(options.loss));
  if (options.weight_decay > 0) refuse("with weight decay");
  if (!batches.all() || options.form->batches) refuse("in batches");
}

Tensor Setup::inputs(int64_t step) const { return rows_of(data.x, batches.rows(step)); }
Tensor Setup::labels(int64_t step) const { return rows_of(data.y, batches.rows(step)); }

Tensor Setup::weights(int64_t step) const { return weights_of(data, batches.rows(step)); }

/// Whether a pass is only evaluated. Steps of batches, and those on more than kMostDual labels,
/// come from forms that move the parameters themselves, so their passes need no data for a step.
bool Setup::only_looks(const Tensor& labels) const {
  if (options.form->batches) return true;
  const bool by_forms = options.method->solves && !options.learning_rate;
  return by_forms && engine->repeatable() && labels.numel() > kMostDual;
}

Pass Setup::forward(int64_t step) const {
  Pass pass = forward(batches.rows(step));
  pass.batch = batches.id(step);
  return pass;
}

Pass Setup::forward(const Tensor& rows) const {
  Pass pass;
  pass.x = rows_of(data.x, rows);
  pass.labels = rows_of(data.y, rows);
  pass.weights = weights_of(data, rows);
  pass.step = only_looks(pass.labels)
                  ? kernel::look(engine, pass.x)
                  : engine->forward(pass.x, options.method->gradients ? kernel::StepUse::kGradients
                                                                      : kernel::StepUse::kDescent);
  const Tensor outputs = pass.step->outputs();
  const auto shape = pass.labels.sizes();
  CDT_REQUIRE(outputs.numel() == pass.labels.numel() && outputs.size(0) == shape[0],
              "the model's outputs have shape ", outputs.sizes(), ", the labels ", shape);
  pass.values = outputs.reshape(shape).to(torch::kFloat64);
  const Measured here = measured_together(pass.values, pass.labels, pass.weights);
  pass.found = here.found;
  pass.objective = here.objective;
  return pass;
}

Tensor Setup::numbers(const Tensor& outputs, const Tensor& labels, const Tensor& weights) const {
  const Tensor sums = loss->sums(outputs, labels, weights);
  return options.weight_decay > 0 ? torch::cat({sums, parameter_square(model).view({1})}) : sums;
}

Measured Setup::measured(std::span<const double> numbers, const Tensor& labels) const {
  return measured_of(numbers, labels.size(0), labels.size(1));
}

Measured Setup::measured_together(const Tensor& outputs, const Tensor& labels,
                                  const Tensor& weights) const {
  const Tensor own = numbers(outputs, labels, weights);
  if (!data.ranks->several()) return measured(to_vector(own), labels);
  // Each rank also sends the sum of squares of its parameters: equal parameters give equal bits.
  const Tensor with_parameters = torch::cat({own.cpu(), parameter_square(model).cpu().view({1})});
  const Tensor all = data.ranks->gather(with_parameters.unsqueeze(0));
  const Tensor squares = all.select(1, own.size(0)).contiguous();
  for (int64_t k = 1; k < data.ranks->size(); ++k) {
    const double first = squares[0].item<double>(), other = squares[k].item<double>();
    // Parameters that are not finite are so on every rank.
    if (first == other || (!std::isfinite(first) && !std::isfinite(other))) continue;
    throw NumericalError(
        c10::str("rank ", k,
                 " has other parameters than rank 0: their processors or libraries "
                 "round differently; all ranks must run on the same kind of machine"));
  }
  return measured_of(to_vector(all.narrow(1, 0, own.size(0)).sum(0)), samples, labels.size(1));
}

Measured Setup::measured_of(std::span<const double> numbers, int64_t rows, int64_t outputs) const {
  const double decay = options.weight_decay;
  const double penalty = decay > 0 ? decay / 2 * numbers.back() : 0;
  const auto sums = decay > 0 ? numbers.first(numbers.size() - 1) : numbers;
  const loss::Assessment found = loss->assessment(sums, rows, outputs);
  return {found, found.objective + penalty};
}

Whole Setup::whole() const {
  const torch::NoGradGuard no_graph;
  const Tensor outputs = engine->evaluate(data.x).reshape(data.y.sizes()).to(torch::kFloat64);
  const Measured here = measured_together(outputs, data.y, weights_of(data, {}));
  return {here.found.loss, here.objective};
}

double Setup::loss_of(const Tensor& x, const Tensor& y) const {
  const torch::NoGradGuard no_graph;
  const Tensor outputs =
      evaluate_together(*data.ranks, x, [&](const Tensor& rows) { return engine->evaluate(rows); });
  return loss::assess(*loss, outputs.reshape(y.sizes()).to(torch::kFloat64), y).loss;
}

void copy_parameters(const kernel::Model& model, std::vector<Tensor>& to) {
  const torch::NoGradGuard no_graph;
  const auto& parameters = model.parameters();
  if (to.empty()) {
    for (const Tensor& parameter : parameters) to.push_back(torch::empty_like(parameter));
  }
  for (size_t i = 0; i < parameters.size(); ++i) to[i].copy_(parameters[i]);
}

void set_parameters(const kernel::Model& model, const std::vector<Tensor>& from) {
  const torch::NoGradGuard no_graph;
  for (size_t i = 0; i < from.size(); ++i) Tensor(model.parameters()[i]).copy_(from[i]);
}

bool has_parameters(const kernel::Model& model, const std::vector<Tensor>& values) {
  return std::ranges::equal(model.parameters(), values, [](const Tensor& mine, const Tensor& kept) {
    return mine.sizes() == kept.sizes() && mine.scalar_type() == kept.scalar_type() &&
           mine.device() == kept.device() && mine.detach().equal(kept);
  });
}

void move_parameters(const kernel::Model& model, const Tensor& delta) {
  const torch::NoGradGuard no_graph;
  const auto moves = kernel::unflatten(model, delta);
  for (size_t i = 0; i < moves.size(); ++i) Tensor(model.parameters()[i]).add_(moves[i]);
}

void note_moved(const kernel::Model& model) {
  for (const Tensor& parameter : model.parameters()) {
    parameter.unsafeGetTensorImpl()->bump_version();
  }
}

Tensor parameter_square(const kernel::Model& model) {
  const torch::NoGradGuard no_graph;
  std::vector<Tensor> squares;
  for (const Tensor& parameter : model.parameters()) {
    squares.push_back(parameter.to(torch::kFloat64).square().sum());
  }
  return torch::stack(squares).sum();
}

}  // namespace cdt::train
