// The store's server: one thread, which never waits for a client.
#include <cdt/core/error.h>
#include <cdt/distributed/store/message.h>
#include <cdt/distributed/store/store.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <thread>

namespace cdt::distributed {
namespace {

using ServerClock = std::chrono::steady_clock;

/// Limits for clients that have not sent the secret: length of a message, and their number.
constexpr size_t kLongestGreeting = 1024;
constexpr size_t kMostStrangers = 64;
constexpr int kLookAgainMs = 200;

/// Compares in a time that does not depend on where the texts differ.
bool same_secret(std::string_view said, std::string_view own) {
  unsigned char differ = said.size() == own.size() ? 0 : 1;
  for (size_t k = 0; k < std::min(said.size(), own.size()); ++k) {
    differ |= static_cast<unsigned char>(said[k] ^ own[k]);
  }
  return differ == 0;
}

int64_t whole_number(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Listens at a port with one address family; −1 on failure.
int listen_at(int family, int port, bool alone) {
  const int opened = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (opened < 0) return -1;
  constexpr int kOn = 1, kOff = 0;
  ::setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
  sockaddr_in6 wide{};
  sockaddr_in narrow{};
  wide.sin6_family = AF_INET6;
  wide.sin6_port = htons(static_cast<uint16_t>(port));
  wide.sin6_addr = in6addr_any;
  narrow.sin_family = AF_INET;
  narrow.sin_port = htons(static_cast<uint16_t>(port));
  narrow.sin_addr.s_addr = htonl(alone ? INADDR_LOOPBACK : INADDR_ANY);
  const bool ipv6 = family == AF_INET6;
  if (ipv6) ::setsockopt(opened, IPPROTO_IPV6, IPV6_V6ONLY, &kOff, sizeof kOff);
  const auto* address =
      ipv6 ? reinterpret_cast<sockaddr*>(&wide) : reinterpret_cast<sockaddr*>(&narrow);
  const socklen_t size = ipv6 ? sizeof wide : sizeof narrow;
  if (::bind(opened, address, size) == 0 && ::listen(opened, SOMAXCONN) == 0) return opened;
  const int failed = errno;
  ::close(opened);
  errno = failed;
  return -1;
}

}  // namespace

std::string make_secret() {
  std::array<unsigned char, 16> random{};
  size_t filled = 0;
  while (filled < random.size()) {
    const ssize_t came = ::getrandom(random.data() + filled, random.size() - filled, 0);
    if (came < 0 && errno != EINTR) throw IoError("the system gives no random bytes");
    filled += static_cast<size_t>(std::max<ssize_t>(came, 0));
  }
  std::string text;
  for (const unsigned char byte : random) {
    text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  }
  return text;
}

struct StoreServer::State {
  struct Caller {
    int socket = -1;
    ServerClock::time_point came = ServerClock::now();
    bool known = false;  ///< has sent the secret
    std::string unread{};
  };
  int listener = -1, port = 0;
  std::array<int, 2> wake{-1, -1};
  std::string secret;
  std::map<std::string, std::string> values;
  std::vector<Caller> callers;
  std::thread thread;

