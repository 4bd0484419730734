#include <cdt/core/error.h>
#include <cdt/distributed/group/group.h>
#include <cdt/distributed/store/store.h>
#include <cdt/distributed/store/watch.h>
#include <cdt/distributed/store/wire.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace cdt::distributed {
namespace {

using c10::intrusive_ptr;
using torch::Tensor;

/// Without the stack trace of LibTorch's messages.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

std::string where(const Place& place) { return c10::str(place.address, ":", place.port); }

/// torchrun's own store, without libuv, which newer versions of LibTorch request but Debian's
/// lacks.
template <class Options = c10d::TCPStoreOptions>
intrusive_ptr<c10d::Store> open_store_of_torch(const Place& place, const GroupOptions& options) {
  Options wanted;
  wanted.port = static_cast<uint16_t>(place.port);
  wanted.isServer = false;
  wanted.waitWorkers = false;
  wanted.timeout = options.arrival;
  if constexpr (requires { wanted.useLibUV; }) wanted.useLibUV = false;
  return c10::make_intrusive<c10d::TCPStore>(place.address, wanted);
}

intrusive_ptr<c10d::Store> open_store(const Place& place, const GroupOptions& options) {
  try {
    if (place.by_torch) return open_store_of_torch(place, options);
    return c10::make_intrusive<RemoteStore>(place.address, place.port, place.secret,
                                            options.arrival);
  } catch (const std::exception& error) {
    throw IoError(c10::str("rank ", place.rank, " cannot reach ",
                           place.kept_elsewhere ? "the store" : "rank 0", " at ", where(place),
                           ": ", first_line(error)));
  }
}

/// On rank 0, unless another process keeps the store.
std::unique_ptr<StoreServer> keep_store(const Place& place) {
  if (place.rank != 0 || place.kept_elsewhere) return nullptr;
  try {
    return std::make_unique<StoreServer>(place.port, place.address.starts_with("127."),
                                         place.secret);
  } catch (const IoError& error) {
    throw IoError(c10::str("rank 0 cannot open ", where(place), ": ", error.what()));
  }
}

void wait_for_all(c10d::Store& store, const Place& place, const GroupOptions& options) {
  const auto key = [](int64_t rank) { return c10::str("cdt/here/", rank); };
  store.set(key(place.rank), std::vector<uint8_t>{1});
  for (int64_t k = 0; k < place.size; ++k) {
    try {
      store.wait({key(k)}, options.arrival);
    } catch (const std::exception&) {
      throw IoError(c10::str("rank ", k, " of ", place.size, " has not come to ", where(place),
                             " within ", options.arrival.count() / 1000, " s"));
    }
  }
}

/// Runs on another thread, since Gloo waits here for ranks that may be gone, and cannot be stopped.
std::unique_ptr<Wire> make_wire(torch::Device device, const WireOptions& options, Watch& watch) {
  if (device.is_cuda()) {
#ifdef CDT_NCCL
    return make_nccl(options);
#else
    throw InvalidArgument("workers share rows on CPUs here: this build has no NCCL for GPUs");
#endif
  }
#ifdef CDT_GLOO
  std::promise<std::unique_ptr<Wire>> promise;
  auto made = promise.get_future();
  std::thread([options, promise = std::move(promise)]() mutable {
    try {
      promise.set_value(make_gloo(options));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  while (made.wait_for(kBeat) != std::future_status::ready) watch.require_well_after_a_beat();
  return made.get();
#else
  throw InvalidArgument("workers share rows on GPUs here: this build has no Gloo for CPUs");
#endif
}

}  // namespace

struct Group::State {
  Place place;
  std::unique_ptr<StoreServer> server;  ///< outlives its clients
  intrusive_ptr<c10d::Store> store;
  std::shared_ptr<Watch> watch;
  std::unique_ptr<Wire> wire;
  bool waits = false;  ///< an exchange has not ended

  bool keeps() const { return server != nullptr; }

  /// Starts an exchange and waits for its end, while all ranks are healthy.
  template <class Start>
  void exchange(const Start& start) {
    watch->require_well();
    watch->count();
    std::string symptom;
    try {
      const auto work = start();
      while (!wire->ends(*work, kBeat)) watch->require_well_after_a_beat();
      work->wait();
    } catch (const IoError&) {
      waits = true;
      throw;
    } catch (const std::exception& error) {
      symptom = first_line(error);
    }
    if (!symptom.empty()) watch->blame(symptom);
  }
};

bool has_nccl() {
#ifdef CDT_NCCL
  return true;
#else
  return false;
#endif
}

Group::Group(const Place& place, const GroupOptions& options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.place = place;
  s.server = keep_store(place);
  s.store = open_store(place, options);
  wait_for_all(*s.store, place, options);
  s.watch = Watch::start(
      open_store(place, options),
      {place.rank, place.size, options.silence,
       place.kept_elsewhere ? c10::str("the process that has started the ranks, at ", where(place))
                            : c10::str("rank 0, at ", where(place), ",")});
  try {
    s.wire = make_wire(
        options.device,
        {place, c10::make_intrusive<c10d::PrefixStore>("cdt/wire", s.store), options.exchange},
        *s.watch);
  } catch (const IoError&) {  // caused by another rank
    s.watch->stop();
    throw;
  } catch (const InvalidArgument& error) {
    fail(error.what());
    s.watch->stop();
    throw;
  } catch (const std::exception& error) {
    const std::string why = "cannot connect to the others: " + first_line(error);
    fail(why);
    s.watch->stop();
    throw IoError(c10::str("rank ", place.rank, " ", why));
  }
}

Group::~Group() {
  state_->watch->stop();
  if (state_->waits) state_->wire->abandon();
}

int64_t Group::rank() const { return state_->place.rank; }
int64_t Group::size() const { return state_->place.size; }

Tensor Group::sum(const Tensor& part) const {
  std::vector<Tensor> total{
      part.detach().to(state_->wire->device(), torch::kFloat64, false, /*copy=*/true)};
  total[0] = total[0].contiguous();
  state_->exchange([&] { return state_->wire->sum(total); });
  return total[0].to(part.device());
}

Tensor Group::gather(const Tensor& rows) const {
  const auto everywhere = [&](const Tensor& own) {
    std::vector<Tensor> input{own};
    std::vector<std::vector<Tensor>> found(1);
    for (int64_t k = 0; k < size(); ++k) found[0].push_back(torch::empty_like(own));
    state_->exchange([&] { return state_->wire->gather(found, input); });
    return found[0];
  };
  const Tensor own = rows.detach().to(state_->wire->device()).contiguous();
  const Tensor counts =
      torch::cat(everywhere(torch::full({1}, own.size(0), own.options().dtype(torch::kInt64))))
          .cpu();
  // All ranks send tensors of the largest size, padded with zeros.
  std::vector<int64_t> shape = own.sizes().vec();
  shape[0] = counts.max().item<int64_t>();
  Tensor padded = torch::zeros(shape, own.options());
  padded.narrow(0, 0, own.size(0)).copy_(own);
  std::vector<Tensor> parts = everywhere(padded);
  for (int64_t k = 0; k < size(); ++k) {
    Tensor& part = parts[static_cast<size_t>(k)];
    part = part.narrow(0, 0, counts[k].item<int64_t>());
  }
  return torch::cat(parts).to(rows.device());
}

void Group::fail(const std::string& why) const {
  state_->watch->tell(why);
  // Leaving ends the store, so waits until others have read it.
  if (state_->keeps()) std::this_thread::sleep_for(4 * kBeat);
}

}  // namespace cdt::distributed
