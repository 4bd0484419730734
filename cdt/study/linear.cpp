#include <cdt/core/text/text.h>
#include <cdt/data/rows/equal_rows.h>
#include <cdt/nn/mlp.h>
#include <cdt/study/estimate.h>
#include <cdt/study/linear.h>
#include <cdt/study/predictions.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Rows processed at a time, in float64.
constexpr int64_t kLineBlock = int64_t{1} << 14;
/// Limit on operations of all fits, in float64: some seconds.
constexpr double kMostLineOperations = 2e11;
/// Operations of an eigendecomposition, in units of n³.
constexpr double kEigenOperations = 9;
constexpr std::array kLineShares{0.25, 0.5, 0.75, 1.0};
constexpr double kSayOfBoth = 0.5;
/// A linear model with a mean square below this share of the networks' needs no significance test.
constexpr double kPlainlyLess = 0.25;
/// Features without pieces between quantiles extrapolate linearly, so they must be better by this
/// share.
constexpr double kPiecesGain = 0.02;

/// Indices of all features except pieces of numbers.
Tensor plain_features(const data::Preprocess& preprocess, int64_t count) {
  std::vector<int64_t> plain;
  int64_t next = 0;
  for (const data::FeatureColumn& column : preprocess.features) {
    const auto features = static_cast<int64_t>(column.scales.size());
    const auto pieces = std::max<int64_t>(0, static_cast<int64_t>(column.knots.size()) - 1);
    for (int64_t k = 0; k < features - pieces; ++k) plain.push_back(next + k);
    next += features;
  }
  return next == count ? torch::tensor(plain, torch::kInt64) : torch::arange(count, torch::kInt64);
}

double operations_of_line(int64_t rows, int64_t features) {
  const auto least = static_cast<double>(std::min(rows, features));
  const auto most = static_cast<double>(std::max(rows, features));
  return 2 * least * least * most + kEigenOperations * least * least * least;
}

nn::Network network_of(const LinearFit& fit, torch::ScalarType dtype) {
  nn::MlpOptions layers;
  layers.hidden = {};
  layers.inputs = fit.weights.size(0);
  layers.outputs = fit.weights.size(1);
  nn::Mlp line(layers, /*seed=*/1, dtype);
  const torch::NoGradGuard no_graph;
  const nn::LayerScaling& scaling = line->scaling(0);
  Tensor(line->weight(0)).copy_(fit.weights.t() / scaling.weight_factor);
  Tensor(line->bias(0)).copy_(fit.bias / scaling.bias_factor);
  return line;
}

/// Predictions of the linear model for rows x, float64.
Tensor along(const LinearFit& fit, const Tensor& x) {
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < x.size(0); first += kLineBlock) {
    const Tensor some = x.narrow(0, first, std::min(kLineBlock, x.size(0) - first));
    parts.push_back(some.to(torch::kCPU, torch::kFloat64).mm(fit.weights) + fit.bias);
  }
  return torch::cat(parts);
}

/// Predictions [r, t] of held-out rows. `predict` computes them from the rows that a fold network
/// has seen, their targets, and its held-out rows. Rows never held out are zero.
template <class Predict>
Tensor of_held_out(const train::TrainData& all, const Learned& learned, const Predict& predict) {
  const int64_t r = all.x.size(0);
  const Tensor y = all.y.to(torch::kCPU, torch::kFloat64);
  std::map<std::vector<int64_t>, bool> done;  // several fold networks may hold out the same rows
  Tensor sum = torch::zeros_like(y), count = torch::zeros({r, 1}, torch::kFloat64);
  for (const std::vector<int64_t>& held : learned.held) {
    if (!done.emplace(held, true).second) continue;
    const Tensor out = torch::tensor(held, torch::kInt64);
    const Tensor is_seen = torch::ones({r}, torch::kBool).index_fill_(0, out, false);
    const Tensor seen = is_seen.nonzero().squeeze(1);
    sum.index_add_(0, out, predict(seen, y.index_select(0, seen), out));
    count.index_add_(0, out, torch::ones({out.size(0), 1}, torch::kFloat64));
  }
  return sum / count.clamp_min(1);
}

