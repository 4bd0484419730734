#include <cdt/analysis/stability.h>
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

using control::CrossEntropyController;
using control::GeneralController;
using control::SpectralController;
using loss::LossPtr;
using torch::Tensor;

/// Outputs of a deep network differ by rounding up to so many units of their precision.
constexpr double kUnitsOfRounding = 100;
/// A sound loop at a large rate needs a new design every second or third step.
constexpr int64_t kSuspect = 10;

/// Overloads for std::visit.
template <class... Each>
struct Cases : Each... {
  using Each::operator()...;
};

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
  CDT_REQUIRE(!options.refresh_above || *options.refresh_above >= 0,
              "refresh_above must be 0 or more, got ", options.refresh_above.value_or(0));
}

/// Of Θ, where the outputs are [r, n_L]; works on what it is given alone (decompose_aside).
ModelController::Design design_at(const Tensor& theta, const Tensor& outputs, const Tensor& labels,
                                  torch::ScalarType network,
                                  const ModelControllerOptions& options) {
  if (options.loss->classes()) {
    control::CrossEntropyOptions classes;
    classes.cost = control::CrossEntropyOptions::Cost::kLoss;  // as training, in closed form
    classes.q = options.q;
    classes.rho = options.p;
    classes.smoothing = options.smoothing.value_or(control::kUsualSmoothing);
    classes.network_dtype = network;
    return control::design_cross_entropy(theta, outputs, labels, options.learning_rate, classes);
  }
  const int64_t n = theta.size(0);
  const double scale = loss::step_scale(options.learning_rate, options.loss, n);
  const auto modes = dynamics::decompose(theta, tol::rank_of_computed(n, network));
  if (!options.Q && !options.R) {
    return control::design_spectral(modes, scale, {options.q, options.p, {}, {}});
  }
  const auto weight = [&](const std::optional<Tensor>& given, double scalar) {
    return given ? given->to(theta.options()) : torch::full({n}, scalar, theta.options());
  };
  return control::design_general(modes, scale, weight(options.Q, options.q),
                                 weight(options.R, options.p));
}

}  // namespace

ModelController::ModelController(kernel::Model model, const Tensor& x, const Tensor& y,
                                 const ModelControllerOptions& options)
    : model_(std::move(model)), options_(options) {
  require_options(options_);
  TrainOptions labels_alone;
  labels_alone.method = Method::kAdam;  // asks nothing of the loss
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
  const Tensor outputs = found.outputs.to(torch::kFloat64);
  design_ = decompose_aside(found.theta, [theta = found.theta, outputs, labels = labels_,
                                          network = found.network_dtype, options = options_] {
    return design_at(theta, outputs, labels, network, options);
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

/// [r, n_L] in float64, of what can be outputs on all of x.
Tensor ModelController::outputs_of(const Tensor& y_hat) const {
  CDT_REQUIRE(!y_hat.is_complex(), "augment takes real outputs, got ", y_hat.scalar_type(),
              "; a model may return torch.view_as_real(outputs)");
  require_floating(y_hat, "y_hat");
  CDT_REQUIRE(y_hat.numel() == labels_.numel(), "augment takes the model's outputs on all of x, ",
              labels_.numel(), " numbers, but ", y_hat.numel(),
              " came: the controller acts on all samples at once; for mini-batches take guarded "
              "training");
  CDT_REQUIRE(y_hat.dim() == 0 || y_hat.size(0) == labels_.size(0),
              "augment takes the model's outputs on all of x, of shape ", labels_.sizes(),
              ", samples along the first dimension, got ", y_hat.sizes());
  const Tensor outputs = y_hat.detach().to(labels_.options()).reshape(labels_.sizes());
  if (torch::isfinite(outputs).all().item<bool>()) return outputs;
  const bool renewed = std::isfinite(refresh_above());
  throw NumericalError(c10::str(
      "the model's outputs are no longer finite: the loop has diverged at lr=",
      options_.learning_rate, " after ", refreshes_, " refreshes. ",
      renewed ? is_it_so() + " If it is, take a smaller lr"
              : "Training has moved the kernel away from the one that the controller was designed "
                "for: refresh_above=0.5 designs it anew in time"));
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
                        " steps went elsewhere than the controller had expected. ", is_it_so());
  }
}

Tensor ModelController::steered(const Tensor& y_hat) const {
  if (const auto* classes = std::get_if<CrossEntropyController>(&design_)) {
    return classes->augment(y_hat.reshape(labels_.sizes())).view(y_hat.sizes());
  }
  const Tensor labels = labels_.view(y_hat.sizes());
  if (const auto* general = std::get_if<GeneralController>(&design_)) {
    return general->augment(y_hat, labels);
  }
  return std::get<SpectralController>(design_).augment(y_hat, labels);
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
  return std::visit(
      Cases{[](const SpectralController& found) { return found.closed_loop_radius(); },
            [](const auto& found) { return found.closed_loop_radius; }},
      design_);
}

LoopCertificate ModelController::certificate() const {
  const double radius = closed_loop_radius();
  return std::visit(
      Cases{[&](const SpectralController& found) -> LoopCertificate {
              return {radius, control::riccati_residual(found, theta_),
                      analysis::kernel_margins(found).cdt};
            },
            [&](const GeneralController& found) -> LoopCertificate {
              const double scale =
                  loss::step_scale(options_.learning_rate, options_.loss, theta_.size(0));
              return {radius, found.relative_residual, analysis::kernel_margins(found, scale).cdt};
            },
            [&](const CrossEntropyController& found) -> LoopCertificate {
              const dynamics::Modes& modes = found.plant.modes;
              const auto modal = control::design_spectral(
                  modes, options_.learning_rate / static_cast<double>(found.plant.samples),
                  {options_.q, options_.p, {}, {}});
              const Tensor matrix = (modes.vectors * modes.values).mm(modes.vectors.t());
              return {radius, control::riccati_residual(modal, (matrix + matrix.t()) / 2),
                      analysis::kernel_margins(modal).cdt};
            }},
      design_);
}

Tensor ModelController::gain() const {
  return std::visit(Cases{[](const SpectralController& found) { return found.gain_matrix(); },
                          [](const GeneralController& found) { return found.K; },
                          [](const CrossEntropyController& found) { return found.steering; }},
                    design_);
}

}  // namespace cdt::train
