// The trainer's state as one safetensors file, and back.
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/train/trainer.h>

#include <nlohmann/json.hpp>

namespace cdt::train {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr const char* kFormat = "cdt-checkpoint-1";

/// JSON has no NaN.
json number(double value) { return std::isnan(value) ? json() : json(value); }
double number(const json& value) { return value.is_null() ? kUnknown : value.get<double>(); }

void put(SafeTensors& content, const std::string& name, const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    content.tensors[c10::str(name, ".", i)] = tensors[i].detach().clone();
  }
}

const Tensor& at(const SafeTensors& content, const std::string& name) {
  const auto found = content.tensors.find(name);
  CDT_REQUIRE(found != content.tensors.end(), "the checkpoint has no tensor '", name, "'");
  return found->second;
}

/// Tensors shaped like the model's parameters.
std::vector<Tensor> get(const SafeTensors& content, const std::string& name,
                        const kernel::Model& model) {
  std::vector<Tensor> tensors;
  for (const Tensor& parameter : model.parameters()) {
    const Tensor tensor = at(content, c10::str(name, ".", tensors.size()));
    CDT_REQUIRE(tensor.sizes() == parameter.sizes() && tensor.dtype() == parameter.dtype(),
                "the checkpoint is of another model: a parameter must be ", parameter.dtype(), " ",
                parameter.sizes(), ", not ", tensor.dtype(), " ", tensor.sizes());
    tensors.push_back(tensor.to(parameter.device()));
  }
  return tensors;
}

}  // namespace

SafeTensors Trainer::checkpoint() const {
  SafeTensors content;
  put(content, "parameters", model_.parameters());
  put(content, "best", best_);
  if (optimizer_) content.tensors["optimizer"] = optimizer_->save();
  json plans = json::array();
  for (const auto& [batch, plan] : plans_) {
    const std::string name = c10::str("plan.", batch);
    const auto& modes = plan.feedback->modes();
    if (const Tensor curvature = plan.feedback->curvature(); curvature.defined()) {
      content.tensors[name + ".curvature"] = curvature;
    }
    content.tensors[name + ".eigenvalues"] = modes.values;
    content.tensors[name + ".eigenvectors"] = modes.vectors;
    if (keeps_origin()) {
      content.tensors[name + ".outputs"] = plan.outputs;
      put(content, name + ".parameters", plan.parameters);
    }
    plans.push_back({{"batch", batch},
                     {"step", plan.step},
                     {"rate", plan.guard.rate},
                     {"start_rate", plan.guard.start_rate},
                     {"good_steps", plan.guard.good_steps},
                     {"shrinks", plan.guard.shrinks},
                     {"failures", plan.guard.failures},
                     {"wary_steps", plan.guard.wary_steps},
                     {"start_error", plan.start_error},
                     {"bound", plan.bound},
                     {"hessian_norm", plan.hessian_norm},
                     {"stale", plan.stale},
                     {"last_used", plan.last_used},
                     {"rank", modes.rank},
                     {"rank_tolerance", modes.rank_tolerance},
                     {"smallest", modes.smallest}});
  }
  const json state{{"method", to_string(options_.method)},
                   {"step", step_},
                   {"learning_rate", number(learning_rate_)},
                   {"seconds", seconds()},
                   {"linearizations", linearizations_},
                   {"rejected", rejected_},
                   {"best_step", best_step_},
                   {"best_val_loss", number(best_val_loss_)},
                   {"plateau_step", plateau_step_},
                   {"plateau_loss", number(plateau_loss_)},
                   {"has_best", !best_.empty()},
                   {"pending_refreshed", pending_.refreshed},
                   {"pending_rejected", pending_.rejected},
                   {"plans", plans}};
  content.metadata = {{"format", kFormat}, {"state", state.dump()}, {"history", to_csv(history_)}};
  return content;
}

void Trainer::restore(const SafeTensors& content) {
  const auto format = content.metadata.find("format");
  CDT_REQUIRE(format != content.metadata.end() && format->second == kFormat &&
                  content.metadata.contains("state") && content.metadata.contains("history"),
              "expected a checkpoint of the format ", kFormat);
  try {
    const json state = json::parse(content.metadata.at("state"));
    CDT_REQUIRE(state.at("method") == to_string(options_.method), "the checkpoint is of method ",
                state.at("method").get<std::string>(), ", not ", to_string(options_.method));
    const auto parameters = get(content, "parameters", model_);
    if (state.at("has_best").get<bool>()) best_ = get(content, "best", model_);
    history_ = parse_history(content.metadata.at("history"));
    step_ = state.at("step");
    learning_rate_ = number(state.at("learning_rate"));
    earlier_seconds_ = state.at("seconds");
    linearizations_ = state.at("linearizations");
    rejected_ = state.at("rejected");
    best_step_ = state.at("best_step");
    best_val_loss_ = number(state.at("best_val_loss"));
    if (options_.patience > 0 && best_.empty()) best_step_ = -1;  // none kept: look anew
    pending_.refreshed = state.at("pending_refreshed");
    pending_.rejected = state.at("pending_rejected");
    plateau_step_ = state.at("plateau_step");
    plateau_loss_ = number(state.at("plateau_loss"));
    plans_.clear();
    for (const json& saved : state.at("plans")) {
      const int64_t batch = saved.at("batch");
      const std::string name = c10::str("plan.", batch);
      dynamics::Modes modes;
      modes.values = at(content, name + ".eigenvalues").to(model_.device());
      modes.vectors = at(content, name + ".eigenvectors").to(model_.device());
      const int64_t n = modes.size();
      require_shape(modes.vectors, {n, n}, name + ".eigenvectors");
      modes.rank = saved.at("rank");
      modes.rank_tolerance = saved.at("rank_tolerance");
      modes.smallest = saved.at("smallest");
      Tensor curvature;
      if (!dynamics::is_quadratic(options_.loss)) {
        curvature = at(content, name + ".curvature").to(model_.device());
      }
      Plan plan;
      plan.step = saved.at("step");
      plan.feedback = make_feedback(modes, curvature, plan.step);
      plan.guard = {saved.at("rate"),    saved.at("start_rate"), saved.at("good_steps"),
                    saved.at("shrinks"), saved.at("failures"),   saved.at("wary_steps")};
      plan.start_error = saved.at("start_error");
      plan.bound = saved.at("bound");
      plan.hessian_norm = saved.at("hessian_norm");
      plan.stale = saved.at("stale");
      plan.last_used = saved.at("last_used");
      plan.feedback->design(plan.guard.rate);
      if (keeps_origin()) {
        plan.outputs = at(content, name + ".outputs").to(model_.device());
        plan.parameters = get(content, name + ".parameters", model_);
      }
      plans_.insert_or_assign(batch, std::move(plan));
    }
    if (optimizer_) optimizer_->load(at(content, "optimizer"));
    set_parameters(parameters);
  } catch (const json::exception& error) {
    throw InvalidArgument(c10::str("the checkpoint's state cannot be read: ", error.what()));
  }
  adopted_.reset();
}

}  // namespace cdt::train
