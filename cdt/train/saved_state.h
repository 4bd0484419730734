/// What an object keeps over an interruption, by name. The checkpoint writes it as it is
/// (checkpoint.cpp); every object knows its own names.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace cdt::train {

struct SavedState {
  using Value = std::variant<bool, int64_t, double>;

  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, Value> values;                   ///< NaN: unknown
  std::map<std::string, std::vector<SavedState>> lists;  ///< their tensors are named from here

  /// Tensors as `name`.0, `name`.1, …; copies, since parameters go on changing.
  void put(const std::string& name, const std::vector<torch::Tensor>& tensors);
  /// Takes all tensors of `part` over, as `name`.…
  void take_tensors(const std::string& name, SavedState& part);
  /// Those tensors again.
  std::map<std::string, torch::Tensor> tensors_of(const std::string& name) const;

  // Each throws InvalidArgument, with the name, if there is none or it is of another kind.
  const torch::Tensor& tensor(const std::string& name) const;
  /// `name`.0, …, shaped like `model` and of its dtypes; on its devices.
  std::vector<torch::Tensor> tensors_like(const std::string& name,
                                          const std::vector<torch::Tensor>& model) const;
  double number(const std::string& name) const;
  int64_t count(const std::string& name) const;
  bool flag(const std::string& name) const;
};

}  // namespace cdt::train
