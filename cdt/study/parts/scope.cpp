#include <cdt/core/error.h>
#include <cdt/data/table.h>
#include <cdt/study/parts/scope.h>
#include <cdt/study/settings.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace cdt::study {
namespace {

using train::Method;
using Methods = std::vector<Method>;

Methods methods_that(bool (*hold)(const train::MethodTraits&)) {
  Methods found;
  for (const train::MethodTraits& traits : train::methods()) {
    if (hold(traits)) found.push_back(traits.method);
  }
  return found;
}

/// With goal predict `guarded` is the path.
Methods without_guarded(Methods methods) {
  std::erase(methods, Method::kGuarded);
  return methods;
}

std::map<std::string, Scope> make_scopes() {
  using Kind = train::Schedule::Kind;
  using Traits = const train::MethodTraits&;
  const Methods none, path{Method::kPath};
  const Methods all = methods_that([](Traits) { return true; });
  const Methods rated = methods_that([](Traits t) { return t.method != Method::kPath; });
  const Methods controlled = methods_that([](Traits t) { return t.controlled; });
  const Methods weighing = methods_that([](Traits t) { return t.weighs; });
  const Methods forecast = methods_that([](Traits t) { return t.follows_forecast; });
  Methods balanced = controlled;  // q and p balance control and errors
  balanced.push_back(Method::kGdMatched);

  const auto both = [](const Methods& methods) {
    return Scope{methods, without_guarded(methods), {}, {}};
  };
  const auto fit = [&](const Methods& methods) { return Scope{methods, none, {}, {}}; };
  const auto predict = [&](const Methods& methods) { return Scope{none, methods, {}, {}}; };
  const auto needing = [](Scope scope, const std::string& needs, auto met) {
    scope.needs = needs;
    scope.met = met;
    return scope;
  };
  const auto one_kernel = [](const RunOptions& o) {
    return o.training.form != train::Form::kBatch;
  };

  const auto scaled = [](const RunOptions& o) { return !o.training.loss->traits().keeps_units; };

  return {
      // Rows and columns
      {"train-fraction", needing(both(all), "no train-rows, which say the same",
                                 [](const RunOptions& o) { return o.data.train_rows == 0; })},
      {"test-fraction",
       needing(both(all), "goal fit or no train-rows, whose other rows are those of the test",
               [](const RunOptions& o) {
                 return o.data.goal != study::Goal::kPredict || o.data.train_rows == 0;
               })},
      {"keep", needing(both(all), "goal predict, which leaves columns out, or the column of group",
                       [](const RunOptions& o) {
                         return o.data.goal == study::Goal::kPredict ||
                                (!o.data.group.empty() &&
                                 data::contains(o.data.keep, o.data.group));
                       })},
      {"max-levels", needing(both(all), "categories onehot",
                             [](const RunOptions& o) {
                               return study::preprocess_options(o.data).encoding ==
                                      data::Encoding::kOneHot;
                             })},
      {"target-scale", needing(both(all), "a loss that scales its targets", scaled)},
      {"target-transform", needing(both(all), "a loss that scales its targets", scaled)},
      {"sample-weights", {weighing, path, {}, {}}},
      {"output-weights", {weighing, path, {}, {}}},
      {"class-weights", predict(path)},
      // Rates and control
      {"lr", both(rated)},
      {"schedule", both(rated)},
      {"decay", needing(both(rated), "schedule inverse, exponential or step",
                        [](const RunOptions& o) {
                          const Kind kind = o.training.schedule.kind;
                          return kind != Kind::kConstant && kind != Kind::kCosine;
                        })},
      {"decay-period",
       needing(both(rated), "schedule step",
               [](const RunOptions& o) { return o.training.schedule.kind == Kind::kStep; })},
      {"p", needing(both(balanced), "another form than batch", one_kernel)},
      {"q", needing(both(balanced), "another form than batch", one_kernel)},
      {"shape", both(controlled)},
      {"relinearize", both(controlled)},
      {"curvature-products", needing(both(controlled), "relinearize kc",
                                     [](const RunOptions& o) {
                                       return o.training.relinearize &&
                                              o.training.relinearize->kind ==
                                                  train::Relinearization::Kind::kKc;
                                     })},
      {"linearization-error", fit(controlled)},
      {"form", {{Method::kGuarded, Method::kPath}, {Method::kPath}, {}, {}}},
      {"weight-decay", both(rated)},
      {"smoothing", needing(both(all), "loss cross-entropy",
                            [](const RunOptions& o) { return o.training.loss->classes(); })},
      {"tune", fit(forecast)},
      // Batches and stopping
      {"batch", needing(both(all), "--form batch, or another method than path",
                        [](const RunOptions& o) {
                          return o.training.method != Method::kPath ||
                                 o.training.form == train::Form::kBatch;
                        })},
      {"reshuffle",
       needing(fit(rated), "another form than batch, which always does it", one_kernel)},
      {"stop-loss", fit(all)},
      {"plateau", fit(all)},
      {"validate-every", fit(all)},
      // Networks that predict
      {"ensemble", predict(all)},
      {"folds", needing(predict(all), "no time, whose latest rows are held out",
                        [](const RunOptions& o) { return o.data.time.empty(); })},
      {"no-refit", predict(all)},
      {"importance", predict(all)},
      {"no-intervals", predict(all)},
  };
}

std::string names_of(const Methods& methods) {
  std::vector<std::string> names;
  for (const Method method : methods) names.push_back(train::to_string(method));
  return fmt::format("{}", fmt::join(names, ", "));
}

study::Goal other_than(study::Goal goal) {
  return goal == study::Goal::kFit ? study::Goal::kPredict : study::Goal::kFit;
}

bool contains(const Methods& methods, Method method) {
  return std::ranges::find(methods, method) != methods.end();
}

std::optional<Unread> unread_of(const std::string& name, const RunOptions& options) {
  const Scope& scope = scope_of(name);
  const study::Goal goal = options.data.goal.value_or(study::Goal::kFit);
  const Methods& readers = scope.of(goal);
  const bool more_elsewhere = scope.of(other_than(goal)).size() > readers.size();
  if (readers.empty()) {
    return Unread{name, fmt::format("the goal {} does not read it", to_string(goal)), true, {}};
  }
  if (!contains(readers, options.training.method)) {
    return Unread{name,
                  fmt::format("the method {} does not read it under the goal {}",
                              train::to_string(options.training.method), to_string(goal)),
                  more_elsewhere, readers};
  }
  if (scope.met && !scope.met(options)) {
    return Unread{name, "it would do nothing here: it needs " + scope.needs, false, {}};
  }
  return std::nullopt;
}

}  // namespace