Tensor held_out_lines(const train::TrainData& all, const Tensor& features, const Learned& learned) {
  const Tensor x = all.x.cpu().index_select(1, features);
  return of_held_out(all, learned, [&](const Tensor& seen, const Tensor& y, const Tensor& out) {
    return along(fit_linear(x.index_select(0, seen), y), x.index_select(0, out));
  });
}

/// The share of the linear model with the smallest error, for one target in units of the file.
double best_share(const data::TargetColumn& target, const Tensor& networks, const Tensor& line,
                  const Tensor& wanted, const std::vector<int64_t>& different) {
  const auto squares = [&](const Tensor& scaled) {
    const auto units = [&](const Tensor& z) {
      const Tensor value = z * target.scale.scale + target.scale.offset;
      return target.log ? value.exp() : value;
    };
    return (units(scaled) - units(wanted)).square();
  };
  const Tensor alone = squares(networks), of_line = squares(line);
  const double by_networks = alone.mean().item<double>();
  double best = 0, least = by_networks;
  Tensor of_best = alone;
  for (const double share : kLineShares) {
    const Tensor each = squares((1 - share) * networks + share * line);
    const double mean = each.mean().item<double>();
    if (!(mean < least)) continue;  // for a logarithm a linear model may diverge
    least = mean, best = share, of_best = each;
  }
  if (best == 0) return 0;
  const int64_t rows = count_different(different, wanted.size(0));
  const double by_line = of_line.mean().item<double>();
  if (by_line < kPlainlyLess * by_networks ||
      lead_of(alone - of_best, different) > errors_on_a_side(rows)) {
    return best;
  }
  // Not significant: if the linear model alone is better, both contribute.
  const bool line_wins = by_line < by_networks;
  return line_wins ? std::min(best, kSayOfBoth) : 0;
}

}  // namespace

