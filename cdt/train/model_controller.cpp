#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/loss_linearization.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/data.h>
#include <cdt/train/model_controller.h>

#include <algorithm>
#include <limits>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Rounding error of a deep network's outputs, in units of their precision.
constexpr double kUnitsOfRounding = 100;
/// A correct loop at a large rate needs a new design only every second or third step.
constexpr int64_t kSuspect = 10;

void require_options(const ModelControllerOptions& options) {
  require_positive(options.learning_rate, "learning_rate");
  require_positive(options.q, "q");
  require_positive(options.p, "p");
  const bool classes = options.loss->classes();
  if (!classes) loss::require_quadratic(*options.loss, "a controller");
  CDT_REQUIRE(classes || !options.smoothing, "smoothing belongs to cross-entropy, not to ",
              to_string(options.loss));
  CDT_REQUIRE(!classes || !(options.Q || options.R),
              "Q and R are for quadratic losses, not cross-entropy");
  CDT_REQUIRE(!options.controller || (options.loss->quadratic() && !options.Q && !options.R),
              "a controller of your own is for quadratic losses, and goes without Q and R");
  control::require_design(options.design);
  CDT_REQUIRE(!options.controller || options.design == "lqr",
              "a controller of your own goes without a design, got ", options.design);
  CDT_REQUIRE(!options.refresh_above || *options.refresh_above >= 0,
              "refresh_above must be 0 or more, got ", options.refresh_above.value_or(0));
}

/// Uses only its arguments (decompose_aside).
std::shared_ptr<const control::Controller> design_at(const kernel::Ntk& found, const Tensor& labels,
                                                     const ModelControllerOptions& options) {
  const double rate = options.learning_rate;
  const control::ControlProblem problem{.q = options.q,
                                        .p = options.p,
                                        .Q = options.Q.value_or(Tensor()),
                                        .R = options.R.value_or(Tensor())};
  if (options.loss->classes()) {
    const double smoothing = options.smoothing.value_or(loss::kUsualSmoothing);
    return control::design(
        control::Plant::of_classes(found.theta,
                                   loss::class_coordinates_at(found.outputs, labels, smoothing),
                                   rate, found.network_dtype),
        problem, options.design);
  }
  const auto plant = control::Plant::of(found, options.loss, rate);
  if (options.controller) {
    auto own = options.controller(plant);
    CDT_REQUIRE(own != nullptr, "expected a controller, got a null pointer");
    return own;
  }
  return control::design(plant, problem, options.design);
}

}  // namespace

ModelController::ModelController(kernel::Model model, const Tensor& x, const Tensor& y,
                                 const ModelControllerOptions& options)
    : model_(std::move(model)), options_(options) {
  require_options(options_);
  TrainOptions labels_alone;
  labels_alone.method = "adam";  // has no requirements on the loss
  labels_alone.loss = options_.loss;
  TrainData data;
  data.x = x;
  data.y = y;
  data = prepare(std::move(data), model_, labels_alone);
  x_ = data.x;
  labels_ = data.y;
  refresh();
  refreshes_ = 0;
}

void ModelController::refresh() {
  kernel::NtkOptions ntk;
  ntk.memory_bytes = options_.memory_bytes;
  const kernel::Ntk found = kernel::empirical_ntk(model_, x_, ntk);
  CDT_REQUIRE(found.outputs.sizes() == labels_.sizes(), "the model's outputs have shape ",
              found.outputs.sizes(), ", the labels ", labels_.sizes());
  controller_ = decompose_aside(found.theta, [found, labels = labels_, options = options_] {
    return design_at(found, labels, options);
  });
  theta_ = found.theta;
  epsilon_ = tol::epsilon(found.network_dtype);
  ++refreshes_;
}

double ModelController::refresh_above() const {
  return options_.refresh_above.value_or(options_.loss->classes()
                                             ? ModelControllerOptions::kUsualDrift
                                             : std::numeric_limits<double>::infinity());
}

std::string ModelController::is_it_so() const {
  return c10::str("Is the loop plain gradient descent at lr=", options_.learning_rate,
                  ", without momentum, on the ", to_string(options_.loss),
                  " loss of all of x, its rows in the order of x?");
}

