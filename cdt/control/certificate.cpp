#include <cdt/control/certificate.h>
#include <fmt/format.h>

#include <bit>

namespace cdt::control {

using torch::Tensor;

void Known::fields(Fields& f) {
  f("value", value);
  f("lower", lower);
  f("upper", upper);
}

void Certificate::fields(Fields& f) {
  f.need("name", controller);
  f.some("makes_least", optimal);
  f("lr", rate);
  f("gain", gain);
  f("residual", residual);
  f("radius", radius);
  f("kernel_margin", kernel_margin);
  f("overshoot_margin", overshoot_margin);
  f("gain_margin", gain_margin);
  f.some("digest", digest);
}

std::string digest_of(std::initializer_list<Tensor> numbers) {
  // FNV-1a over 64-bit words; the order of the numbers matters.
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
  // The solve uses the old kernel, so a growth δ is bounded by δλ/(λ + μ) < most; the largest λ
  // reaches it first.
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
  // δk > −1 and δk < (2 − s)/s. For k < 0 the division by k reverses both; k = 0 gives no bound.
  const Tensor slow = -1 / k;
  const Tensor fast = (2 - s) / (s * k);
  const Tensor none = torch::full_like(k, kInfinity);
  const Tensor lower = torch::where(k > 0, slow, torch::where(k < 0, fast, -none));
  const Tensor upper = torch::where(k > 0, fast, torch::where(k < 0, slow, none));
  return Known::within(lower.max().item<double>(), upper.min().item<double>());
}

}  // namespace cdt::control
