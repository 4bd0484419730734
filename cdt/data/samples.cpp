#include "cdt/data/samples.h"

#include <numeric>

#include "cdt/core/error.h"

namespace cdt::data {
namespace {

std::vector<int64_t> first_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

}  // namespace

Batch Samples::batch(const std::vector<int64_t>& rows) const {
  for (const int64_t row : rows) {
    CDT_REQUIRE(row >= 0 && row < count(), "expected samples from 0 to ", count() - 1, ", got ",
                row);
  }
  return make(rows);
}

Batch Samples::all() const { return make(first_rows(count())); }

TensorSamples::TensorSamples(torch::Tensor x, torch::Tensor y)
    : x_(std::move(x)), y_(std::move(y)) {
  CDT_REQUIRE(x_.defined() && x_.dim() >= 1 && x_.size(0) > 0,
              "expected features [r, …] of one sample or more, got ",
              x_.defined() ? c10::str("shape ", x_.sizes()) : "none");
  CDT_REQUIRE(!y_.defined() || (y_.dim() == 2 && y_.size(0) == x_.size(0)), "expected labels [",
              x_.size(0), ", n_L], a row for each sample, got shape ", y_.sizes());
}

Batch TensorSamples::make(const std::vector<int64_t>& rows) const {
  const torch::Tensor index = torch::tensor(rows, torch::kInt64).to(x_.device());
  return {x_.index_select(0, index),
          y_.defined() ? y_.index_select(0, index.to(y_.device())) : torch::Tensor()};
}

TableSamples::TableSamples(const Table& table, Preprocess preprocess, std::vector<int64_t> rows,
                           Labels labels)
    : table_(table), preprocess_(std::move(preprocess)), rows_(std::move(rows)), labels_(labels) {
  for (const int64_t row : rows_) {
    CDT_REQUIRE(row >= 0 && row < table.rows(), table.source, ": expected rows from 0 to ",
                table.rows() - 1, ", got ", row);
  }
}

TableSamples::TableSamples(const Table& table, Preprocess preprocess, Labels labels)
    : TableSamples(table, std::move(preprocess), first_rows(table.rows()), labels) {}

Batch TableSamples::make(const std::vector<int64_t>& rows) const {
  std::vector<int64_t> chosen;
  chosen.reserve(rows.size());
  for (const int64_t row : rows) chosen.push_back(rows_[static_cast<size_t>(row)]);
  return {
      preprocess_.transform(table_, chosen),
      labels_ == Labels::kNone ? torch::Tensor() : preprocess_.transform_targets(table_, chosen)};
}

}  // namespace cdt::data
