/// Collects the contributions of all layers to J, per parameter.
#pragma once

#include <cdt/kernel/rules/rule.h>

#include <map>
#include <set>

namespace cdt::kernel {

/// Whether a weight that is part of a parameter with `entries` entries consists of rows of the
/// parameter as a matrix.
bool lies_in_rows(const ParameterUse& weight, int64_t entries);
/// Columns of a weight stored as a matrix: entries per first index.
int64_t columns_of(const ParameterUse& weight);

class GroupBuilder : public FactorBuilder {
 public:
  /// Properties of a parameter, or of an operand computed from parameters.
  struct Info {
    int64_t entries = 0;
    bool by_rule = false;
    bool as_rows = false;
    int64_t uses = 0;
  };
  GroupBuilder(std::vector<Info> parameters, torch::ScalarType dtype)
      : parameters_(std::move(parameters)) {
    accumulate = dtype;
  }

  bool by_rule(const ParameterUse& use) const override { return of(use).by_rule; }
  bool used_once(const ParameterUse& use) const override {
    return of(use).uses == 1 && is_whole(use);
  }
  bool as_rows(const ParameterUse& use) const override { return of(use).as_rows; }
  void add(const ParameterUse& weight, OuterProduct term) override;
  void add_joined(const ParameterUse& weight, const ParameterUse& bias, OuterProduct term) override;
  void add_rows(const ParameterUse& use, const torch::Tensor& rows) override;

  /// Adds rows [b·c, entries] to J of a whole parameter.
  void add_rows(size_t parameter, const torch::Tensor& rows);
  /// Returns and removes J of a parameter as rows; undefined if nothing was added.
  torch::Tensor take_rows(size_t parameter);
  /// Returns and removes all groups, ordered by their first parameter, the same in every block.
  std::vector<FactorGroup> take();

 private:
  const Info& of(const ParameterUse& use) const { return parameters_[use.parameter]; }
  bool is_whole(const ParameterUse& use) const { return use.numel() == of(use).entries; }

  std::vector<Info> parameters_;
  std::map<size_t, FactorGroup> groups_;
};

}  // namespace cdt::kernel
