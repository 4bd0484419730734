#include <cdt/control/certificate.h>
#include <cdt/core/io/json.h>
#include <cdt/core/text/format.h>
#include <fmt/format.h>

#include <bit>

namespace cdt::control {

using torch::Tensor;

namespace {

nlohmann::ordered_json to_json(const Known& number) {
  if (number.exact()) return number_or_null(number.value);
  return {{"value", number_or_null(number.value)},
          {"lower", number_or_null(number.lower)},
          {"upper", number_or_null(number.upper)}};
}

Known parse_known(const JsonValue& json) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!json.exists()) return {};
  if (!json.raw().is_object()) return Known::exactly(json.number());
  return {json["value"].number_or_nan(), json["lower"].number_or(-kInfinity),
          json["upper"].number_or(kInfinity)};
}

}  // namespace

nlohmann::ordered_json to_json(const Certificate& certificate) {
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  return {{"name", certificate.controller},
          {"makes_least", text(certificate.optimal)},
          {"lr", number_or_null(certificate.rate)},
          {"gain", number_or_null(certificate.gain)},
          {"residual", number_or_null(certificate.residual)},
          {"radius", to_json(certificate.radius)},
          {"kernel_margin", to_json(certificate.kernel_margin)},
          {"overshoot_margin", to_json(certificate.overshoot_margin)},
          {"gain_margin", to_json(certificate.gain_margin)},
          {"digest", text(certificate.digest)}};
}

Certificate parse_certificate(const JsonValue& json) {
  Certificate found;
  found.controller = json["name"].text();
  found.optimal = json["makes_least"].text_or("");
  found.rate = json["lr"].number_or_nan();
  found.gain = json["gain"].number_or_nan();
  found.residual = json["residual"].number_or_nan();
  found.radius = parse_known(json["radius"]);
  found.kernel_margin = parse_known(json["kernel_margin"]);
  found.overshoot_margin = parse_known(json["overshoot_margin"]);
  found.gain_margin = parse_known(json["gain_margin"]);
  found.digest = json["digest"].text_or("");
  return found;
}

std::string digest_of(std::initializer_list<Tensor> numbers) {
  // FNV-1a, by words: the order of the numbers counts.
  uint64_t hash = 14695981039346656037u;
  for (const Tensor& each : numbers) {
    const Tensor host = each.detach().to(torch::kCPU, torch::kFloat64).contiguous();
    const double* value = host.data_ptr<double>();
    for (int64_t i = 0; i < host.numel(); ++i) {
      hash ^= std::bit_cast<uint64_t>(value[i]);
      hash *= 1099511628211u;
      hash ^= hash >> 32;
    }
  }
  return fmt::format("{:016x}", hash);
}

Certificate damped_certificate(double mu, const Known& largest, const Known& smallest) {
  Certificate found;
  found.optimal = fmt::format("|e|^2 + mu|step|^2 after one step, mu={:.6g}", mu);
  const auto left_at_least = [mu](double lambda) { return mu / (lambda + mu); };
  found.radius = smallest.bounded()
                     ? Known{left_at_least(smallest.value), left_at_least(smallest.upper),
                             left_at_least(smallest.lower)}
                     : Known::within(left_at_least(largest.upper), 1);
  // The kernel may grow until (1 + δλ/μ) falls behind: of every mode the largest is the first.
  const auto times = [&](double most) {
    return Known{most * (1 + mu / largest.value), most * (1 + mu / largest.upper),
                 most * (1 + mu / largest.lower)};
  };
  found.kernel_margin = times(2);
  found.overshoot_margin = times(1);
  return found;
}

Certificate damped_certificate(double mu, const Tensor& lambda, int64_t nullity,
                               double step_scale) {
  const int64_t rank = lambda.numel() - nullity;
  const auto reachable = [&](const Tensor& t) { return t.narrow(0, nullity, rank); };
  Known smallest;
  if (rank > 0) smallest = Known::exactly(reachable(lambda)[0].item<double>());
  Certificate found =
      damped_certificate(mu, Known::exactly(lambda[lambda.numel() - 1].item<double>()), smallest);
  const Tensor s = lambda * step_scale;
  const Tensor gain = 1 / (step_scale * (lambda + mu)) - 1;
  found.spectrum = torch::stack({lambda, s, gain, mu / (lambda + mu)});
  found.gain_margin = augment_interval(reachable(s), reachable(gain));
  return found;
}

Known augment_interval(const Tensor& s, const Tensor& k) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (s.numel() == 0) return Known::within(-kInfinity, kInfinity);
  // δk > −1 and δk < (2 − s)/s; dividing by k turns both where k < 0, and k = 0 bounds nothing.
  const Tensor slow = -1 / k;
  const Tensor fast = (2 - s) / (s * k);
  const Tensor none = torch::full_like(k, kInfinity);
  const Tensor lower = torch::where(k > 0, slow, torch::where(k < 0, fast, -none));
  const Tensor upper = torch::where(k > 0, fast, torch::where(k < 0, slow, none));
  return Known::within(lower.max().item<double>(), upper.min().item<double>());
}

}  // namespace cdt::control