const Scope& scope_of(const std::string& name) {
  static const std::map<std::string, Scope> scopes = make_scopes();
  static const Scope everywhere = [] {
    const Methods all = methods_that([](const train::MethodTraits&) { return true; });
    return Scope{all, all, {}, {}};
  }();
  const auto found = scopes.find(name);
  return found == scopes.end() ? everywhere : found->second;
}

std::string to_text(const Unread& unread, study::Goal goal) {
  std::vector<std::string> ways;
  if (unread.other_goal) ways.push_back("--goal " + study::to_string(other_than(goal)));
  if (!unread.methods.empty()) ways.push_back("--method " + names_of(unread.methods));
  const std::string advice =
      ways.empty() ? "" : fmt::format("; give {}, or leave it out", fmt::join(ways, " or "));
  return fmt::format("{}: {}{}", unread.name, unread.reason, advice);
}

std::optional<Unread> find_unread(const RunOptions& options,
                                  const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (auto unread = unread_of(name, options)) return unread;
  }
  return std::nullopt;
}

void require_read(const RunOptions& options, const std::vector<std::string>& except) {
  std::vector<std::string> decided;
  for (const Setting& setting : all_settings()) {
    const bool excepted = std::ranges::find(except, setting.name) != except.end();
    if (!excepted && is_decided(options, setting.name)) decided.push_back(setting.name);
  }
  // Given settings come before those that follow from them: a decay determines the schedule.
  std::ranges::stable_partition(
      decided, [&](const std::string& name) { return options.given.contains(name); });
  if (const auto unread = find_unread(options, decided)) {
    throw InvalidArgument(to_text(*unread, options.data.goal.value_or(study::Goal::kFit)));
  }
}

}  // namespace cdt::study
