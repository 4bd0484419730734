// Client of the store, used by ranks.
#include <cdt/core/error.h>
#include <cdt/distributed/store/message.h>
#include <cdt/distributed/store/store.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

namespace cdt::distributed {
namespace {

using std::chrono::milliseconds;
using StoreClock = std::chrono::steady_clock;

constexpr milliseconds kRetry{50};
/// Interval of polling for a key.
constexpr milliseconds kFirstPause{1}, kLongestPause{20};
/// The server answers immediately, but its machine may be disconnected.
constexpr timeval kAnswerWithin{60, 0};

/// −1 if no process answers.
int connect_to(const std::string& address, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return -1;
  int opened = -1;
  for (const addrinfo* each = found; each != nullptr && opened < 0; each = each->ai_next) {
    opened = ::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (opened < 0) continue;
    ::setsockopt(opened, SOL_SOCKET, SO_RCVTIMEO, &kAnswerWithin, sizeof kAnswerWithin);
    ::setsockopt(opened, SOL_SOCKET, SO_SNDTIMEO, &kAnswerWithin, sizeof kAnswerWithin);
    constexpr int kOn = 1;
    ::setsockopt(opened, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
    if (::connect(opened, each->ai_addr, each->ai_addrlen) == 0) break;
    ::close(opened);
    opened = -1;
  }
  ::freeaddrinfo(found);
  return opened;
}

bool send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

/// The next message; none if the connection is closed.
std::optional<std::vector<std::string>> receive(int from) {
  std::string bytes;
  for (;;) {
    if (auto message = take_message(bytes, kLongestMessage)) return message;
    std::array<char, 4096> part{};
    const ssize_t came = ::recv(from, part.data(), part.size(), 0);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return std::nullopt;
    bytes.append(part.data(), static_cast<size_t>(came));
  }
}

std::string text_of(const RemoteStore::Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
RemoteStore::Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

RemoteStore::RemoteStore(const std::string& address, int port, const std::string& secret,
                         milliseconds within)
    : address_(address), secret_(secret), port_(port) {
  timeout_ = within;
  const auto end = StoreClock::now() + within;
  for (;; std::this_thread::sleep_for(kRetry)) {
    socket_ = connect_to(address, port);
    if (socket_ >= 0) break;
    if (StoreClock::now() >= end) throw IoError("no process answers there");
  }
  if (send_all(socket_, message_of({secret}))) {
    const auto answer = receive(socket_);
    if (answer && answer->size() == 1 && answer->front() == kWelcome) return;
  }
  ::close(socket_);
  throw IoError(
      "who answers there does not take this rank's secret: CDT_SECRET must be the same for all "
      "ranks");
}

RemoteStore::~RemoteStore() {
  if (socket_ >= 0) ::close(socket_);
}

std::vector<std::string> RemoteStore::ask(const std::vector<std::string>& question) {
  const std::lock_guard lock(mutex_);
  if (socket_ >= 0 && send_all(socket_, message_of(question))) {
    if (auto answer = receive(socket_); answer && !answer->empty()) return std::move(*answer);
  }
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  throw IoError("the store of the ranks does not answer any more");
}

void RemoteStore::set(const std::string& key, const Bytes& value) {
  ask({"set", key, text_of(value)});
}

RemoteStore::Bytes RemoteStore::compareSet(const std::string& key, const Bytes& expected,
                                           const Bytes& wanted) {
  return bytes_of(ask({"exchange", key, text_of(expected), text_of(wanted)}).front());
}

RemoteStore::Bytes RemoteStore::get(const std::string& key) {
  wait({key});
  return bytes_of(ask({"get", key}).front());
}

int64_t RemoteStore::add(const std::string& key, int64_t value) {
  return std::stoll(ask({"add", key, std::to_string(value)}).front());
}

bool RemoteStore::deleteKey(const std::string& key) { return ask({"delete", key}).front() == kYes; }

bool RemoteStore::check(const std::vector<std::string>& keys) {
  std::vector<std::string> question{"check"};
  question.insert(question.end(), keys.begin(), keys.end());
  return ask(question).front() == kYes;
}

int64_t RemoteStore::getNumKeys() { return std::stoll(ask({"count"}).front()); }

void RemoteStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const auto end = StoreClock::now() + timeout;
  for (milliseconds pause = kFirstPause; !check(keys); pause = std::min(2 * pause, kLongestPause)) {
    if (StoreClock::now() >= end) throw IoError("no rank has set " + keys.front() + " in time");
    std::this_thread::sleep_for(pause);
  }
}

c10::intrusive_ptr<c10d::Store> RemoteStore::clone() {
  return c10::make_intrusive<RemoteStore>(address_, port_, secret_, timeout_);
}

}  // namespace cdt::distributed
