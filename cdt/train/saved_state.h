/// What an object keeps over an interruption, by name. The checkpoint writes it as it is
/// (checkpoint.cpp); every object knows its own names.
#pragma once

#include <cdt/core/error.h>
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

  // Each throws InvalidArgument, with the name, if it is missing or of another kind.
  /// float64, of this shape (−1: any size), with finite entries.
  torch::Tensor tensor(const std::string& name, c10::IntArrayRef shape) const;
  /// Of the shape, dtype and device of `like`; entries may be infinite, as those of a run that
  /// diverged.
  torch::Tensor tensor_like(const std::string& name, const torch::Tensor& like) const;
  /// `name`.0, …, each like its tensor of `model`.
  std::vector<torch::Tensor> tensors_like(const std::string& name,
                                          const std::vector<torch::Tensor>& model) const;
  /// May be NaN.
  double number(const std::string& name) const;
  /// Finite, above zero; or zero and above.
  double positive(const std::string& name) const;
  double non_negative(const std::string& name) const;
  int64_t count(const std::string& name, int64_t least = 0) const;
  bool flag(const std::string& name) const;
  /// The states of a list; none is an error, an empty list is not.
  const std::vector<SavedState>& list(const std::string& name) const;
};

/// The state `learning_rate` of a method: positive and finite, or NaN before the first step.
double saved_rate(const SavedState& state);

}  // namespace cdt::train
