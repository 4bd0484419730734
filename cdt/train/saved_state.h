/// State of an object, by name, for checkpoints. checkpoint.cpp writes it unchanged; each object
/// defines its own names.
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
  std::map<std::string, std::vector<SavedState>> lists;  ///< tensor names are relative to the entry

  /// Stores copies of the tensors as `name`.0, `name`.1, …; copies, because parameters keep
  /// changing.
  void put(const std::string& name, const std::vector<torch::Tensor>& tensors);
  /// Moves all tensors of `part` here, as `name`.…
  void take_tensors(const std::string& name, SavedState& part);
  /// Returns the tensors that take_tensors stored under `name`.
  std::map<std::string, torch::Tensor> tensors_of(const std::string& name) const;

  // Each throws InvalidArgument with the name if the entry is missing or of another type.
  /// float64, of this shape (−1: any size), with finite entries.
  torch::Tensor tensor(const std::string& name, c10::IntArrayRef shape) const;
  /// With the shape, dtype and device of `like`; entries may be infinite, as in a run that
  /// diverged.
  torch::Tensor tensor_like(const std::string& name, const torch::Tensor& like) const;
  /// `name`.0, …; each like the tensor of `model` at its index.
  std::vector<torch::Tensor> tensors_like(const std::string& name,
                                          const std::vector<torch::Tensor>& model) const;
  /// May be NaN.
  double number(const std::string& name) const;
  /// Finite and above zero.
  double positive(const std::string& name) const;
  double non_negative(const std::string& name) const;
  int64_t count(const std::string& name, int64_t least = 0) const;
  bool flag(const std::string& name) const;
  /// The states of a list. A missing list is an error, an empty one is not.
  const std::vector<SavedState>& list(const std::string& name) const;
};

/// The state `learning_rate` of a method: positive and finite, or NaN before the first step.
double saved_rate(const SavedState& state);

}  // namespace cdt::train
