#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/nn/saved_model.h>
#include <cdt/study/learn.h>
#include <cdt/study/trained_model.h>
#include <fmt/format.h>

namespace cdt::study {
namespace {

using torch::Tensor;

constexpr const char* kModelFormat = "cdt-trained-model-1";
constexpr const char* kIntervalsFormat = "cdt-intervals-1";
constexpr std::string_view kOfIntervals = "intervals.";

std::string of_member(int64_t member) { return fmt::format("m{}.", member); }

/// Entries whose names begin with `prefix`, without the prefix.
template <class Map>
Map below(const Map& all, std::string_view prefix) {
  Map found;
  for (auto each = all.lower_bound(std::string(prefix));
       each != all.end() && each->first.starts_with(prefix); ++each) {
    found.emplace(each->first.substr(prefix.size()), each->second);
  }
  return found;
}
SafeTensors below(const SafeTensors& all, std::string_view prefix) {
  return {below(all.tensors, prefix), below(all.metadata, prefix)};
}

void put_below(SafeTensors& all, const SafeTensors& part, std::string_view prefix) {
  for (const auto& [name, tensor] : part.tensors) all.tensors[std::string(prefix) + name] = tensor;
  for (const auto& [name, text] : part.metadata) all.metadata[std::string(prefix) + name] = text;
}

/// A text of the metadata; JSON null if missing.
std::string text_of(const SafeTensors& content, const std::string& name) {
  const auto found = content.metadata.find(name);
  return found == content.metadata.end() ? "null" : found->second;
}

/// Data of a predictor besides its networks.
struct Calibration {
  double temperature = 1;
  std::vector<TargetCalibration> targets;
  std::string loss;  ///< if outputs are not the predictions

