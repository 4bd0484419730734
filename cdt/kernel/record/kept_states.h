/// Saves and restores tensors that a forward pass modifies: running statistics, counters, vectors
/// of a power iteration.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <torch/types.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace cdt::kernel {

class KeptStates {
 public:
  /// Call before an operator runs: copies what it will write to, unless the pass itself has created
  /// it.
  void look(const at::RecordFunction& call);
  /// Call after an operator: an output that is not one of its arguments was created by the pass.
  void made(const torch::Tensor& output, const std::vector<c10::IValue>& arguments);
  /// Copies a tensor before its first change.
  void keep(const torch::Tensor& state, const std::string& by = {});
  /// Call after the pass: restores all tensors that are still referenced. Returns the operator that
  /// changed a state which others read; empty: none.
  std::string restore();

 private:
  struct Kept {
    torch::Tensor state;
    torch::Tensor before;
    std::string by;
  };
  std::vector<Kept> kept_;
  std::unordered_set<const c10::StorageImpl*> read_;
  /// Weak pointers, so that an address is not reused for another storage.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> made_;
};

}  // namespace cdt::kernel
