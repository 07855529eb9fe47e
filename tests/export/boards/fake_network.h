// Servers and clients with the methods of Arduino's, over the sockets of this machine.
#ifndef FAKE_NETWORK_H_
#define FAKE_NETWORK_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <Arduino.h>

class FakeClient {
 public:
  explicit FakeClient(int file = -1) : file_(file) {}
  explicit operator bool() const { return file_ >= 0; }
  int connect(const char* host, uint16_t port) {
    sockaddr_in place = {};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    file_ = socket(AF_INET, SOCK_STREAM, 0);
    const bool is_there = inet_pton(AF_INET, host, &place.sin_addr) == 1 &&
                          ::connect(file_, reinterpret_cast<sockaddr*>(&place), sizeof(place)) == 0;
    return is_there ? 1 : 0;
  }
  size_t write(const uint8_t* data, size_t bytes) {
    const size_t some = bytes < 500 ? bytes : 500; // as if the network's buffer were small
    const ssize_t count = send(file_, data, some, MSG_NOSIGNAL | MSG_DONTWAIT);
    is_broken_ |= count < 0 && errno != EAGAIN;
    return count > 0 ? static_cast<size_t>(count) : 0;
  }
  int available() {
    int count = 0;
    return file_ >= 0 && ioctl(file_, FIONREAD, &count) == 0 ? count : 0;
  }
  int read(uint8_t* data, size_t bytes) { return static_cast<int>(recv(file_, data, bytes, MSG_DONTWAIT)); }
  uint8_t connected() {
    uint8_t byte;
    const ssize_t count = file_ < 0 || is_broken_ ? 0 : recv(file_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count > 0 || (count < 0 && errno == EAGAIN);
  }
  void flush() {}
  void setNoDelay(bool) {}
  void stop() {
    if (file_ >= 0) close(file_);
    file_ = -1;
    is_broken_ = false;
  }

 private:
  int file_;
  bool is_broken_ = false;
};

class FakeServer {
 public:
  explicit FakeServer(uint16_t port) : port_(port), file_(-1) {}
  void begin() {
    sockaddr_in place = {};
    const int yes = 1;
    place.sin_family = AF_INET;
    place.sin_port = htons(port_);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    file_ = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(file_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(file_, reinterpret_cast<sockaddr*>(&place), sizeof(place)) != 0 || listen(file_, 4) != 0) exit(8);
    fcntl(file_, F_SETFL, O_NONBLOCK);
  }
  FakeClient accept() { return FakeClient(::accept(file_, NULL, NULL)); }

 private:
  uint16_t port_;
  int file_;
};

#endif
