#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/experiment/plan.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace cdt::experiment {
namespace {

/// Seconds between checkpoints: none, since the sweep repeats an interrupted run.
constexpr double kNever = 1e9;

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class T>
void require_distinct(const std::vector<T>& values, const char* what) {
  std::set<T> seen;
  for (const T& value : values) {
    CDT_REQUIRE(seen.insert(value).second, what, ": expected each one once, got ", value, " twice");
  }
}

/// Called before any case is created, since a file may ask for any number.
void require_countable(const Plan& plan) {
  constexpr int64_t kMost = 1'000'000;
  const auto times = [](double seeds, size_t count, size_t others) {
    return seeds * static_cast<double>(count) * static_cast<double>(others);
  };
  const auto seeds_of = [&](int64_t seeds) {
    return static_cast<double>(std::min(seeds, plan.seeds));
  };
  const double each =
      times(seeds_of(plan.seeds), plan.lrs.size(), plan.methods.size()) +
      times(seeds_of(plan.seeds), plan.own_rate.size(), 1) +
      times(seeds_of(plan.further.seeds), plan.further.lrs.size(), plan.further.methods.size());
  const double all = each * static_cast<double>(plan.architectures.size()) +
                     times(seeds_of(plan.weights.seeds), plan.weights.p.size(), 1);
  CDT_REQUIRE(all <= static_cast<double>(kMost), "a sweep has at most ", kMost,
              " runs, and this one would have ", all,
              ": architectures × learning rates × methods × seeds");
}

/// Matrix products of a run, up to a common factor.
double work_of(const Plan& plan, const Case& what) {
  double count = 0;
  int64_t width = 64;
  if (plan.architecture(what.architecture).network != nn::NetworkOptions().architecture) count = 1;
  for (const int64_t next : plan.architecture(what.architecture).hidden) {
    count += static_cast<double>(width) * static_cast<double>(next);
    width = next;
  }
  constexpr double kStepsToPredict = 3000;  // an ensemble takes as long as this many steps
  return count * (predicts(what.method) ? kStepsToPredict : static_cast<double>(what.steps));
}

}  // namespace

bool predicts(const std::string& method) { return method == kPredict || method == kPredictAdam; }

std::string Case::key() const {
  if (predicts(method)) return fmt::format("{}-{}-seed{}", architecture, method, seed);
  const std::string rate = lr > 0 ? fmt::format("-lr{}", lr) : "";
  return fmt::format("{}-{}{}-p{}-seed{}-steps{}", architecture, method, rate, p, seed, steps);
}

const Architecture& Plan::architecture(const std::string& name) const {
  std::string known;
  for (const Architecture& each : architectures) {
    if (each.name == name) return each;
    known += (known.empty() ? "" : ", ") + each.name;
  }
  throw InvalidArgument(c10::str("there is no architecture '", name, "'; there are ", known));
}

study::NetworkOptions network_of(const Plan& plan, const std::string& architecture) {
  const Architecture& chosen = plan.architecture(architecture);
  study::NetworkOptions network = plan.network;
  network.architecture = chosen.network;
  network.hidden = chosen.hidden;
  return network;
}

study::DataOptions data_of(const Plan& plan) {
  study::DataOptions data = plan.data;
  data.learn_by(*plan.loss);
  if (std::any_of(plan.own_rate.begin(), plan.own_rate.end(), predicts) && !data.missing_target) {
    data.missing_target = study::MissingTarget::kDrop;
  }
  return data;
}

train::Method training_method(const std::string& name) {
  if (name == kGdBest) return "gd";
  if (name == kPredict) return "path";
  return name == kPredictAdam ? "adam" : name;
}

study::RunOptions options_of(const Plan& plan, const Case& what) {
  study::RunOptions options;
  options.data = data_of(plan);
  options.network = network_of(plan, what.architecture);
  options.intervals = false;
  train::TrainOptions& training = options.training;
  training.seed = what.seed;
  training.memory_bytes = plan.memory_bytes;
  training.checkpoint_seconds = kNever;
  if (predicts(what.method)) {
    options.data.goal = study::Goal::kPredict;
    options.data.rows = options.data.train_rows = 0;  // the comparison has already split the rows
    options.data.train_fraction.reset();
    options.data.test_fraction = 0;
    options.data.equal_rows_together = true;
    training.method = training_method(what.method);
    training.loss = options.data.classes ? loss::cross_entropy() : loss::mse();
    options.given.insert("loss");  // whatever the target's values are
    for (const report::Setting& setting : plan.settings) {
      static const std::set<std::string> kOfNetworks{"activation", "parametrization", "sigma-w",
                                                     "sigma-b",    "width-factor",    "dtype"};
      if (setting.source == "given" && kOfNetworks.contains(setting.name)) {
        options.given.insert(setting.name);
      }
    }
    return options;
  }
  training.method = training_method(what.method);
  training.loss = plan.loss;
  if (what.lr > 0) training.learning_rate = what.lr;
  if (!training.method->guarded) training.schedule = plan.schedule;
  training.q = plan.q;
  training.p = what.p;
  training.steps = what.steps;
  training.stop_loss = 0;
  training.validate_every = plan.validate_every;
  return options;
}

