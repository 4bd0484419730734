/// Samples by row, made when they are asked for: what training data are to everything that comes
/// after, wherever they lie.
///
/// A new source (a folder of images, a file that is mapped into memory) is a class of its own.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/preprocess.h>

namespace cdt::data {

struct Batch {
  torch::Tensor x;  ///< [rows, …] features
  torch::Tensor y;  ///< [rows, n_L] labels; undefined without any
};

class Samples {
 public:
  virtual ~Samples() = default;

  virtual int64_t count() const = 0;
  /// Of one sample: {79}, or {3, 32, 32}.
  virtual std::vector<int64_t> feature_shape() const = 0;
  /// n_L; 0 without labels.
  virtual int64_t label_count() const = 0;

  /// These rows, in this order; a row may come again.
  /// @throws InvalidArgument if a row is not one of 0, …, count() − 1, or the source has something
  ///   wrong in one of them (TableSamples: as Preprocess::transform).
  Batch batch(const std::vector<int64_t>& rows) const;
  /// All rows in their order.
  virtual Batch all() const;

 protected:
  /// The rows exist.
  virtual Batch make(const std::vector<int64_t>& rows) const = 0;
};

/// Samples that lie in memory as tensors.
class TensorSamples : public Samples {
 public:
  /// x [r, …] and y [r, n_L], or y undefined.
  /// @throws InvalidArgument if x has no rows, or y not as many.
  explicit TensorSamples(torch::Tensor x, torch::Tensor y = {});

  int64_t count() const override { return x_.size(0); }
  std::vector<int64_t> feature_shape() const override { return x_.sizes().slice(1).vec(); }
  int64_t label_count() const override { return y_.defined() ? y_.size(1) : 0; }
  /// The tensors themselves, no copies.
  Batch all() const override { return {x_, y_}; }

 protected:
  Batch make(const std::vector<int64_t>& rows) const override;

 private:
  torch::Tensor x_, y_;
};

/// Rows of a table, encoded and scaled by a fitted preprocessing when they are asked for: float64
/// (pictures float32) on the CPU.
class TableSamples : public Samples {
 public:
  enum class Labels { kFromTargets, kNone };

  /// `rows` of the table, which must outlive the samples: sample i is row rows[i].
  /// @throws InvalidArgument if a row does not exist.
  TableSamples(const Table& table, Preprocess preprocess, std::vector<int64_t> rows,
               Labels labels = Labels::kFromTargets);
  /// All rows.
  TableSamples(const Table& table, Preprocess preprocess, Labels labels = Labels::kFromTargets);
  TableSamples(Table&&, Preprocess, std::vector<int64_t>, Labels = Labels::kNone) = delete;
  TableSamples(Table&&, Preprocess, Labels = Labels::kNone) = delete;

  int64_t count() const override { return static_cast<int64_t>(rows_.size()); }
  std::vector<int64_t> feature_shape() const override { return preprocess_.feature_shape(); }
  /// Of the table.
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
