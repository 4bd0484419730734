#include <cdt/core/text/names.h>
#include <cdt/study/options.h>

namespace cdt::study {
namespace {

constexpr Names<Goal, 2> kGoals{{{"fit", Goal::kFit}, {"predict", Goal::kPredict}}};
constexpr Names<Fit, 3> kFits{{{"train", Fit::kTrain}, {"seen", Fit::kSeen}, {"all", Fit::kAll}}};
constexpr Names<MissingTarget, 2> kMissingTargets{
    {{"drop", MissingTarget::kDrop}, {"error", MissingTarget::kError}}};
constexpr Names<torch::ScalarType, 2> kDtypes{
    {{"float32", torch::kFloat32}, {"float64", torch::kFloat64}}};

}  // namespace

Goal parse_goal(std::string_view name) { return parse_name(kGoals, name, "goal"); }
std::string to_string(Goal goal) { return name_of(kGoals, goal); }

Fit parse_fit(std::string_view name) { return parse_name(kFits, name, "fit"); }
std::string to_string(Fit fit) { return name_of(kFits, fit); }

MissingTarget parse_missing_target(std::string_view name) {
  return parse_name(kMissingTargets, name, "missing-target");
}
std::string to_string(MissingTarget missing) { return name_of(kMissingTargets, missing); }

void DataOptions::learn_by(const loss::Loss& loss) {
  const loss::Traits traits = loss.traits();
  classes = traits.classes;
  keeps_units = traits.keeps_units;
  least_target = traits.least_target;
}

data::PreprocessOptions preprocess_options(const DataOptions& options) {
  using data::Encoding, data::MissingNumber, data::Scaling, data::UnknownCategory;
  using data::TargetTransform;
  const bool predict = options.goal == Goal::kPredict;
  const Scaling scaling = predict || options.is_pictures ? Scaling::kStandard : Scaling::kMinMax;
  data::PreprocessOptions wanted;
  wanted.targets = options.targets;
  wanted.classes = options.classes;
  if (!options.sample_weights.empty()) wanted.drop.push_back(options.sample_weights);
  // The group column is not a feature, since new rows belong to other groups.
  if (!options.group.empty() && !data::contains(options.keep, options.group))
    wanted.drop.push_back(options.group);
  wanted.encoding = options.encoding.value_or(predict ? Encoding::kOneHot : Encoding::kIndex);
  wanted.missing_number =
      options.missing_number.value_or(predict ? MissingNumber::kMedian : MissingNumber::kZero);
  wanted.unknown_category = options.unknown_category.value_or(predict ? UnknownCategory::kMissing
                                                                      : UnknownCategory::kError);
  wanted.scaling = options.scaling.value_or(scaling);
  const bool kept = options.keeps_units;
  wanted.target_scaling = options.target_scaling.value_or(kept ? Scaling::kNone : scaling);
  wanted.target_transform = options.target_transform.value_or(
      predict && !kept ? TargetTransform::kAuto : TargetTransform::kNone);
  wanted.quantiles = options.quantiles.value_or(predict ? kUsualQuantiles : 0);
  wanted.quantile_weight = options.quantile_weight;
  wanted.clip = options.clip.value_or(predict ? kUsualClip : 0);
  wanted.max_levels = options.max_levels.value_or(predict ? kUsualLevels : 0);
  wanted.keep = options.keep;
  if (predict) {
    wanted.rare_rows = kRareRows;
    wanted.missing_indicator = true;
    wanted.grouped = true;
    wanted.dates = true;
    wanted.select = true;
    wanted.constant_target = true;
  }
  return wanted;
}

Fit fit_of(const DataOptions& options) {
  return options.fit.value_or(options.goal == Goal::kPredict ? Fit::kSeen : Fit::kTrain);
}

double train_fraction_of(const DataOptions& options) {
  return options.train_fraction.value_or(options.goal == Goal::kPredict ? kSelectionShare : 0.7);
}

MissingTarget missing_target_of(const DataOptions& options) {
  return options.missing_target.value_or(options.goal == Goal::kPredict ? MissingTarget::kDrop
                                                                        : MissingTarget::kError);
}

void NetworkOptions::choose(const std::string& name) {
  if (name == architecture) return;
  architecture = nn::find_architecture(nn::architectures(), name).name;
  hidden = NetworkOptions().hidden;
  if (name != NetworkOptions().architecture) hidden.clear();
}

torch::ScalarType parse_dtype(std::string_view name) { return parse_name(kDtypes, name, "dtype"); }
std::string dtype_name(torch::ScalarType dtype) { return name_of(kDtypes, dtype); }

}  // namespace cdt::study