  std::vector<std::string> answer(const std::vector<std::string>& asked);
  bool hear(Caller& caller);
  bool serve(Caller& caller, const std::vector<std::string>& message);
  void accept_all();
  void run();
};

/// Empty if the request is invalid.
std::vector<std::string> StoreServer::State::answer(const std::vector<std::string>& asked) {
  const std::string& what = asked.front();
  const auto yes = [](bool is) { return std::vector{std::string(is ? kYes : kNo)}; };
  if (what == "count") return {std::to_string(values.size())};
  if (what == "check") {
    return yes(std::all_of(asked.begin() + 1, asked.end(),
                           [&](const std::string& key) { return values.contains(key); }));
  }
  if (asked.size() < 2) return {};
  const std::string& key = asked[1];
  if (what == "get" && asked.size() == 2) return {values.contains(key) ? values[key] : ""};
  if (what == "delete" && asked.size() == 2) return yes(values.erase(key) > 0);
  if (what == "set" && asked.size() == 3) {
    values[key] = asked[2];
    return yes(true);
  }
  if (what == "add" && asked.size() == 3) {
    const int64_t sum =
        (values.contains(key) ? whole_number(values[key]) : 0) + whole_number(asked[2]);
    return {values[key] = std::to_string(sum)};
  }
  if (what != "exchange" || asked.size() != 4) return {};
  const auto found = values.find(key);
  if (found == values.end()) {
    if (!asked[2].empty()) return {asked[2]};
    return {values[key] = asked[3]};
  }
  if (found->second == asked[2]) found->second = asked[3];
  return {found->second};
}

/// Returns false if the client must be disconnected.
bool StoreServer::State::serve(Caller& caller, const std::vector<std::string>& message) {
  std::vector<std::string> said;
  if (caller.known) {
    if (!message.empty()) said = answer(message);
  } else if (message.size() == 1 && same_secret(message[0], secret)) {
    caller.known = true;
    said = {std::string(kWelcome)};
  }
  if (said.empty()) return false;
  // An answer fits into the system's buffer, unless the client does not read.
  const std::string bytes = message_of(said);
  return ::send(caller.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool StoreServer::State::hear(Caller& caller) {
  std::array<char, 65536> part{};
  const ssize_t came = ::recv(caller.socket, part.data(), part.size(), MSG_DONTWAIT);
  if (came < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (came == 0) return false;
  caller.unread.append(part.data(), static_cast<size_t>(came));
  while (auto message =
             take_message(caller.unread, caller.known ? kLongestMessage : kLongestGreeting)) {
    if (!serve(caller, *message)) return false;
  }
  return true;
}

void StoreServer::State::accept_all() {
  for (;;) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    // If there are too many clients without the secret, disconnects the oldest.
    const auto stranger = [](const Caller& each) { return !each.known; };
    if (std::ranges::count_if(callers, stranger) >= static_cast<int64_t>(kMostStrangers)) {
      const auto first = std::ranges::find_if(callers, stranger);
      ::close(first->socket);
      callers.erase(first);
    }
    callers.emplace_back().socket = socket;
  }
}

void StoreServer::State::run() {
  for (;;) {
    std::vector<pollfd> watched{{wake[0], POLLIN, 0}, {listener, POLLIN, 0}};
    for (const Caller& caller : callers) watched.push_back({caller.socket, POLLIN, 0});
    ::poll(watched.data(), watched.size(), kLookAgainMs);
    if (watched[0].revents != 0) break;
    const auto now = ServerClock::now();
    for (size_t k = callers.size(); k-- > 0;) {
      Caller& caller = callers[k];
      const bool late = !caller.known && now - caller.came > kSecretWithin;
      if (!late && (watched[k + 2].revents == 0 || hear(caller))) continue;
      ::close(caller.socket);
      callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(k));
    }
    if (watched[1].revents != 0) accept_all();
  }
  for (const Caller& caller : callers) ::close(caller.socket);
}

StoreServer::StoreServer(int port, bool alone, const std::string& secret)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.secret = secret;
  if (!alone) s.listener = listen_at(AF_INET6, port, alone);
  if (s.listener < 0) s.listener = listen_at(AF_INET, port, alone);
  if (s.listener < 0) throw IoError(c10::str("port ", port, ": ", std::strerror(errno)));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(s.listener, reinterpret_cast<sockaddr*>(&own), &size);
  s.port = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(own).sin_port);
  if (::pipe2(s.wake.data(), O_CLOEXEC) != 0) {
    ::close(s.listener);
    throw IoError(c10::str("a pipe: ", std::strerror(errno)));
  }
  s.thread = std::thread([&s] { s.run(); });
}

StoreServer::~StoreServer() {
  ::close(state_->wake[1]);  // tells the thread to end
  state_->thread.join();
  ::close(state_->wake[0]);
  ::close(state_->listener);
}

int StoreServer::port() const { return state_->port; }

}  // namespace cdt::distributed