void require_sound(const Plan& plan) {
  const bool rated = !plan.methods.empty() || plan.own_rate.empty();
  CDT_REQUIRE(!plan.architectures.empty() && plan.seeds > 0 &&
                  (!rated || (!plan.methods.empty() && !plan.lrs.empty())),
              "a sweep needs at least one architecture, learning rate, method and seed");
  CDT_REQUIRE(plan.loss->quadratic() || plan.loss->classes(),
              "a sweep is for quadratic losses and cross-entropy, got ", plan.loss->name());
  CDT_REQUIRE(plan.steps > 0, "a sweep needs runs of 1 step or more, got ", plan.steps);
  require_countable(plan);
  for (const double lr : plan.lrs) require_positive(lr, "a learning rate");
  for (const std::string& method : plan.methods) {
    if (method != kGdBest) train::Method{method};
  }
  for (const std::string& method : plan.own_rate) {
    if (!predicts(method)) train::Method{method};
  }
  require_distinct(plan.lrs, "learning rates");
  require_distinct(plan.methods, "methods");
  require_distinct(plan.own_rate, "methods at their own rate");
  std::vector<std::string> names;
  for (const Architecture& each : plan.architectures) {
    require_file_name(each.name, "the name of an architecture");  // the names of its runs begin
                                                                  // with it
    names.push_back(each.name);
  }
  require_distinct(names, "architectures");
}

std::vector<Case> cases_of(const Plan& plan) {
  std::map<std::string, Case> unique;
  const auto add = [&](Case what) {
    if (what.method == kGdBest) what.lr = 0;
    if (predicts(what.method)) what.p = 0, what.steps = 0;  // chosen by the method
    const auto [found, fresh] = unique.emplace(what.key(), what);
    found->second.details = found->second.details || what.details;
    found->second.traces = found->second.traces || what.traces;
  };
  const bool steers = among(plan.methods, "cdt");
  for (const Architecture& each : plan.architectures) {
    for (int64_t seed = 1; seed <= plan.seeds; ++seed) {
      for (const double lr : plan.lrs) {
        for (const std::string& method : plan.methods) {
          Case what{each.name, method, lr, plan.p, static_cast<uint64_t>(seed), plan.steps};
          what.details = seed == 1 && method == (steers ? "cdt" : plan.methods.front()) &&
                         lr == plan.lrs[plan.lrs.size() > 1 ? 1 : 0];
          what.traces = plan.loss->quadratic() && seed == 1 &&
                        each.name == plan.samples.architecture && lr == plan.samples.lr &&
                        (method == "gd" || method == "cdt");
          add(what);
        }
      }
      for (const std::string& method : plan.own_rate) {
        Case what{each.name, method, 0, plan.p, static_cast<uint64_t>(seed), plan.steps};
        what.details = seed == 1 && plan.methods.empty() && method == plan.own_rate.front() &&
                       !predicts(method);
        add(what);
      }
    }
    for (int64_t seed = 1; seed <= std::min(plan.further.seeds, plan.seeds); ++seed) {
      for (const double lr : plan.further.lrs) {
        for (const std::string& method : plan.further.methods) {
          add({each.name, method, lr, plan.p, static_cast<uint64_t>(seed), plan.further.steps});
        }
      }
    }
    if (each.name != plan.weights.architecture) continue;
    for (int64_t seed = 1; seed <= std::min(plan.weights.seeds, plan.seeds); ++seed) {
      for (const double p : plan.weights.p) {
        add({each.name, "cdt", plan.weights.lr, p, static_cast<uint64_t>(seed), plan.steps});
      }
    }
  }
  std::vector<Case> cases;
  cases.reserve(unique.size());
  for (auto& [key, what] : unique) cases.push_back(std::move(what));
  std::stable_sort(cases.begin(), cases.end(), [&](const Case& a, const Case& b) {
    return work_of(plan, a) > work_of(plan, b);
  });
  return cases;
}

}  // namespace cdt::experiment
