#include <cdt/control/apply/solve.h>
#include <cdt/core/error.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/forms/form_solver.h>
#include <cdt/train/loop/feedback_source.h>
#include <cdt/train/method.h>

#include <cmath>
#include <optional>
#include <utility>

namespace cdt::train {
namespace {

using control::Plant;
using torch::Tensor;

/// Stopping share of conjugate gradients on classes, as for a path.
constexpr double kLeastGainOfClasses = 0.003;
/// Shaped weights must be positive; this is effectively zero.
constexpr double kLeastShare = 1e-9;

Tensor kernel_of(const dynamics::Modes& modes) {
  return (modes.vectors * modes.values).mm(modes.vectors.t());
}

/// Lower weight on slow modes: the factor λ/(λ + shape·λ_max) on q, for the modes of `plant`.
std::function<Tensor(const Tensor&)> shape_of(const Plant& plant, double shape) {
  const dynamics::Modes& modes = plant.modes();
  if (shape == 0 || modes.rank == 0) return {};
  return [values = modes.values, largest = modes.largest(), scale = plant.step_scale(),
          ridge = plant.ridge(), shape](const Tensor& s) {
    const bool own = s.sizes() == values.sizes();  // the plant's own steps: exact
    const Tensor share = own ? values / largest : (s / scale - ridge).clamp_min(0) / largest;
    return (share / (share + shape)).clamp_min(kLeastShare);
  };
}

class Source : public FeedbackSource {
 public:
  Source(std::shared_ptr<const Setup> setup, const FeedbackNeeds& needs);

  std::shared_ptr<Feedback> at(int64_t step, const Pass& pass, const Feedback* before) override;
  std::shared_ptr<Feedback> saved(int64_t step, const SavedState& state) const override;
  /// The kernel of all outputs serves several steps. Solved steps reuse it only with the dual form
  /// and a quadratic loss.
  bool lasts() const override {
    return !solves() || (choice_.form->one_kernel && options().loss->quadratic());
  }
  void adopt(const dynamics::Modes& modes) override {
    if (modes.complete()) adopted_ = modes;
  }
  void wants_more(int64_t step) override {
    const FormSizes sizes = form_sizes(*setup_, step);
    sketch_rows_ = more_sketch_rows(sketch_rows_, sizes.samples, sizes.outputs);
  }
  FormUsed form() const override { return {choice_.form, choice_.why}; }
  void save(SavedState& state) const override {
    if (choice_.form->sketches) state.values["sketch_rows"] = sketch_rows_;
  }
  void restore(const SavedState& state) override {
    // Older checkpoints have no such value.
    if (state.values.contains("sketch_rows")) sketch_rows_ = state.count("sketch_rows");
    adopted_.reset();
  }

 private:
  const TrainOptions& options() const { return setup_->options; }
  /// Whether a form solves the steps, rather than a gain steering them.
  bool solves() const { return !choice_.form->open; }
  /// Whether weights enter Q, as in the paper, and not the coordinates.
  bool weighs_problem() const {
    return options().method->weights == MethodTraits::Weights::kCost && !options().controller &&
           options().loss->quadratic();
  }
  double boost() const { return std::sqrt(1 + options().q / options().p); }
  bool rooted(int64_t step) const { return setup_->weights(step).defined() && !weighs_problem(); }
  /// `values` are the outputs; unused if a saved state is given.
  CoordinatesPtr coordinates(int64_t step, const Tensor& values, const SavedState* saved) const;
  std::shared_ptr<Feedback> feedback(int64_t step, CoordinatesPtr coordinates, Plant plant,
                                     const Feedback* before) const;
  /// `own`: the linearization of an engine that computes J itself.
  std::shared_ptr<Feedback> by_form(int64_t step, const Pass& pass,
                                    const kernel::LinearizationPtr& own) const;