LinearFit fit_linear(const Tensor& x, const Tensor& y, const std::vector<int64_t>& different) {
  const int64_t r = x.size(0), t = y.size(1);
  const auto rows = static_cast<double>(r);
  LinearFit fit;
  const Tensor centre_y = y.mean(0);
  const Tensor e = y - centre_y;
  const auto for_blocks = [&](const auto& work) {
    for (int64_t first = 0; first < r; first += kLineBlock) {
      work(first, std::min(kLineBlock, r - first));
    }
  };
  const auto wide = [&](int64_t first, int64_t count) {
    return x.narrow(0, first, count).to(torch::kCPU, torch::kFloat64);
  };
  const Tensor sum = torch::zeros({x.size(1)}, torch::kFloat64);
  for_blocks([&](int64_t first, int64_t count) { sum.add_(wide(first, count).sum(0)); });
  const Tensor centre_x = sum / rows;
  const auto centred = [&](int64_t first, int64_t count) { return wide(first, count) - centre_x; };
  // Uses the smaller of the two Gram matrices; H = Q diag(s/(s + λ)) Qᵀ + 11ᵀ/r.
  const bool tall = r > x.size(1);
  Tensor gram;
  if (tall) {
    gram = torch::zeros({x.size(1), x.size(1)}, torch::kFloat64);
    for_blocks([&](int64_t first, int64_t count) {
      const Tensor X = centred(first, count);
      gram.addmm_(X.t(), X);
    });
  } else {
    const Tensor X = centred(0, r);
    gram = X.mm(X.t());
  }
  const auto [values, vectors] = torch::linalg_eigh(gram);
  const double largest = values.max().clamp_min(0).item<double>();
  if (largest == 0) return {torch::zeros({x.size(1), t}, torch::kFloat64), centre_y, e};
  const Tensor kept = values.gt(1e-12 * largest).nonzero().squeeze(1);
  const Tensor s = values.index_select(0, kept);
  const Tensor V = vectors.index_select(1, kept);
  const auto Q = [&](int64_t first, int64_t count) {
    return tall ? centred(first, count).mm(V) / s.sqrt() : V.narrow(0, first, count);
  };
  const Tensor c = torch::zeros({s.size(0), t}, torch::kFloat64);
  for_blocks([&](int64_t first, int64_t count) {
    c.addmm_(Q(first, count).t(), e.narrow(0, first, count));
  });
  std::vector<Tensor> shares;  // s/(s + λ), for each λ
  for (double share = 1e-6; share < 20; share *= 3) shares.push_back(s / (s + share * largest));
  const Tensor h = torch::stack(shares, 1);
  // Sums over equal rows, which are left out together: (I − l·11ᵀ)⁻¹ = I + l/(1 − ml)·11ᵀ for m
  // rows of leverage l.
  Tensor of, sizes;
  if (!different.empty()) {
    of = torch::tensor(data::numbered(different), torch::kInt64);
    sizes = of.bincount().to(torch::kFloat64);
  }
  const auto residual = [&](int64_t target, const Tensor& q, int64_t first, const Tensor& share) {
    return e.narrow(0, first, q.size(0)).narrow(1, target, 1) -
           q.mm(share * c.narrow(1, target, 1));
  };
  const auto sums_of = [&](int64_t target, const Tensor& share) {
    if (different.empty()) return Tensor();
    const Tensor sums = torch::zeros({sizes.size(0), share.size(1)}, torch::kFloat64);
    for_blocks([&](int64_t first, int64_t count) {
      sums.index_add_(0, of.narrow(0, first, count),
                      residual(target, Q(first, count), first, share));
    });
    return sums;
  };
  const auto left_out = [&](int64_t target, const Tensor& q, int64_t first, const Tensor& share,
                            const Tensor& sums) {
    const Tensor own = residual(target, q, first, share);
    const Tensor leverage = q.square().mm(share) + 1 / rows;
    if (different.empty()) return own / (1 - leverage).clamp_min(1e-9);
    const Tensor at = of.narrow(0, first, q.size(0));
    const Tensor all = sizes.index_select(0, at).unsqueeze(1) * leverage;
    return own + leverage / (1 - all).clamp_min(1e-9) * sums.index_select(0, at);
  };
  std::vector<Tensor> chosen;  // for each target
  fit.left_out = torch::empty_like(e);
  for (int64_t k = 0; k < t; ++k) {
    const Tensor sums = sums_of(k, h);
    const Tensor squares = torch::zeros({h.size(1)}, torch::kFloat64);
    for_blocks([&](int64_t first, int64_t count) {
      squares.add_(left_out(k, Q(first, count), first, h, sums).square().sum(0));
    });
    const int64_t best = squares.argmin().item<int64_t>();
    chosen.push_back(h.narrow(1, best, 1));
    const Tensor own = sums.defined() ? sums.narrow(1, best, 1) : sums;
    for_blocks([&](int64_t first, int64_t count) {
      fit.left_out.narrow(0, first, count)
          .narrow(1, k, 1)
          .copy_(left_out(k, Q(first, count), first, chosen.back(), own));
    });
  }
  const Tensor best = torch::cat(chosen, 1);  // [k, t]
  const Tensor moment = torch::zeros({x.size(1), t}, torch::kFloat64);
  if (!tall) {  // Xᵀ(G + λI)⁻¹ e, G = XXᵀ
    for_blocks([&](int64_t first, int64_t count) {
      moment.addmm_(centred(first, count).t(), Q(first, count).mm(best * c / s.unsqueeze(1)));
    });
  }
  fit.weights = tall ? V.mm(best * c / s.sqrt().unsqueeze(1)) : moment;
  fit.bias = centre_y - centre_x.unsqueeze(0).mm(fit.weights).squeeze(0);
  return fit;
}

Baselines held_out_baselines(const train::TrainData& all, const Learned& learned) {
  const Tensor mean =
      of_held_out(all, learned, [](const Tensor&, const Tensor& y, const Tensor& out) {
        return y.mean(0).expand({out.size(0), y.size(1)});
      });
  return {held_out_lines(all, torch::arange(all.x.size(1), torch::kInt64), learned), mean};
}

