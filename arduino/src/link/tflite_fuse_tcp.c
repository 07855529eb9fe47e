/* Carries connections over TCP with POSIX sockets. Empty on systems without them. */
#if defined(__linux__) || defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE

#include "tflite_fuse_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum { HOST_BYTES = 256, PORT_BYTES = 8 };

static uint32_t microseconds(void* user) {
  struct timespec now;
  (void)user;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint32_t)((uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
}

/* Returns whether a socket becomes ready in time. */
static bool wait_for(int stream, short what, uint32_t ms) {
  struct pollfd descriptor = {stream, what, 0};
  return poll(&descriptor, 1, ms > INT32_MAX ? INT32_MAX : (int)ms) > 0;
}

static void prepare(int stream) {
  const int yes = 1;
  (void)setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  (void)fcntl(stream, F_SETFL, fcntl(stream, F_GETFL) | O_NONBLOCK);
}

/* Splits "host:port", not terminated, into two strings. */
static bool split_address(const char* address, size_t bytes, char* host, char* port) {
  size_t colon = bytes;
  while (colon > 0 && address[colon - 1] != ':') {
    --colon;
  }
  if (colon < 2 || colon > HOST_BYTES || bytes - colon >= PORT_BYTES) {
    return false;
  }
  const bool is_bracketed = address[0] == '[' && address[colon - 2] == ']';
  const size_t length = colon - 1 - (is_bracketed ? 2 : 0);
  memcpy(host, address + is_bracketed, length);
  host[length] = '\0';
  memcpy(port, address + colon, bytes - colon);
  port[bytes - colon] = '\0';
  return true;
}

static struct addrinfo* resolve(const char* address, size_t bytes, int flags) {
  const struct addrinfo hints = {.ai_flags = flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  char host[HOST_BYTES], port[PORT_BYTES];
  struct addrinfo* addresses = NULL;
  if (!split_address(address, bytes, host, port) || getaddrinfo(host, port, &hints, &addresses) != 0) {
    return NULL;
  }
  return addresses;
}

static int dial(const char* address, size_t bytes, uint32_t ms) {
  struct addrinfo* addresses = resolve(address, bytes, 0);
  int stream = TFLITE_FUSE_NO_STREAM;
  for (const struct addrinfo* candidate = addresses; candidate != NULL && stream < 0; candidate = candidate->ai_next) {
    stream = socket(candidate->ai_family, candidate->ai_socktype, candidate->ai_protocol);
    if (stream < 0) {
      continue;
    }
    int error = 0;
    socklen_t size = sizeof(error);
    prepare(stream);
    if (connect(stream, candidate->ai_addr, candidate->ai_addrlen) != 0 &&
        (errno != EINPROGRESS || !wait_for(stream, POLLOUT, ms) ||
         getsockopt(stream, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)) {
      close(stream);
      stream = TFLITE_FUSE_NO_STREAM;
    }
  }
  if (addresses != NULL) {
    freeaddrinfo(addresses);
  }
  return stream;
}

static int open_stream(void* user, const char* address, size_t address_bytes, uint32_t ms) {
  const tflite_fuse_tcp* tcp = user;
  if (address != NULL) {
    return dial(address, address_bytes, ms);
  }
  if (!wait_for(tcp->listener, POLLIN, ms)) {
    return TFLITE_FUSE_NO_STREAM;
  }
  const int stream = accept(tcp->listener, NULL, NULL);
  if (stream < 0) {
    return TFLITE_FUSE_NO_STREAM;
  }
  prepare(stream);
  return stream;
}

static int send_all(void* user, int stream, const void* data, size_t bytes, uint32_t ms) {
  const uint32_t start = microseconds(user);
  const uint8_t* rest = data;
  while (bytes > 0) {
    const ssize_t sent = send(stream, rest, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      rest += sent;
      bytes -= (size_t)sent;
      continue;
    }
    const uint32_t elapsed = (microseconds(user) - start) / 1000;
    const bool may_wait = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (!may_wait || elapsed > ms || !wait_for(stream, POLLOUT, ms - elapsed)) {
      return -1;
    }
  }
  return 0;
}

static int receive_some(void* user, int stream, void* data, size_t bytes, uint32_t ms) {
  (void)user;
  if (!wait_for(stream, POLLIN, ms)) {
    return 0;
  }
  const ssize_t size = recv(stream, data, bytes, 0);
  if (size > 0) {
    return (int)size;
  }
  return size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

static void close_stream(void* user, int stream) {
  (void)user;
  close(stream);
}

static int random_bytes(void* user, void* data, size_t bytes) {
  (void)user;
  const int source = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const ssize_t size = source < 0 ? -1 : read(source, data, bytes);
  if (source >= 0) {
    close(source);
  }
  return size == (ssize_t)bytes ? 0 : -1;
}

int tflite_fuse_tcp_listen(tflite_fuse_tcp* tcp, tflite_fuse_transport* transport, const char* address) {
  struct addrinfo* addresses = resolve(address, strlen(address), AI_PASSIVE);
  const int yes = 1;
  tcp->listener = addresses == NULL ? -1 : socket(addresses->ai_family, addresses->ai_socktype, addresses->ai_protocol);
  *transport = (tflite_fuse_transport){tcp,          open_stream,  send_all,    receive_some,
                                       close_stream, microseconds, random_bytes};
  if (tcp->listener >= 0 &&
      (setsockopt(tcp->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
       bind(tcp->listener, addresses->ai_addr, addresses->ai_addrlen) != 0 || listen(tcp->listener, 16) != 0)) {
    close(tcp->listener);
    tcp->listener = -1;
  }
  if (addresses != NULL) {
    freeaddrinfo(addresses);
  }
  return tcp->listener < 0 ? -1 : 0;
}

int tflite_fuse_tcp_port(const tflite_fuse_tcp* tcp) {
  struct sockaddr_storage place;
  socklen_t size = sizeof(place);
  if (getsockname(tcp->listener, (struct sockaddr*)&place, &size) != 0) {
    return -1;
  }
  return place.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6*)(const void*)&place)->sin6_port)
                                     : ntohs(((const struct sockaddr_in*)(const void*)&place)->sin_port);
}
#else
typedef int tflite_fuse_no_sockets; /* C forbids empty files */
#endif
