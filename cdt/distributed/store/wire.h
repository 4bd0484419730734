/// Transfers tensors between ranks by a backend of c10d; internal to this folder.
#pragma once

#include <cdt/core/error.h>
#include <cdt/distributed/group/place.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace cdt::distributed {

class Wire {
 public:
  virtual ~Wire() = default;

  /// Device on which tensors must lie.
  virtual torch::Device device() const = 0;
  /// total[0] becomes its sum over ranks.
  virtual c10::intrusive_ptr<c10d::Work> sum(std::vector<torch::Tensor>& total) = 0;
  /// found[0][k] becomes own[0] of rank k, of the same shape.
  virtual c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<torch::Tensor>>& found,
                                                std::vector<torch::Tensor>& own) = 0;
  /// Whether the work has ended, waiting at most this long; if it failed, throws c10d's error.
  virtual bool ends(c10d::Work& work, std::chrono::milliseconds most) const = 0;
  /// Abandons an exchange that does not end, since its destructor would wait.
  virtual void abandon() = 0;
};

/// Implementation by a c10d backend.
template <class Process>
class ProcessWire : public Wire {
 public:
  explicit ProcessWire(c10::intrusive_ptr<Process> process) : process_(std::move(process)) {}

  c10::intrusive_ptr<c10d::Work> sum(std::vector<torch::Tensor>& total) override {
    return process_->allreduce(total);
  }
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<torch::Tensor>>& found,
                                        std::vector<torch::Tensor>& own) override {
    return process_->allgather(found, own);
  }
  void abandon() override { process_.release(); }

 protected:
  c10::intrusive_ptr<Process> process_;  ///< empty once abandoned
};

/// Options of a backend.
struct WireOptions {
  Place place;
  c10::intrusive_ptr<c10d::Store> store;
  std::chrono::milliseconds exchange;  ///< maximum duration of one
};

// Each is compiled if LibTorch has the backend.
std::unique_ptr<Wire> make_gloo(const WireOptions& options);
/// Uses this rank's GPU, which becomes the current device of this thread.
/// @throws InvalidArgument as gpu_of.
std::unique_ptr<Wire> make_nccl(const WireOptions& options);

}  // namespace cdt::distributed
