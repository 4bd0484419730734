/// Processes that train one network together, each on its own rows (docs/explanation/devices.md).
///
/// All ranks hold the same parameters and make the same decisions: every decision depends only on
/// the parameters or on sums over the rows of all ranks, which have the same bits on every rank.
/// Only such sums and a few rows are communicated. A single process is the case of one rank,
/// without communication.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <memory>

namespace cdt::train {

/// A single process; derived classes connect several. Every rank must make the same calls in the
/// same order.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int64_t rank() const { return 0; }
  virtual int64_t size() const { return 1; }
  bool several() const { return size() > 1; }

  /// Σ over ranks of float64 numbers [any shape, the same on all]; the same bits on every rank.
  virtual torch::Tensor sum(const torch::Tensor& part) const { return part; }
  /// The rows of all ranks one after another, [r_k, …] → [Σ r_k, …]; r_k may be 0.
  virtual torch::Tensor gather(const torch::Tensor& rows) const { return rows; }

  double sum(double part) const;
  bool all(bool own) const;
  /// Returns the first rank's value: for clocks, which differ between ranks.
  double first(double own) const;

  /// @throws InvalidArgument if another rank has a different text; the message names rank and
  ///   matter: "rank 2 has another data file than rank 0".
  void require_same(const std::string& matter, const std::string& text) const;
};

/// One process.
std::shared_ptr<const Ranks> alone();

/// A range of rows.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
};

/// The share of this rank in `rows` rows: consecutive ranges of nearly equal size.
Share share_of(const Ranks& ranks, int64_t rows);
/// The same for training rows.
/// @throws InvalidArgument if there are fewer rows than ranks.
Share training_share(const Ranks& ranks, int64_t rows);

/// Evaluates rows [r, …] that every rank has, each rank its share; returns [r, …] on every rank.
template <class Evaluate>
torch::Tensor evaluate_together(const Ranks& ranks, const torch::Tensor& x,
                                const Evaluate& evaluate) {
  if (!ranks.several()) return evaluate(x);
  const Share own = share_of(ranks, x.size(0));
  // Networks may refuse an empty batch: evaluate one row and discard it.
  if (own.count == 0) return ranks.gather(evaluate(x.narrow(0, 0, 1)).narrow(0, 0, 0));
  return ranks.gather(evaluate(x.narrow(0, own.first, own.count)));
}

}  // namespace cdt::train
