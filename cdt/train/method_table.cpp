// The table of training methods.
#include <cdt/core/error.h>
#include <cdt/train/methods/descent.h>
#include <cdt/train/methods/guarded.h>
#include <cdt/train/methods/optimizers.h>
#include <cdt/train/methods/path.h>
#include <cdt/train/methods/steered.h>

#include <algorithm>
#include <array>

namespace cdt::train {
namespace {

// Rates to start with: 10⁴ units for guarded (every mode with s ≫ 1 is removed almost at once, and
// the guard finds out what is too much); ½ for gradient descent and CDT, where even the matched
// baseline is stable; a tenth of that with momentum; for Adam 10⁻³ and for L-BFGS 1, whatever the
// unit.
constexpr auto kGradients = kernel::StepUse::kGradients;
constexpr std::array kMethods{
    MethodTraits{.method = Method::kGd,
                 .name = "gd",
                 .follows_forecast = true,
                 .start_rate = 0.5,
                 .make = make_gd},
    MethodTraits{.method = Method::kGdMatched,
                 .name = "gd-matched",
                 .start_rate = 0.5,
                 .make = make_gd_matched},
    MethodTraits{.method = Method::kCdt,
                 .name = "cdt",
                 .controlled = true,
                 .weighs = true,
                 .follows_forecast = true,
                 .start_rate = 0.5,
                 .make = make_steered},
    MethodTraits{.method = Method::kGuarded,
                 .name = "guarded",
                 .controlled = true,
                 .guarded = true,
                 .weighs = true,
                 .follows_forecast = true,
                 .start_rate = 1e4,
                 .make = make_guarded},
    MethodTraits{.method = Method::kMomentum,
                 .name = "momentum",
                 .optimizer = true,
                 .start_rate = 0.05,
                 .use = kGradients,
                 .make = make_momentum},
    MethodTraits{.method = Method::kAdam,
                 .name = "adam",
                 .optimizer = true,
                 .start_rate = 1e-3,
                 .by_curvature = false,
                 .use = kGradients,
                 .make = make_adam},
    MethodTraits{.method = Method::kLbfgs,
                 .name = "lbfgs",
                 .optimizer = true,
                 .start_rate = 1,
                 .by_curvature = false,
                 .use = kGradients,
                 .make = make_lbfgs},
    MethodTraits{.method = Method::kPath,
                 .name = "path",
                 .weighs = true,
                 .start_rate = 0,
                 .by_curvature = false,
                 .make = make_path},
};

}  // namespace

std::span<const MethodTraits> methods() { return kMethods; }

const MethodTraits& traits_of(Method method) {
  const auto* found = std::ranges::find(kMethods, method, &MethodTraits::method);
  CDT_REQUIRE(found != kMethods.end(), "unknown method ", static_cast<int>(method));
  return *found;
}

Method parse_method(std::string_view name) {
  std::string known;
  for (const MethodTraits& entry : kMethods) {
    if (entry.name == name) return entry.method;
    known += c10::str(known.empty() ? "" : ", ", entry.name);
  }
  throw InvalidArgument(c10::str("method must be one of ", known, ", got '", name, "'"));
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const MethodTraits& entry : kMethods) names.emplace_back(entry.name);
  return names;
}

std::string to_string(Method method) { return std::string(traits_of(method).name); }
bool is_controlled(Method method) { return traits_of(method).controlled; }
bool is_optimizer(Method method) { return traits_of(method).optimizer; }

double start_rate(Method method, double unit) {
  const MethodTraits& traits = traits_of(method);
  return traits.by_curvature ? traits.start_rate * unit : traits.start_rate;
}

}  // namespace cdt::train
