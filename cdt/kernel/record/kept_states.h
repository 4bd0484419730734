/// Tensors that a forward pass finds and writes to, so that it leaves them as they were: running
/// statistics, counters, vectors of a power iteration.
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
  /// Before an operator runs: keeps a copy of what it is going to write to, unless the pass has
  /// made that itself.
  void look(const at::RecordFunction& call);
  /// After it: an output that is none of its arguments is the pass's own.
  void made(const torch::Tensor& output, const std::vector<c10::IValue>& arguments);
  /// Keeps a copy of a tensor that is about to change, of the first time.
  void keep(const torch::Tensor& state, const std::string& by = {});
  /// After the pass: all that somebody still holds has its values again. Gives the operator that
  /// had changed one which others read; empty: none.
  std::string restore();

 private:
  struct Kept {
    torch::Tensor state;
    torch::Tensor before;
    std::string by;
  };
  std::vector<Kept> kept_;
  std::unordered_set<const c10::StorageImpl*> read_;
  /// Weak: an address is not given to another storage meanwhile.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> made_;
};

}  // namespace cdt::kernel
