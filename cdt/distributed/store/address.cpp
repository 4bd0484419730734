// Finds the address at which other machines reach this one. Debian's /etc/hosts maps a machine's
// own name to 127.0.1.1, which would lead other machines to themselves.
#include <arpa/inet.h>
#include <cdt/distributed/group/place.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cdt::distributed {
namespace {

std::string in_numbers(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST];
  const int failed = getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text : "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// The local address of a route, "" if there is none. Sends nothing.
std::string near_end(const addrinfo& there) {
  const int opened = socket(there.ai_family, SOCK_DGRAM, 0);
  if (opened < 0) return "";
  std::string found;
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (connect(opened, there.ai_addr, there.ai_addrlen) == 0 &&
      getsockname(opened, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    found = in_numbers(reinterpret_cast<sockaddr*>(&own), length);
  }
  close(opened);
  return found;
}

/// Address of the first network that is up, "" if there is none.
std::string first_outside() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* each = all; each != nullptr && found.empty(); each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    found = in_numbers(each->ifa_addr, sizeof(sockaddr_in));
  }
  freeifaddrs(all);
  return found;
}

}  // namespace

std::string own_address(const std::string& meeting) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::string own;
  if (getaddrinfo(meeting.c_str(), nullptr, &wanted, &found) == 0) {
    for (const addrinfo* each = found; each != nullptr && own.empty(); each = each->ai_next) {
      own = near_end(*each);
    }
    freeaddrinfo(found);
  }
  const bool said = meeting == "localhost" || is_loopback(meeting);
  if (!said && (own.empty() || is_loopback(own))) own = first_outside();
  return own.empty() ? "127.0.0.1" : own;
}

}  // namespace cdt::distributed
