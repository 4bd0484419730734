#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/train/ranks.h>

namespace cdt::train {

using torch::Tensor;

namespace {

Tensor number(double value) { return torch::full({1}, value, torch::kFloat64); }

}  // namespace

double Ranks::sum(double part) const { return several() ? sum(number(part)).item<double>() : part; }

bool Ranks::all(bool own) const { return sum(own ? 0.0 : 1.0) == 0; }

double Ranks::first(double own) const {
  return several() ? gather(number(own))[0].item<double>() : own;
}

void Ranks::require_same(const std::string& matter, const std::string& text) const {
  if (!several()) return;
  const auto hash = static_cast<int64_t>(std::stoull(checksum(text), nullptr, 16));
  const Tensor all = gather(torch::full({1}, hash, torch::kInt64));
  const auto* found = all.data_ptr<int64_t>();
  for (int64_t k = 1; k < size(); ++k) {
    CDT_REQUIRE(found[k] == found[0], "rank ", k, " has another ", matter,
                " than rank 0; all ranks must have the same");
  }
}

std::shared_ptr<const Ranks> alone() {
  static const auto one = std::make_shared<const Ranks>();
  return one;
}

Share share_of(const Ranks& ranks, int64_t rows) {
  const int64_t first = rows * ranks.rank() / ranks.size();
  return {first, rows * (ranks.rank() + 1) / ranks.size() - first};
}

Share training_share(const Ranks& ranks, int64_t rows) {
  CDT_REQUIRE(rows >= ranks.size(), rows, " training rows cannot be shared by ", ranks.size(),
              " workers: each needs one at least");
  return share_of(ranks, rows);
}

}  // namespace cdt::train
