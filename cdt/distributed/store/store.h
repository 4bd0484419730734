/// The store in which ranks meet, a map from names to bytes in one process; internal to this
/// folder.
///
/// It replaces c10d's server, which serves any client, one at a time: a client that announces a
/// long message and sends none would block all ranks, and the process that waits for them. This
/// server never waits for a client: one that has not sent the secret within seconds is
/// disconnected, and so is one whose message is longer than any of ours.
#pragma once

#include <cdt/core/error.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cdt::distributed {

/// Time limit for a client to send the secret; otherwise it is disconnected.
inline constexpr std::chrono::seconds kSecretWithin{5};

/// 32 hexadecimal digits from the system's generator.
std::string make_secret();

/// Keeps a store at a port, on its own thread, while it exists.
class StoreServer {
 public:
  /// `port` 0: any free one. `alone`: only for processes of this machine.
  /// @throws IoError if the port is not available.
  StoreServer(int port, bool alone, const std::string& secret);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  int port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A connection to such a store. Each request has an immediate answer or fails; waiting is done by
/// polling.
class RemoteStore : public c10d::Store {
 public:
  /// Retries until `within` has passed.
  /// @throws IoError if no process answers there, or it rejects the secret.
  RemoteStore(const std::string& address, int port, const std::string& secret,
              std::chrono::milliseconds within);
  ~RemoteStore() override;

  using Bytes = std::vector<uint8_t>;
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& wanted) override;
  Bytes get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  /// Required by newer versions of LibTorch.
  c10::intrusive_ptr<c10d::Store> clone();

 private:
  /// Sends a request and returns the answer, both lists of byte strings.
  std::vector<std::string> ask(const std::vector<std::string>& question);

  std::string address_, secret_;
  int port_;
  int socket_ = -1;
  std::mutex mutex_;
};

}  // namespace cdt::distributed
