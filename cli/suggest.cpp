#include "cli/suggest.h"

#include <cdt/core/text/nearest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace cdt::cli {
namespace {

/// Other programs' names and ours; of several, the first ones that the command has.
using CommonNames = std::multimap<std::string, std::string, std::less<>>;

const CommonNames& common_names(NameKind kind) {
  static const CommonNames options{{"learning-rate", "lr"},
                                   {"learning-rate", "lrs"},
                                   {"alpha", "lr"},
                                   {"eta", "lr"},
                                   {"step-size", "lr"},
                                   {"lr0", "lr"},
                                   {"epochs", "steps"},
                                   {"n-epochs", "steps"},
                                   {"num-epochs", "steps"},
                                   {"iterations", "steps"},
                                   {"max-iter", "steps"},
                                   {"iters", "steps"},
                                   {"max-steps", "steps"},
                                   {"n-iter", "steps"},
                                   {"optimizer", "method"},
                                   {"optimizer", "methods"},
                                   {"optim", "method"},
                                   {"algorithm", "method"},
                                   {"solver", "method"},
                                   {"solver", "form"},
                                   {"batch-size", "batch"},
                                   {"minibatch", "batch"},
                                   {"bs", "batch"},
                                   {"label", "target"},
                                   {"label-column", "target"},
                                   {"y", "target"},
                                   {"column", "target"},
                                   {"output", "out"},
                                   {"output-dir", "out"},
                                   {"out-dir", "out"},
                                   {"save", "out"},
                                   {"logdir", "out"},
                                   {"layers", "hidden"},
                                   {"layers", "archs"},
                                   {"hidden-layers", "hidden"},
                                   {"hidden-size", "hidden"},
                                   {"units", "hidden"},
                                   {"width", "hidden"},
                                   {"hidden-layer-sizes", "hidden"},
                                   {"hidden", "archs"},
                                   {"architecture", "arch"},
                                   {"architecture", "archs"},
                                   {"network", "arch"},
                                   {"model", "arch"},
                                   {"l2", "weight-decay"},
                                   {"wd", "weight-decay"},
                                   {"regularization", "weight-decay"},
                                   {"early-stopping", "patience"},
                                   {"random-state", "seed"},
                                   {"random-seed", "seed"},
                                   {"test-size", "test-fraction"},
                                   {"validation-split", "train-fraction"},
                                   {"validation-fraction", "train-fraction"},
                                   {"val-fraction", "train-fraction"},
                                   {"train-size", "train-fraction"},
                                   {"gpu", "device cuda"},
                                   {"cuda", "device cuda"},
                                   {"cpu", "device cpu"},
                                   {"n-jobs", "threads"},
                                   {"cores", "threads"},
                                   {"num-workers", "workers"},
                                   {"n-jobs", "jobs"},
                                   {"verbose", "explain"},
                                   {"sep", "delimiter"},
                                   {"separator", "delimiter"},
                                   {"exclude", "drop"},
                                   {"ignore", "drop"},
                                   {"timeout", "max-seconds"},
                                   {"time-limit", "max-seconds"},
                                   {"max-time", "max-seconds"},
                                   {"criterion", "loss"},
                                   {"objective", "loss"},
                                   {"scheduler", "schedule"},
                                   {"lr-schedule", "schedule"},
                                   {"momentum", "method momentum"},
                                   {"cv", "folds"},
                                   {"k-fold", "folds"},
                                   {"checkpoint", "resume"},
                                   {"continue", "resume"},
                                   {"confidence", "interval"},
                                   {"silent", "quiet"},
                                   {"image-size", "size"},
                                   {"weights", "sample-weights"},
                                   {"task", "goal"}};
  static const CommonNames commands{{"fit", "train"},
                                    {"learn", "train"},
                                    {"infer", "predict"},
                                    {"evaluate", "predict"},
                                    {"eval", "predict"},
                                    {"test", "predict"},
                                    {"analyse", "analyze"},
                                    {"check", "verify"},
                                    {"sweep", "compare"},
                                    {"benchmark", "compare"},
                                    {"describe", "data describe"},
                                    {"make", "data make"},
                                    {"generate", "data make"},
                                    {"plot", "report"},
                                    {"help", "--help"},
                                    {"version", "--version"},
                                    {"ntk", "kernel"},
                                    {"lqr", "design"},
                                    {"tune", "train --tune"}};
  static const CommonNames values{{"sgd", "gd"},
                                  {"sgd", "momentum"},
                                  {"gradient-descent", "gd"},
                                  {"descent", "gd"},
                                  {"adamw", "adam"},
                                  {"nadam", "adam"},
                                  {"rmsprop", "adam"},
                                  {"lqr", "cdt"},
                                  {"controlled", "cdt"},
                                  {"l-bfgs", "lbfgs"},
                                  {"bfgs", "lbfgs"},
                                  {"newton", "guarded"},
                                  {"gauss-newton", "guarded"},
                                  {"nesterov", "momentum"},
                                  {"ce", "cross-entropy"},
                                  {"crossentropy", "cross-entropy"},
                                  {"log-loss", "cross-entropy"},
                                  {"bce", "cross-entropy"},
                                  {"nll", "cross-entropy"},
                                  {"softmax", "cross-entropy"},
                                  {"l2", "mse"},
                                  {"rmse", "mse"},
                                  {"squared", "mse"},
                                  {"squared-error", "mse"},
                                  {"l1", "mae"},
                                  {"absolute", "mae"},
                                  {"smooth-l1", "huber"},
                                  {"pinball", "quantile:0.5"},
                                  {"median", "quantile:0.5"},
                                  {"dense", "mlp"},
                                  {"fc", "mlp"},
                                  {"resnet", "resnet18"},
                                  {"conv", "cnn"},
                                  {"convnet", "cnn"},
                                  {"sigmoid", "tanh"},
                                  {"silu", "gelu"},
                                  {"swish", "gelu"},
                                  {"leaky-relu", "relu"},
                                  {"gpu", "cuda"},
                                  {"regression", "predict"},
                                  {"classification", "predict"},
                                  {"one-hot", "onehot"},
                                  {"mean", "median"},
                                  {"zscore", "standard"},
                                  {"half", "float32"},
                                  {"double", "float64"}};
  return kind == NameKind::kOption ? options : kind == NameKind::kCommand ? commands : values;
}

std::string hint_of(const std::vector<std::string>& meant, const std::string& dashes) {
  if (meant.empty()) return "";
  return fmt::format("; did you mean {}{}?", dashes, fmt::join(meant, " or " + dashes));
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> meant_names(NameKind kind, const std::string& name,
                                     const std::vector<std::string>& known) {
  constexpr size_t kMost = 2;
  std::string spelled = lower(name);
  std::ranges::replace(spelled, '_', '-');
  std::vector<std::string> meant;
  const auto [first, last] = common_names(kind).equal_range(spelled);
  for (auto each = first; each != last && meant.size() < kMost; ++each) {
    // "device cuda" is the option --device with its value; "--help" exists in every program.
    const std::string first_word = each->second.substr(0, each->second.find_first_of(" :"));
    if (first_word.starts_with("--") || std::ranges::find(known, first_word) != known.end()) {
      meant.push_back(each->second);
    }
  }
  if (!meant.empty()) return meant;
  const std::string nearest = nearest_name(known, spelled);
  if (!nearest.empty()) meant.push_back(nearest);
  return meant;
}

std::string option_hint(const CLI::App& command, const std::string& name) {
  return hint_of(meant_names(NameKind::kOption, name, flags_of(command)), "--");
}

std::string command_hint(const CLI::App& parent, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* each : parent.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
  }
  const std::string prefix =
      parent.get_parent() == nullptr ? "cdt " : "cdt " + parent.get_name() + " ";
  return hint_of(meant_names(NameKind::kCommand, name, names), prefix);
}

std::string value_hint(const std::string& value, const std::vector<std::string>& known) {
  return hint_of(meant_names(NameKind::kValue, value, known), "");
}

CLI::Validator among(const std::vector<std::string>& known) {
  return {[known](std::string& text) {
            if (std::ranges::find(known, text) != known.end()) return std::string();
            return fmt::format("expected {}, got '{}'{}", fmt::join(known, ", "), text,
                               value_hint(text, known));
          },
          fmt::format("{{{}}}", fmt::join(known, ",")), ""};
}

}  // namespace cdt::cli
