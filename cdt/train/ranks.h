/// Processes that train one network together, each on rows of its own
/// (docs/explanation/devices.md).
///
/// All ranks hold the same parameters and take the same way: whatever decides is a sum over the
/// rows of all, or follows from parameters, so that it has the same bits everywhere. Only such sums
/// and a few rows travel. One process alone is the case of one rank, where nothing does.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <memory>

namespace cdt::train {

/// Alone, unless a derived class knows others. Every rank must make the same calls in the same
/// order.
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
  /// What the first rank says: for clocks, which differ.
  double first(double own) const;

  /// @throws InvalidArgument, naming rank and matter, if another rank has another text than the
  ///   first one: "rank 2 has another data file than rank 0".
  void require_same(const std::string& matter, const std::string& text) const;
};

/// One process.
std::shared_ptr<const Ranks> alone();

/// A range of rows.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
};

/// Of `rows` rows those that this rank takes: ranges one after another, as equal as can be.
Share share_of(const Ranks& ranks, int64_t rows);
/// The same, of rows to train with.
/// @throws InvalidArgument if there are fewer rows than ranks.
Share training_share(const Ranks& ranks, int64_t rows);

/// `evaluate` of rows that every rank has [r, …], each taking its share; [r, …] on every rank.
template <class Evaluate>
torch::Tensor evaluate_together(const Ranks& ranks, const torch::Tensor& x,
                                const Evaluate& evaluate) {
  if (!ranks.several()) return evaluate(x);
  const Share own = share_of(ranks, x.size(0));
  // Networks need not take an empty batch: a row too many, and none of it kept.
  if (own.count == 0) return ranks.gather(evaluate(x.narrow(0, 0, 1)).narrow(0, 0, 0));
  return ranks.gather(evaluate(x.narrow(0, own.first, own.count)));
}

}  // namespace cdt::train
