// As much of Arduino's API as programs of splits call, on this machine: a clock, serial lines that are terminals, the network.
#ifndef ARDUINO_STAND_IN_H_
#define ARDUINO_STAND_IN_H_

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

inline unsigned long micros() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint32_t>(static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_nsec) / 1000);
}
inline unsigned long millis() { return static_cast<uint32_t>(micros() / 1000); }
inline void yield() { usleep(100); }
inline void delay(unsigned long milliseconds) { usleep(static_cast<useconds_t>(milliseconds * 1000)); }

class IPAddress {
 public:
  IPAddress(uint8_t, uint8_t, uint8_t, uint8_t) {}
};

class Stream {
 public:
  virtual ~Stream() {}
  virtual int available() = 0;
  virtual int read() = 0;
  virtual size_t write(const uint8_t* data, size_t bytes) = 0;
};

// Of the computer's: standard output. Others: the terminal that a variable of the environment names.
class HardwareSerial : public Stream {
 public:
  explicit HardwareSerial(const char* variable) : variable_(variable), file_(-1) {}
  void begin(unsigned long) {
    const char* path = variable_ == NULL ? NULL : getenv(variable_);
    termios state;
    if (path != NULL) {
      file_ = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK);
      if (file_ < 0 || tcgetattr(file_, &state) != 0) exit(9);
      cfmakeraw(&state);
      tcsetattr(file_, TCSANOW, &state);
    }
  }
  int available() {
    pollfd each = {file_, POLLIN, 0};
    return file_ >= 0 && poll(&each, 1, 0) > 0 ? 1 : 0;
  }
  int read() {
    uint8_t byte;
    return ::read(file_, &byte, 1) == 1 ? byte : -1;
  }
  size_t write(const uint8_t* data, size_t bytes) {
    const ssize_t count = ::write(file_, data, bytes);
    return count > 0 ? static_cast<size_t>(count) : 0;
  }
  void print(const char* text) { printf("%s", text); }
  void print(int number) { printf("%d", number); }
  void println(const char* text) { Line("%s\n", text); }
  void println(int number) { Line("%d\n", number); }
  void println(unsigned long number) { Line("%lu\n", number); }
  void println(const IPAddress&) { Line("%s\n", "an address"); }

 private:
  template <typename Value>
  void Line(const char* format, Value value) {
    printf(format, value);
    fflush(stdout);
  }
  const char* variable_;
  int file_;
};

static HardwareSerial Serial(NULL), Serial1("SERIAL1"), Serial2("SERIAL2");

#endif
