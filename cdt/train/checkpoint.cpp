// The trainer's state as one safetensors file, and back: tensors by name, the rest as JSON.
#include <cdt/core/error.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/train/loop/fingerprint.h>
#include <cdt/train/trainer.h>

#include <cmath>

namespace cdt::train {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr const char* kFormat = "cdt-checkpoint-1";

json to_json(const SavedState& state) {
  json text = json::object();
  for (const auto& [name, value] : state.values) {
    // JSON has no NaN: it becomes null.
    std::visit([&, &key = name](auto number) { text[key] = number; }, value);
  }
  for (const auto& [name, items] : state.lists) {
    json& list = text[name] = json::array();
    for (const SavedState& item : items) list.push_back(to_json(item));
  }
  return text;
}

/// Numbers, booleans and lists of states; the method's name is the only string.
SavedState from_json(const JsonValue& text) {
  SavedState state;
  for (const auto& [name, value] : text.members()) {
    const auto& raw = value.raw();
    if (raw.is_boolean()) {
      state.values[name] = value.flag();
    } else if (raw.is_number_integer()) {
      state.values[name] = value.whole();
    } else if (raw.is_number()) {
      state.values[name] = value.number();
    } else if (raw.is_null()) {
      state.values[name] = kUnknown;
    } else if (raw.is_array()) {
      auto& list = state.lists[name];
      for (const JsonValue& item : value.list()) list.push_back(from_json(item));
    } else if (name != "method") {
      value.refuse("a number, true, false or a list");
    }
  }
  return state;
}

}  // namespace

SafeTensors Trainer::checkpoint() const {
  SavedState state;
  state.values = {{"linearizations", int64_t{0}}, {"rejected", int64_t{0}}};
  state.lists["plans"];  // part of the format for all methods
  method_->save(state);
  rules_.save(state);
  if (epochs_) epochs_->save(state);
  state.put("parameters", last_.empty() ? setup_->model.parameters() : last_);
  state.put("best", best_);
  state.values["has_best"] = !best_.empty();
  state.values["step"] = step_;
  state.values["seconds"] = seconds();
  state.values["pending_refreshed"] = pending_.refreshed;
  state.values["pending_rejected"] = pending_.rejected;
  if (fingerprint_.empty()) fingerprint_ = fingerprint(*setup_);
  json text = to_json(state);
  text["method"] = setup_->options.method.name();
  // Omit the final row: a longer run continues from here.
  std::vector<StepRecord> history = history_;
  if (over_) history.pop_back();
  SafeTensors content;
  content.tensors = std::move(state.tensors);
  content.metadata = {{"format", kFormat},
                      {"state", text.dump()},
                      {"history", to_csv(history)},
                      {"fingerprint", fingerprint_}};
  if (!first_.empty()) content.metadata["controller"] = to_json_value(first_).dump();
  // At the end the model may have the best parameters instead of the last.
  const std::string outputs = last_.empty() ? probe(*setup_) : "";
  if (!outputs.empty()) content.metadata["probe"] = outputs;
  return content;
}

void Trainer::restore(const SafeTensors& content) {
  const auto format = content.metadata.find("format");
  CDT_REQUIRE(format != content.metadata.end() && format->second == kFormat &&
                  content.metadata.contains("state") && content.metadata.contains("history"),
              "expected a checkpoint of the format ", kFormat);
  const JsonValue text = parse_json(content.metadata.at("state"), "the checkpoint's state");
  const std::string method = text["method"].text();
  SavedState state = from_json(text);
  const Method own = setup_->options.method;
  CDT_REQUIRE(method == own.name(), "the checkpoint must be of method ", own.name(), ", got ",
              method);
  // Older checkpoints have no fingerprint.
  if (const auto saved = content.metadata.find("fingerprint"); saved != content.metadata.end()) {
    if (fingerprint_.empty()) fingerprint_ = fingerprint(*setup_);
    require_same_run(saved->second, fingerprint_);
  }
  state.tensors = content.tensors;
  // Read everything before changing anything.
  const auto parameters = state.tensors_like("parameters", setup_->model.parameters());
  std::vector<torch::Tensor> best;
  if (state.flag("has_best")) best = state.tensors_like("best", setup_->model.parameters());
  auto history = parse_history(content.metadata.at("history"));
  const int64_t step = state.count("step");
  CDT_REQUIRE(static_cast<int64_t>(history.size()) == step &&
                  (history.empty() || history.back().step == step - 1),
              "the checkpoint belongs to step ", step, ", its history does not");
  StoppingRules rules(setup_->options);
  rules.restore(state);
  if (setup_->options.patience > 0 && best.empty()) rules.forget_best();
  // The format has these for all methods.
  for (const char* name : {"linearizations", "rejected"}) state.count(name);
  state.list("plans");
  auto restored = own->make(setup_);
  restored->restore(state);
  std::optional<EpochGuard> epochs;
  if (epochs_) {
    epochs.emplace(setup_);
    epochs->restore(state);
    restored->damp(epochs->share());
  }
  StepRecord pending;
  pending.refreshed = state.count("pending_refreshed");
  pending.rejected = state.count("pending_rejected");
  const double seconds = state.non_negative("seconds");
  control::Certificate first;
  if (const auto saved = content.metadata.find("controller"); saved != content.metadata.end()) {
    first = from_json_value<control::Certificate>(
        parse_json(saved->second, "the checkpoint's controller"));
  }
  if (const auto saved = content.metadata.find("probe"); saved != content.metadata.end()) {
    std::vector<Tensor> present;
    copy_parameters(setup_->model, present);
    set_parameters(setup_->model, parameters);
    try {
      require_same_model(saved->second, *setup_);
    } catch (...) {
      set_parameters(setup_->model, present);
      throw;
    }
  }
  step_ = step;
  method_ = std::move(restored);
  stride_by(stride_options_);
  rules_ = rules;
  first_ = first;
  epochs_ = std::move(epochs);
  best_ = std::move(best);
  history_ = std::move(history);
  pending_ = pending;
  earlier_seconds_ = seconds;
  start_.reset();
  next_.reset();
  left_ = {};
  last_.clear();
  over_ = false;
  // If the values are equal, avoid a write that would invalidate a recorded pass of the caller.
  if (!has_parameters(setup_->model, parameters)) set_parameters(setup_->model, parameters);
}

}  // namespace cdt::train
