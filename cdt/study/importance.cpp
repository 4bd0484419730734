#include <cdt/study/importance.h>

#include <algorithm>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Number of permutations averaged.
constexpr int kExchanges = 3;

/// The features of each column, including parts of dates, pieces and indicators.
std::vector<std::pair<std::string, std::vector<int64_t>>> columns_of(
    const data::Preprocess& preprocess) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> columns;
  int64_t next = 0;
  for (const data::FeatureColumn& feature : preprocess.features) {
    if (columns.empty() || columns.back().first != feature.name)
      columns.push_back({feature.name, {}});
    for (size_t k = 0; k < feature.scales.size(); ++k) columns.back().second.push_back(next++);
  }
  return columns;
}

}  // namespace

std::vector<Importance> permutation_importance(const Problem& problem, const Learned& learned,
                                               const loss::LossPtr& loss, uint64_t seed) {
  const torch::NoGradGuard no_graph;
  const train::TrainData all = all_rows(problem);
  const size_t first = learned.networks.size() - learned.held.size();
  // Losses are means, so they are weighted by the numbers of rows.
  const auto loss_of = [&](const std::vector<int64_t>* features, uint64_t draw) {
    double sum = 0, rows = 0;
    for (size_t w = 0; w < learned.held.size(); ++w) {
      const Tensor at = torch::tensor(learned.held[w], torch::kInt64).to(all.x.device());
      Tensor x = all.x.index_select(0, at);
      if (features != nullptr) {
        const Tensor columns = torch::tensor(*features, torch::kInt64).to(x.device());
        const auto order = data::sample_rows(x.size(0), x.size(0), draw + w);
        const Tensor other = x.index_select(0, torch::tensor(order, torch::kInt64).to(x.device()));
        x = x.index_copy(1, columns, other.index_select(1, columns));
      }
      const Tensor y = all.y.index_select(0, at).to(torch::kFloat64);
      Tensor outputs =
          nn::outputs_of(learned.networks[first + w], x).view(y.sizes()).to(torch::kFloat64);
      if (learned.line) {
        const Tensor share = torch::tensor(learned.line_shares, outputs.options());
        outputs = outputs.lerp(nn::outputs_of(*learned.line, x).to(torch::kFloat64), share);
      }
      sum += static_cast<double>(x.size(0)) * loss::assess(*loss, outputs, y).loss;
      rows += static_cast<double>(x.size(0));
    }
    return sum / rows;
  };
  const double base = loss_of(nullptr, 0);
  std::vector<Importance> found;
  for (const auto& [name, features] : columns_of(problem.preprocess)) {
    double exchanged = 0;
    for (int i = 0; i < kExchanges; ++i) {
      exchanged += loss_of(&features, seed + 1000 * static_cast<uint64_t>(i)) / kExchanges;
    }
    found.push_back({name, exchanged / base - 1});
  }
  std::stable_sort(found.begin(), found.end(), [](const Importance& a, const Importance& b) {
    return a.increase > b.increase;
  });
  return found;
}

}  // namespace cdt::study
