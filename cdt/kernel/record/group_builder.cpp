#include <cdt/kernel/record/group_builder.h>

#include <algorithm>

namespace cdt::kernel {

using torch::Tensor;

int64_t columns_of(const ParameterUse& weight) {
  return weight.numel() / std::max<int64_t>(1, weight.shape.front());
}

bool lies_in_rows(const ParameterUse& weight, int64_t entries) {
  const int64_t columns = columns_of(weight);
  return weight.offset % columns == 0 && entries % columns == 0;
}

namespace {

Tensor sum_of(const Tensor& before, const Tensor& added) {
  return before.defined() ? before + added : added;
}

/// Converts a parameter that has both terms and rows to rows, such as a weight used elsewhere as a
/// bias or scale.
void make_rows(FactorGroup& group) {
  if (group.terms.empty()) return;
  group.rows = sum_of(group.rows, to_rows(group.terms));
  group.terms.clear();
}

}  // namespace

void GroupBuilder::add(const ParameterUse& weight, OuterProduct term) {
  const int64_t entries = of(weight).entries;
  if (!lies_in_rows(weight, entries)) return add_rows(weight, to_rows({term}));
  if (!is_whole(weight)) {
    const int64_t columns = columns_of(weight);
    place(term, weight.offset / columns, entries / columns);
  }
  FactorGroup& group = groups_[weight.parameter];
  group.parameters = {weight.parameter};
  group.terms.push_back(std::move(term));
}

void GroupBuilder::add_joined(const ParameterUse& weight, const ParameterUse& bias,
                              OuterProduct term) {
  add(weight, std::move(term));
  groups_[weight.parameter].parameters.push_back(bias.parameter);
}

void GroupBuilder::add_rows(const ParameterUse& use, const Tensor& rows) {
  const int64_t behind = of(use).entries - use.offset - use.numel();
  add_rows(use.parameter,
           is_whole(use) ? rows : torch::constant_pad_nd(rows, {use.offset, behind}));
}

void GroupBuilder::add_rows(size_t parameter, const Tensor& rows) {
  FactorGroup& group = groups_[parameter];
  group.parameters = {parameter};
  group.rows = sum_of(group.rows, rows);
}

Tensor GroupBuilder::take_rows(size_t parameter) {
  const auto it = groups_.find(parameter);
  if (it == groups_.end()) return {};
  make_rows(it->second);
  const Tensor rows = it->second.rows;
  groups_.erase(it);
  return rows;
}

std::vector<FactorGroup> GroupBuilder::take() {
  std::vector<FactorGroup> result;
  for (auto& [parameter, group] : groups_) {
    if (group.rows.defined() || parameters_[parameter].as_rows) make_rows(group);
    result.push_back(std::move(group));
  }
  groups_.clear();
  return result;
}

}  // namespace cdt::kernel
