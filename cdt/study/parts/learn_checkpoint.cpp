// Saves and restores the state of a Learner as one safetensors file.
#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/study/parts/learn_state.h>

#include <algorithm>

namespace cdt::study {
namespace {

using torch::Tensor;

constexpr const char* kLearnerFormat = "cdt-learner-2";

void put_tensors(SafeTensors& content, const std::string& name,
                 const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    content.tensors[c10::str(name, ".", i)] = tensors[i].detach().clone();
  }
}

/// Tensors with the number, shapes and dtypes of `like`.
std::vector<Tensor> take_tensors(const SafeTensors& content, const std::string& name,
                                 const std::vector<Tensor>& like) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < like.size(); ++i) {
    const auto found = content.tensors.find(c10::str(name, ".", i));
    CDT_REQUIRE(found != content.tensors.end() && found->second.sizes() == like[i].sizes() &&
                    found->second.scalar_type() == like[i].scalar_type(),
                "the checkpoint lacks ", name, ".", i, ", or belongs to another network");
    tensors.push_back(found->second.to(like[i].device()));
  }
  return tensors;
}

/// A float64 tensor of this shape.
Tensor take_tensor(const SafeTensors& content, const std::string& name, c10::IntArrayRef shape) {
  const auto found = content.tensors.find(name);
  CDT_REQUIRE(found != content.tensors.end() && found->second.sizes() == shape &&
                  found->second.scalar_type() == torch::kFloat64,
              "the checkpoint lacks ", name, " of shape ", shape);
  return found->second.clone();
}

std::vector<Tensor> parameters_of(const nn::Network& network) { return network->parameters(); }

}  // namespace

SafeTensors Learner::checkpoint() const {
  const State& s = *state_;
  const bool refit = s.stage == LearnStage::kRefit;
  SafeTensors content;
  nlohmann::ordered_json state{
      {"stage", refit ? 1 : 0}, {"point", s.point}, {"seconds", s.seconds()}};
  for (const State::Best& each : s.best) {
    state["best"].push_back({{"point", each.point},
                             {"loss", each.loss},
                             {"gain_point", each.gain_point},
                             {"gain_loss", each.gain_loss}});
  }
  for (size_t w = 0; w < s.walks.size(); ++w) {
    const Walk& walk = s.walks[w];
    const std::string name = c10::str("walk.", w);
    state["walks"].push_back({{"over", walk.over}, {"decays", walk.decays}});
    const SafeTensors part = walk.trainer->checkpoint();
    for (const auto& [key, tensor] : part.tensors) content.tensors[name + "." + key] = tensor;
    for (const auto& [key, text] : part.metadata) content.metadata[name + "." + key] = text;
    if (refit || s.best[walk.kind].point < 0) continue;
    content.tensors[c10::str("kept.", w, ".outputs")] = s.kept[w].outputs;
    put_tensors(content, c10::str("kept.", w), s.kept[w].parameters);
  }
  if (refit) {
    state["predicting"] = s.predicting;
    content.tensors["held_out"] = s.held_out;
    if (s.held_variance.defined()) content.tensors["held_variance"] = s.held_variance;
    for (size_t w = 0; w < s.chosen.size(); ++w) {
      put_tensors(content, c10::str("chosen.", w), parameters_of(s.chosen[w]));
    }
  }
  content.metadata["format"] = kLearnerFormat;
  content.metadata["state"] = dump_exactly(state, "the checkpoint");
  content.metadata["history"] = train::to_csv(s.history);
  content.metadata["refit_history"] = train::to_csv(s.refit_history);
  return content;
}