  void fields(Fields& f) {
    f.need("temperature", temperature);
    f.require(temperature > 0, "temperature", "a number above zero");
    f.need("targets", targets);
    f.some("loss", loss);
  }
};

}  // namespace

SafeTensors to_safetensors(const Intervals& intervals) {
  SafeTensors content;
  content.metadata = {{"format", kIntervalsFormat},
                      {"tau", fmt::format("{}", intervals.tau)},
                      {"median", fmt::format("{}", intervals.median)},
                      {"new_median", fmt::format("{}", intervals.new_median)},
                      {"share", fmt::format("{}", intervals.share)}};
  content.tensors["residuals"] = intervals.residuals;
  if (intervals.targets.defined()) content.tensors["targets"] = intervals.targets;
  if (intervals.x.defined()) content.tensors["x"] = intervals.x;
  return content;
}

Intervals parse_intervals(const SafeTensors& content, int64_t features, int64_t targets,
                          const std::string& where) {
  const auto tensor = [&](const char* name) {
    const auto found = content.tensors.find(name);
    return found == content.tensors.end() ? Tensor() : found->second;
  };
  CDT_REQUIRE(text_of(content, "format") == kIntervalsFormat, where, ": expected the format ",
              kIntervalsFormat);
  Intervals found;
  found.residuals = tensor("residuals");
  CDT_REQUIRE(found.residuals.defined() && found.residuals.scalar_type() == torch::kFloat64 &&
                  found.residuals.dim() == 2 && found.residuals.size(0) > 0 &&
                  found.residuals.size(1) == targets,
              where, ": expected residuals of ", targets, " targets, float64");
  require_finite(found.residuals, where + ", residuals");
  found.targets = tensor("targets");
  if (found.targets.defined()) {
    CDT_REQUIRE(found.targets.scalar_type() == torch::kFloat64 && found.targets.dim() == 2 &&
                    found.targets.size(0) > 0 && found.targets.size(1) == targets,
                where, ": expected targets [rows, ", targets, "], float64");
    require_finite(found.targets, where + ", targets");
  }
  found.x = tensor("x");
  if (!found.x.defined()) return found;
  CDT_REQUIRE(found.x.is_floating_point() && found.x.dim() == 2 && found.x.size(0) > 0 &&
                  found.x.size(1) == features,
              where, ": expected training rows of ", features, " features");
  require_finite(found.x, where + ", x");
  const auto number = [&](const char* name) {
    return parse_json(text_of(content, name), where + ", " + name).number();
  };
  found.tau = number("tau");
  found.median = number("median");
  found.share = number("share");
  found.new_median = content.metadata.contains("new_median") ? number("new_median") : found.median;
  CDT_REQUIRE(found.tau > 0 && found.median > 0 && found.new_median > 0 && found.share >= 0 &&
                  found.share <= 1,
              where, ": expected tau and median above zero and a share up to 1, got ", found.tau,
              ", ", found.median, " and ", found.share);
  return found;
}

void require_fitting(const TrainedModel& model, const std::string& source) {
  const data::Preprocess& preprocess = model.preprocess;
  for (const nn::Network& network : model.predictor.members) {
    CDT_REQUIRE(network->input_shape() == preprocess.feature_shape() &&
                    network->output_count() == preprocess.output_count(),
                source, ": model and preprocessing do not fit each other: the model takes ",
                c10::IntArrayRef(network->input_shape()), " features and has ",
                network->output_count(), " outputs, the preprocessing gives ",
                c10::IntArrayRef(preprocess.feature_shape()), " and wants ",
                preprocess.output_count());
  }
  const size_t calibrated = model.predictor.targets.size();
  CDT_REQUIRE(!has_line(model.predictor) || model.predictor.members.size() > 1, source,
              ": expected networks beside the line, got ", model.predictor.members.size(),
              " member");
  CDT_REQUIRE(calibrated == 0 || calibrated == preprocess.targets.size(), source, ": calibrates ",
              calibrated, " targets, the preprocessing has ", preprocess.targets.size());
}

SafeTensors to_safetensors(const TrainedModel& model) {
  SafeTensors content;
  int64_t member = 0;
  for (const nn::Network& network : model.predictor.members) {
    put_below(content, nn::to_safetensors(network), of_member(++member));
  }
  if (model.intervals) put_below(content, to_safetensors(*model.intervals), kOfIntervals);
  content.metadata["format"] = kModelFormat;
  content.metadata["members"] = std::to_string(member);
  content.metadata["preprocess"] = data::to_json(model.preprocess);
  const Predictor& predictor = model.predictor;
  const bool means = predictor.loss && predictor.loss->traits().keeps_units;
  content.metadata["calibration"] =
      to_json_value(Calibration{predictor.temperature, predictor.targets,
                                means ? predictor.loss->name() : ""})
          .dump();
  return content;
}

TrainedModel parse_trained_model(const SafeTensors& content, const std::string& source) {
  CDT_REQUIRE(text_of(content, "format") == kModelFormat, source, ": expected the format ",
              kModelFormat);
  TrainedModel model;
  model.preprocess =
      data::parse_preprocess(text_of(content, "preprocess"), source + ", preprocess");
  const int64_t members =
      parse_json(text_of(content, "members"), source + ", members").whole(1, kMostNetworks + 1);
  for (int64_t member = 1; member <= members; ++member) {
    const std::string name = of_member(member);
    model.predictor.members.push_back(
        nn::parse_model(below(content, name), fmt::format("{}, member {}", source, member)));
  }
  const auto calibration = from_json_value<Calibration>(
      parse_json(text_of(content, "calibration"), source + ", calibration"));
  model.predictor.temperature = calibration.temperature;
  model.predictor.targets = calibration.targets;
  if (!calibration.loss.empty()) model.predictor.loss = loss::parse(calibration.loss);
  if (content.metadata.contains(std::string(kOfIntervals) + "format")) {
    model.intervals =
        parse_intervals(below(content, kOfIntervals), model.preprocess.feature_count(),
                        model.preprocess.output_count(), source + ", intervals");
  }
  require_fitting(model, source);
  return model;
}

}  // namespace cdt::study
