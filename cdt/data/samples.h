/// Samples by row, created on request: the interface to training data, wherever it is stored.
///
/// A new source (an image folder, a mapped file) is a new subclass.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/preprocess.h>

namespace cdt::data {

struct Batch {
  torch::Tensor x;  ///< [rows, …] features
  torch::Tensor y;  ///< [rows, n_L] labels; undefined if there are none
};

class Samples {
 public:
  virtual ~Samples() = default;

  virtual int64_t count() const = 0;
  /// Shape of one sample: {79}, or {3, 32, 32}.
  virtual std::vector<int64_t> feature_shape() const = 0;
  /// n_L; 0 without labels.
  virtual int64_t label_count() const = 0;

  /// These rows, in this order; rows may be repeated.
  /// @throws InvalidArgument if a row is not one of 0, …, count() − 1, or the source rejects one of
  ///   them (TableSamples: as Preprocess::transform).
  Batch batch(const std::vector<int64_t>& rows) const;
  /// All rows in their order.
  virtual Batch all() const;

 protected:
  /// Implements `batch`, which has checked the rows.
  virtual Batch make(const std::vector<int64_t>& rows) const = 0;
};

/// Samples in memory as tensors.
class TensorSamples : public Samples {
 public:
  /// x [r, …] and y [r, n_L], or y undefined.
  /// @throws InvalidArgument if x has no rows, or y has another number of rows.
  explicit TensorSamples(torch::Tensor x, torch::Tensor y = {});

  int64_t count() const override { return x_.size(0); }
  std::vector<int64_t> feature_shape() const override { return x_.sizes().slice(1).vec(); }
  int64_t label_count() const override { return y_.defined() ? y_.size(1) : 0; }
  /// The tensors themselves, not copies.
  Batch all() const override { return {x_, y_}; }

 protected:
  Batch make(const std::vector<int64_t>& rows) const override;

 private:
  torch::Tensor x_, y_;
};

/// Rows of a table, encoded and scaled by a fitted preprocessing on request: float64 (pictures
/// float32) on the CPU.
class TableSamples : public Samples {
 public:
  enum class Labels { kFromTargets, kNone };

  /// Uses `rows` of the table, which must outlive the samples: sample i is row rows[i].
  /// @throws InvalidArgument if a row does not exist.
  TableSamples(const Table& table, Preprocess preprocess, std::vector<int64_t> rows,
               Labels labels = Labels::kFromTargets);
  /// Uses all rows.
  TableSamples(const Table& table, Preprocess preprocess, Labels labels = Labels::kFromTargets);
  TableSamples(Table&&, Preprocess, std::vector<int64_t>, Labels = Labels::kNone) = delete;
  TableSamples(Table&&, Preprocess, Labels = Labels::kNone) = delete;

  int64_t count() const override { return static_cast<int64_t>(rows_.size()); }
  std::vector<int64_t> feature_shape() const override { return preprocess_.feature_shape(); }
  /// Rows of the table.
  const std::vector<int64_t>& rows() const { return rows_; }
  int64_t label_count() const override {
    return labels_ == Labels::kNone ? 0 : preprocess_.output_count();
  }

 protected:
  Batch make(const std::vector<int64_t>& rows) const override;

 private:
  const Table& table_;
  Preprocess preprocess_;
  std::vector<int64_t> rows_;
  Labels labels_;
};

}  // namespace cdt::data
