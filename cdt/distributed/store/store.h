/// The store by which ranks find each other, a map from names to bytes in one process; for the
/// sources of this folder.
///
/// Its own server, in place of c10d's, which serves whoever comes, one after another: one stranger
/// who announces a long message and sends none kept all ranks, and the process that waits for them,
/// for ever. Here nobody waits for anybody: whoever has not said the secret within seconds is shut
/// out, and so is a message longer than any of ours.
#pragma once

#include <cdt/core/error.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cdt::distributed {

/// What a server knows before it serves: ranks say the same, or are shut out.
inline constexpr std::chrono::seconds kSecretWithin{5};

/// 32 hexadecimal digits from the system's generator.
std::string make_secret();

/// Keeps a store at a port, on a thread of its own, as long as it lives.
class StoreServer {
 public:
  /// `port` 0: one that is free. `alone`: for processes of this machine only.
  /// @throws IoError if the port cannot be had.
  StoreServer(int port, bool alone, const std::string& secret);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  int port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A way to such a store. Each question has an answer at once, or is an error; waiting is asking
/// again.
class RemoteStore : public c10d::Store {
 public:
  /// Tries again until `within` is over.
  /// @throws IoError if no process answers there, or not to this secret.
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
  /// Newer versions of LibTorch ask for it.
  c10::intrusive_ptr<c10d::Store> clone();

 private:
  /// The answer to a question: a list of byte strings, to another.
  std::vector<std::string> ask(const std::vector<std::string>& question);

  std::string address_, secret_;
  int port_;
  int socket_ = -1;
  std::mutex mutex_;
};

}  // namespace cdt::distributed
