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
using Reads = Scope::Reads;

std::map<std::string, Scope> make_scopes() {
  using Kind = train::Schedule::Kind;
  using Traits = const train::MethodTraits&;
  const Reads all = [](Traits) { return true; };
  const Reads path = [](Traits t) { return t.path; };
  const Reads rated = [](Traits t) { return !t.path; };
  const Reads controlled = [](Traits t) { return t.controlled; };
  const Reads balanced = [](Traits t) { return t.balances; };  // by q and p
  const Reads solving = [](Traits t) { return t.solves; };
  const Reads forecast = [](Traits t) { return t.follows_forecast; };
  const Reads weighing = [](Traits t) { return t.weights != train::MethodTraits::Weights::kNone; };

  const auto both = [](const Reads& reads) { return Scope{reads, reads, {}, {}}; };
  const auto fit = [&](const Reads& reads) { return Scope{reads, {}, {}, {}}; };
  const auto predict = [&](const Reads& reads) { return Scope{{}, reads, {}, {}}; };
  const auto needing = [](Scope scope, const std::string& needs, auto met) {
    scope.needs = needs;
    scope.met = met;
    return scope;
  };
  const auto one_kernel = [](const RunOptions& o) { return !o.training.form->batches; };

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
      {"controller", both([](Traits t) { return t.designed; })},
      {"shape", both(controlled)},
      {"relinearize", both(controlled)},
      {"curvature-products", needing(both(controlled), "relinearize kc",
                                     [](const RunOptions& o) {
                                       return o.training.relinearize &&
                                              o.training.relinearize->kind ==
                                                  train::Relinearization::Kind::kKc;
                                     })},
      {"linearization-error", fit(controlled)},
      {"form", both(solving)},
      {"weight-decay", both(rated)},
      {"smoothing", needing(both(all), "loss cross-entropy",
                            [](const RunOptions& o) { return o.training.loss->classes(); })},
      {"tune", fit(forecast)},
      // Batches and stopping
      {"batch", needing(both(all), "--form batch, or another method than path",
                        [](const RunOptions& o) {
                          return !o.training.method->path || o.training.form->batches;
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

std::string names_of(const std::vector<Method>& methods) {
  std::vector<std::string> names;
  for (const Method& method : methods) names.push_back(method.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

study::Goal other_than(study::Goal goal) {
  return goal == study::Goal::kFit ? study::Goal::kPredict : study::Goal::kFit;
}

std::optional<Unread> unread_of(const std::string& name, const RunOptions& options) {
  const Scope& scope = scope_of(name);
  const study::Goal goal = options.data.goal.value_or(study::Goal::kFit);
  const std::vector<Method> readers = scope.of(goal);
  const bool more_elsewhere = scope.of(other_than(goal)).size() > readers.size();
  if (readers.empty()) {
    return Unread{name, fmt::format("the goal {} does not read it", to_string(goal)), true, {}};
  }
  if (!scope.reads(goal, options.training.method)) {
    return Unread{name,
                  fmt::format("the method {} does not read it under the goal {}",
                              options.training.method.name(), to_string(goal)),
                  more_elsewhere, readers};
  }
  if (scope.met && !scope.met(options)) {
    return Unread{name, "it would do nothing here: it needs " + scope.needs, false, {}};
  }
  return std::nullopt;
}

}  // namespace

bool Scope::reads(Goal goal, const Method& method) const {
  const Reads& readers = goal == Goal::kFit ? fit : predict;
  return readers && readers(*method) && !(goal == Goal::kPredict && method->guarded);
}

std::vector<Method> Scope::of(Goal goal) const {
  std::vector<Method> found;
  std::ranges::copy_if(Method::all(), std::back_inserter(found),
                       [&](const Method& method) { return reads(goal, method); });
  return found;
}

const Scope& scope_of(const std::string& name) {
  static const std::map<std::string, Scope> scopes = make_scopes();
  const Reads all = [](const train::MethodTraits&) { return true; };
  static const Scope everywhere{all, all, {}, {}};
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