void Learner::restore(const SafeTensors& content) {
  const auto text = [&](const std::string& name) {
    const auto found = content.metadata.find(name);
    CDT_REQUIRE(found != content.metadata.end(), "the checkpoint has no ", name);
    return found->second;
  };
  CDT_REQUIRE(text("format") == kLearnerFormat, "expected a checkpoint of the format ",
              kLearnerFormat);
  const JsonValue saved = parse_json(text("state"), "the checkpoint's state");
  // Restores to a new state, so that errors leave this one unchanged.
  auto fresh = std::make_unique<State>(state_->problem, state_->options);
  State& s = *fresh;
  const bool refit = saved["stage"].whole(0, 1) == 1;
  CDT_REQUIRE(!refit || s.options.refit, "the checkpoint belongs to a run with a refit");
  s.history = train::parse_history(text("history"));
  s.refit_history = train::parse_history(text("refit_history"));
  const auto best = saved["best"].list();
  CDT_REQUIRE(best.size() == s.best.size(), "the checkpoint must be of ", s.best.size(),
              " activations, got ", best.size());
  for (size_t k = 0; k < best.size(); ++k) {
    const int64_t last = std::max<int64_t>(static_cast<int64_t>(s.history.size()) - 1, -1);
    s.best[k] = {best[k]["point"].whole(-1, last), best[k]["loss"].number_or_nan(),
                 best[k]["gain_point"].whole(-1, last), best[k]["gain_loss"].number_or_nan()};
  }
  if (refit) {
    CDT_REQUIRE(s.best[0].point >= 0, "the checkpoint has no best point");
    for (size_t k = 0; k < s.best.size(); ++k) {
      if (s.best[k].point >= 0) s.predicting.push_back(k);
    }
    if (saved["predicting"].exists()) {  // earlier versions left none out
      std::vector<size_t> told;
      for (const JsonValue& each : saved["predicting"].list()) {
        told.push_back(static_cast<size_t>(each.whole(0, std::ssize(s.best) - 1)));
        CDT_REQUIRE(std::ranges::count(s.predicting, told.back()) > 0,
                    "the checkpoint has no best point of activation ", told.back());
      }
      CDT_REQUIRE(!told.empty(), "the checkpoint has no activation that predicts");
      s.predicting = told;
    }
    s.leave_out_others();
    const std::vector<int64_t> shape{s.data.x.size(0), s.data.y.size(1)};
    s.held_out = take_tensor(content, "held_out", shape);
    if (content.tensors.contains("held_variance")) {
      s.held_variance = take_tensor(content, "held_variance", shape);
    }
    const torch::NoGradGuard no_graph;
    for (size_t w = 0; w < s.walks.size(); ++w) {
      const auto own = parameters_of(s.walks[w].model);
      const auto tensors = take_tensors(content, c10::str("chosen.", w), own);
      for (size_t i = 0; i < own.size(); ++i) own[i].copy_(tensors[i]);
      s.chosen.push_back(s.walks[w].model);
    }
    s.start_refit();
  }
  const auto walks = saved["walks"].list();
  CDT_REQUIRE(walks.size() == s.walks.size(), "the checkpoint must be of ", s.walks.size(),
              " networks, got ", walks.size());
  s.point = saved["point"].count();
  CDT_REQUIRE(static_cast<int64_t>((refit ? s.refit_history : s.history).size()) == s.point,
              "the checkpoint belongs to point ", s.point, ", its history does not");
  for (size_t w = 0; w < walks.size(); ++w) {
    Walk& walk = s.walks[w];
    const std::string name = c10::str("walk.", w, ".");
    SafeTensors part;
    for (const auto& [key, tensor] : content.tensors) {
      if (key.starts_with(name)) part.tensors[key.substr(name.size())] = tensor;
    }
    for (const auto& [key, value] : content.metadata) {
      if (key.starts_with(name)) part.metadata[key.substr(name.size())] = value;
    }
    walk.trainer->restore(part);
    walk.over = walks[w]["over"].flag();
    walk.decays = walks[w]["decays"].numbers(static_cast<size_t>(s.point));
    if (refit || s.best[walk.kind].point < 0) continue;
    const std::vector<int64_t> shape{static_cast<int64_t>(walk.held.size()), s.data.y.size(1)};
    s.kept[w] = {take_tensor(content, c10::str("kept.", w, ".outputs"), shape),
                 take_tensors(content, c10::str("kept.", w), parameters_of(walk.model))};
  }
  s.earlier_seconds = saved["seconds"].number();
  state_ = std::move(fresh);
}

}  // namespace cdt::study