double linear_error(const Tensor& x, const Tensor& y, const std::vector<int64_t>& different) {
  return fit_linear(x, y.unsqueeze(1), different).left_out.square().mean().sqrt().item<double>();
}

std::string add_line(const Problem& problem, const loss::LossPtr& loss, Learned& learned) {
  const data::Preprocess& preprocess = problem.preprocess;
  const train::TrainData all = all_rows(problem);
  const Tensor rows = torch::isfinite(learned.held_out).all(1).nonzero().squeeze(1);
  constexpr int64_t kLeastRows = 10;
  if (!loss->quadratic() || preprocess.has_classes() || all.x.dim() != 2 ||
      all.sample_weights.defined() || rows.numel() < kLeastRows ||
      static_cast<double>(2 * learned.held.size() + 1) *
              operations_of_line(all.x.size(0), all.x.size(1)) >
          kMostLineOperations) {
    return "";
  }
  const torch::NoGradGuard no_graph;
  const Tensor y = all.y.to(torch::kCPU, torch::kFloat64);
  const std::array<Tensor, 2> features{plain_features(preprocess, all.x.size(1)),
                                       torch::arange(all.x.size(1), torch::kInt64)};
  const std::array<Tensor, 2> held{held_out_lines(all, features[0], learned),
                                   held_out_lines(all, features[1], learned)};
  std::vector<size_t> taken;  // choice for each target
  Tensor lines = torch::empty_like(y);
  std::vector<int64_t> different;
  for (int64_t i = 0; !problem.different.empty() && i < rows.numel(); ++i) {
    different.push_back(problem.different[static_cast<size_t>(rows[i].item<int64_t>())]);
  }
  std::vector<double> shares;
  std::string words;
  for (int64_t t = 0; t < y.size(1); ++t) {
    const data::TargetColumn& target = preprocess.targets[static_cast<size_t>(t)];
    const auto of = [&](const Tensor& values) { return values.select(1, t).index_select(0, rows); };
    const auto square = [&](size_t which) {
      return (of(held[which]) - of(y)).square().mean().item<double>();
    };
    taken.push_back(square(1) < (1 - kPiecesGain) * square(0) ? 1 : 0);
    lines.select(1, t).copy_(held[taken.back()].select(1, t));
    const double share = best_share(target, of(learned.held_out), of(lines), of(y), different);
    shares.push_back(share);
    if (share == 0) continue;
    words += fmt::format("{}{}: {}", words.empty() ? "" : "; ", printable_name(target.name),
                         share == 1 ? "a linear model has the lower held-out error, and predicts "
                                      "instead of the networks"
                                    : fmt::format("held-out rows give a linear model a weight of "
                                                  "{:.0f} % beside the networks",
                                                  100 * share));
  }
  if (words.empty()) return "";
  const Tensor share = torch::tensor(shares, torch::kFloat64);
  learned.held_out = (1 - share) * learned.held_out + share * lines;
  LinearFit whole{torch::zeros({all.x.size(1), y.size(1)}, torch::kFloat64),
                  torch::zeros({y.size(1)}, torch::kFloat64),
                  {}};
  for (int64_t t = 0; t < y.size(1); ++t) {
    const Tensor& own = features[taken[static_cast<size_t>(t)]];
    const LinearFit fit = fit_linear(all.x.cpu().index_select(1, own), y.narrow(1, t, 1));
    whole.weights.select(1, t).index_copy_(0, own, fit.weights.squeeze(1));
    whole.bias.narrow(0, t, 1).copy_(fit.bias);
  }
  learned.line = network_of(whole, problem.model->dtype());
  (*learned.line)->to(all.x.device());
  learned.line_shares = shares;
  // Losses are those of the combined predictor.
  Predictor both;
  both.members = learned.networks;
  both.members.push_back(*learned.line);
  for (const double each : shares) both.targets.push_back({.line = each});
  learned.result.train_loss = loss::assess(*loss, mean_outputs(both, all.x), y).loss;
  learned.result.val_loss = learned.result.best_val_loss =
      loss::assess(*loss, learned.held_out.index_select(0, rows), y.index_select(0, rows)).loss;
  return words;
}

}  // namespace cdt::study