/// y_hat as [r, n_L] in float64; throws if it cannot be the outputs on all of x.
Tensor ModelController::outputs_of(const Tensor& y_hat) const {
  CDT_REQUIRE(!y_hat.is_complex(), "augment takes real outputs, got ", y_hat.scalar_type(),
              "; a model may return torch.view_as_real(outputs)");
  require_floating(y_hat, "y_hat");
  CDT_REQUIRE(y_hat.numel() == labels_.numel(), "augment takes the model's outputs on all of x, ",
              labels_.numel(), " numbers, got ", y_hat.numel(),
              ": the controller acts on all samples at once; for mini-batches use guarded "
              "training");
  CDT_REQUIRE(y_hat.dim() == 0 || y_hat.size(0) == labels_.size(0),
              "augment takes the model's outputs on all of x, of shape ", labels_.sizes(),
              ", samples along the first dimension, got ", y_hat.sizes());
  const Tensor outputs = y_hat.detach().to(labels_.options()).reshape(labels_.sizes());
  if (torch::isfinite(outputs).all().item<bool>()) return outputs;
  const bool renewed = std::isfinite(refresh_above());
  throw NumericalError(c10::str(
      "the model's outputs are not finite: the loop diverged at lr=", options_.learning_rate,
      " after ", refreshes_, " refreshes. ",
      renewed ? is_it_so() + " If it is, take a smaller lr"
              : "Training has moved the kernel: refresh_above=0.5 redesigns the "
                "controller in time"));
}

std::optional<double> ModelController::drift() const {
  if (!before_ || !last_) return std::nullopt;
  const Tensor& outputs = last_->outputs;
  const Tensor gradient = dynamics::loss_gradient(options_.loss, before_->outputs, before_->labels);
  const Tensor expected = before_->theta.mv(gradient.reshape({-1})).mul_(-options_.learning_rate);
  const Tensor taken = (outputs - before_->outputs).reshape({-1});
  const double rounding = kUnitsOfRounding * epsilon_ * outputs.norm().item<double>();
  const double beyond = (taken - expected).norm().item<double>() - rounding;
  const double length = std::max(taken.norm().item<double>(), std::numeric_limits<double>::min());
  return std::max(beyond, 0.0) / length;
}

void ModelController::renew_if_off() {
  warning_.clear();
  const double limit = refresh_above();
  const auto found = drift();
  const bool off = found && *found > limit;
  in_a_row_ = off ? in_a_row_ + 1 : 0;
  if (off) refresh();
  if (in_a_row_ == kSuspect) {
    warning_ = c10::str("each of the last ", kSuspect,
                        " steps differed from what the controller expected. ", is_it_so());
  }
}

Tensor ModelController::steered(const Tensor& y_hat) const {
  if (options_.loss->classes()) {
    return controller_->augment(y_hat.reshape(labels_.sizes())).view(y_hat.sizes());
  }
  return controller_->augment(y_hat, labels_.view(y_hat.sizes()));
}

Tensor ModelController::augment(const Tensor& y_hat) {
  const Tensor outputs = outputs_of(y_hat);
  before_ = std::move(last_);
  last_ = Look{outputs, outputs, theta_};
  renew_if_off();
  const Tensor labels = steered(y_hat);
  last_ = Look{outputs, labels.to(torch::kFloat64).reshape(outputs.sizes()), theta_};
  return labels;
}

void ModelController::set_learning_rate(double rate) {
  require_positive(rate, "learning_rate");
  options_.learning_rate = rate;
  before_.reset();
  last_.reset();
  refresh();
}

double ModelController::closed_loop_radius() const {
  const control::Known radius = controller_->certificate().radius;
  return radius.exact() ? radius.value : radius.upper;
}

control::Certificate ModelController::certificate() const {
  const loss::ClassCoordinates* classes = controller_->plant().classes();
  return controller_->certificate(classes ? classes->kernel(theta_) : theta_);
}

Tensor ModelController::gain() const {
  if (const auto* classes = controller_->plant().classes()) {
    return classes->scaled(controller_->matrix());
  }
  Tensor K = controller_->gain_matrix();
  CDT_REQUIRE(K.defined(), "this controller is no gain matrix");
  return K;
}

}  // namespace cdt::train