  std::shared_ptr<const Setup> setup_;
  FeedbackNeeds needs_;
  FormChoice choice_;  ///< for steps that are solved
  int64_t sketch_rows_ = 0;
  std::optional<dynamics::Modes> adopted_;
};

Source::Source(std::shared_ptr<const Setup> setup, const FeedbackNeeds& needs)
    : setup_(std::move(setup)), needs_(needs) {
  const bool several = setup_->data.ranks->several();
  CDT_REQUIRE(!several || only_arrives(options()),
              "workers share guarded steps that find their own rate, without shaping or a look at "
              "the local model");
  CDT_REQUIRE(options().shape == 0 || !weighs_problem() || !setup_->weights(0).defined(),
              "weights of samples or outputs and spectral shaping exclude each other under method "
              "cdt, whose cost weighs errors: guarded takes both");
  if (!only_arrives(options())) return;
  const bool classes = options().loss->classes();
  const FormSizes sizes = form_sizes(*setup_);
  const int64_t modes = sizes.samples * (classes ? sizes.outputs - 1 : sizes.outputs);
  // For few modes a controller of classes exists. With weights, a form takes fewer operations.
  const bool steers = classes && !setup_->weights(0).defined() && options().form->open &&
                      !several && modes <= options().most_modes;
  if (steers) return;
  choice_ = choose_form(options().form, sizes);
  sketch_rows_ = choice_.sketch_rows;
}

CoordinatesPtr Source::coordinates(int64_t step, const Tensor& values,
                                   const SavedState* saved) const {
  const Tensor labels = setup_->labels(step);
  const Tensor weights = setup_->weights(step);
  if (!options().loss->classes()) {
    return error_coordinates(labels.reshape({-1}), rooted(step) ? weights.sqrt() : Tensor(),
                             loss::gradient_factor(options().loss, labels.numel()));
  }
  const double smoothing = setup_->loss->traits().smoothing;
  return class_coordinates(
      saved ? saved_curvature(*saved, labels, smoothing)
            : loss::class_coordinates_at(values, labels, smoothing),
      weights.defined() ? weights.view(labels.sizes()).select(1, 0) : Tensor());
}

std::shared_ptr<Feedback> Source::feedback(int64_t step, CoordinatesPtr coordinates, Plant plant,
                                           const Feedback* before) const {
  FeedbackOptions wanted;
  wanted.steers = needs_.steers;
  wanted.own = static_cast<bool>(options().controller);
  if (needs_.weight_decay > 0) {
    wanted.decay = {needs_.weight_decay, setup_->model,
                    [setup = setup_, step] { return setup->inputs(step); }};
  }
  if (wanted.own) {
    wanted.make = options().controller;
  } else if (solves() && plant.has_matrix()) {
    wanted.make = [boost = boost()](const Plant& at) {
      return std::make_unique<control::SolveController>(at, boost);
    };
  } else {
    Tensor weights;
    if (weighs_problem()) weights = setup_->weights(step);
    wanted.make = [weights, q = options().q, p = options().p, shape = options().shape,
                   name = options().design](const Plant& at) {
      control::ControlProblem problem{.q = q, .p = p, .shape = shape_of(at, shape)};
      if (weights.defined() && at.modes().rank > 0) {
        problem.Q = weights * q;
        problem.R = torch::full_like(weights, p);
      }
      return control::design(at, problem, name);
    };
  }
  if (!wanted.own) before = nullptr;
  return std::make_shared<Feedback>(std::move(coordinates), std::move(plant), std::move(wanted),
                                    before);
}

std::shared_ptr<Feedback> Source::by_form(int64_t step, const Pass& pass,
                                          const kernel::LinearizationPtr& own) const {
  RidgeOptions wanted;
  wanted.memory_bytes = options().memory_bytes;
  wanted.sketch_rows = sketch_rows_;
  wanted.seed = options().seed + static_cast<uint64_t>(step);
  if (options().loss->classes()) wanted.least_gain = kLeastGainOfClasses;
  const Residuals residuals = setup_->loss->residuals(pass.values, pass.labels, pass.weights);
  auto coordinates =
      residual_coordinates(residuals, setup_->loss, pass.labels, pass.weights, setup_->data.ranks);
  const auto make = [setup = setup_, form = choice_.form, wanted, own, x = pass.x, residuals] {
    const kernel::Model& model = setup->model;
    const auto how = linearization_for(form, wanted, model.dtype());
    return make_form(
        form, {own ? own : kernel::linearize(model, x, how), residuals, {}, setup->data.ranks},
        wanted);
  };
  const auto solver = make_form_solver(make, setup_->data.ranks);
  const Plant plant =
      Plant::of_products(coordinates->size(), solver->largest().lower, coordinates->plant(0));
  FeedbackOptions with;
  with.make = [solver, boost = boost()](const Plant& at) {
    return std::make_unique<control::SolveController>(at, boost,
                                                      [solver](const Plant&) { return solver; });
  };
  return std::make_shared<Feedback>(std::move(coordinates), plant, std::move(with));
}

std::shared_ptr<Feedback> Source::at(int64_t step, const Pass& pass, const Feedback* before) {
  // The adopted modes belong to the initial parameters only.
  const auto modes = std::exchange(adopted_, std::nullopt);
  const bool adopts = modes && lasts();
  // If the engine has its own linearization, use its kernel: forms without a kernel do not know the
  // engine's outputs.
  kernel::LinearizationPtr network;
  if (!adopts) network = setup_->engine->linearization(pass.x);
  if (solves() && network && !choice_.form->one_kernel) {
    choice_.form = "dual";
    choice_.why = "the engine of the steps has its own way to the kernel";
  }
  if (!lasts()) return by_form(step, pass, network);
  Tensor theta;
  if (network) theta = network->kernel();
  auto x = coordinates(step, pass.values, nullptr);
  const Plant::Options loop = x->plant(needs_.weight_decay);
  const bool by_matrix = solves() || options().controller;
  const double least = x->rank_tolerance(setup_->model.dtype());
  // If M = Θ, the adopted modes can be used directly.
  const bool same = !options().loss->classes() && !rooted(step);
  if (adopts && same && !by_matrix) return feedback(step, x, Plant::of_modes(*modes, loop), before);
  if (adopts) {
    theta = kernel_of(*modes);
    if (same && solves()) {
      dynamics::Modes known = *modes;
      known.rank_tolerance = least;
      return feedback(step, x, Plant::of_kernel(theta, known, loop), before);
    }
  }
  if (!theta.defined()) {
    kernel::NtkOptions ntk;
    ntk.memory_bytes = options().memory_bytes;
    theta = kernel::empirical_ntk(setup_->model, pass.x, ntk).theta;
  }
  const Tensor kernel = x->kernel(theta);
  if (by_matrix) {
    return feedback(step, x, Plant::of_kernel(kernel, least, loop), before);
  }
  return feedback(step, x, Plant::of_modes(dynamics::decompose(kernel, least), loop), before);
}

std::shared_ptr<Feedback> Source::saved(int64_t step, const SavedState& state) const {
  auto x = coordinates(step, {}, &state);
  const Plant::Options loop = x->plant(needs_.weight_decay);
  const double least = x->rank_tolerance(setup_->model.dtype());
  Plant plant = Feedback::saved_plant(state, x->size(), least, setup_->labels(step).device(), loop);
  const bool by_errors = options().loss->quadratic() && rooted(step) && !saved_weighted(state);
  if (by_errors && !plant.has_matrix()) {  // an older checkpoint: modes of Θ without weights
    const Tensor kernel = x->kernel(kernel_of(plant.modes()));
    plant = solves() ? Plant::of_kernel(kernel, least, loop)
                     : Plant::of_modes(dynamics::decompose(kernel, least), loop);
  }
  return feedback(step, x, std::move(plant), nullptr);
}

}  // namespace

std::unique_ptr<FeedbackSource> make_feedback_source(std::shared_ptr<const Setup> setup,
                                                     const FeedbackNeeds& needs) {
  return std::make_unique<Source>(std::move(setup), needs);
}

}  // namespace cdt::train
