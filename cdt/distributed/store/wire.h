/// What carries tensors from rank to rank, one of c10d's engines; for the sources of this folder.
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

  /// Where tensors must lie that travel.
  virtual torch::Device device() const = 0;
  /// total[0] becomes its sum over ranks.
  virtual c10::intrusive_ptr<c10d::Work> sum(std::vector<torch::Tensor>& total) = 0;
  /// found[0][k] becomes own[0] of rank k, of the same shape.
  virtual c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<torch::Tensor>>& found,
                                                std::vector<torch::Tensor>& own) = 0;
  /// Whether the work has come to its end, after so long at most; if it failed, throws what c10d
  /// says.
  virtual bool ends(c10d::Work& work, std::chrono::milliseconds most) const = 0;
  /// There is an exchange that has no end: leaves it alone, since its destructor would wait.
  virtual void abandon() = 0;
};

/// By an engine of c10d.
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
  c10::intrusive_ptr<Process> process_;  ///< none once it was abandoned
};

/// What a maker needs.
struct WireOptions {
  Place place;
  c10::intrusive_ptr<c10d::Store> store;
  std::chrono::milliseconds exchange;  ///< the most that one may take
};

// Each in its file, where LibTorch has it.
std::unique_ptr<Wire> make_gloo(const WireOptions& options);
/// On this rank's GPU, which becomes the one that is meant by "cuda" on this thread.
/// @throws InvalidArgument as gpu_of.
std::unique_ptr<Wire> make_nccl(const WireOptions& options);

}  // namespace cdt::distributed
