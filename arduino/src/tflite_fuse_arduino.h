// Declares transports of splits for boards with the Arduino API: networks by their server and client, serial lines by
// their Stream.
//
//     EthernetServer server(7000);
//     // Three sessions, greetings, and a connection that is opened while all of these are taken.
//     static tflite_fuse_network<EthernetServer, EthernetClient, 3 + TFLITE_FUSE_GUESTS + 1> network(&server);
//     tflite_fuse_node_open(&node, &worker, network.transport(), frame, sessions, 3);
//
//     static tflite_fuse_line<48> line(Serial1);                                        // packets of 48 bytes
//     tflite_fuse_node_open(&node, &worker, line.transport(), frame, &session, 1);
//
// Header only: include it behind the header of the board's network.
#ifndef TFLITE_FUSE_ARDUINO_H_
#define TFLITE_FUSE_ARDUINO_H_

#include <Arduino.h>
#include <stdlib.h>
#include <string.h>

#include "link/tflite_fuse_serial.h"
#include "tflite_fuse_link.h"

// TCP by classes like EthernetServer (or WiFiServer) and EthernetClient (or WiFiClient): a server with accept(),
// clients with connect, write, available, read, connected and stop.
template <class Server, class Client, int STREAMS>
class tflite_fuse_network {
 public:
  // Board-specific functions; each may be left out.
  struct Hooks {
    // A connection was opened: switch Nagle's algorithm off here.
    void (*opened)(Client& client);
    // A message was written: send it at once, if the library waits for more.
    void (*written)(Client& client);
    // Unpredictable bytes, from hardware; 0 if that worked.
    int (*random)(void* user, void* data, size_t bytes);
  };

  // listener: begun before the first use; NULL for a device that only dials. board: functions of the board.
  explicit tflite_fuse_network(Server* listener, const Hooks& board = Hooks()) : server_(listener), hooks_(board) {
    for (int i = 0; i < STREAMS; ++i) {
      used_[i] = false;
    }
    transport_.user = this;
    transport_.open = Open;
    transport_.send = Send;
    transport_.receive = Receive;
    transport_.close = Close;
    transport_.microseconds = Microseconds;
    transport_.random = board.random;
  }

  const tflite_fuse_transport* transport() const { return &transport_; }

 private:
  enum { HOST_BYTES = 64 };

  static uint32_t Microseconds(void*) { return static_cast<uint32_t>(micros()); }

  static bool IsLate(uint32_t start, uint32_t milliseconds) {
    return static_cast<uint32_t>(millis()) - start >= milliseconds;
  }

  static int Open(void* user, const char* address, size_t bytes, uint32_t milliseconds) {
    tflite_fuse_network* self = static_cast<tflite_fuse_network*>(user);
    int free = 0;
    while (free < STREAMS && self->used_[free]) {
      ++free;
    }
    const bool is_open = free < STREAMS && (address != NULL ? self->Dial(free, address, bytes, milliseconds)
                                                            : self->Accept(free, milliseconds));
    if (!is_open) {
      return TFLITE_FUSE_NO_STREAM;
    }
    self->used_[free] = true;
    if (self->hooks_.opened != NULL) {
      self->hooks_.opened(self->clients_[free]);
    }
    return free;
  }

  bool Accept(int number, uint32_t milliseconds) {
    const uint32_t start = static_cast<uint32_t>(millis());
    while (server_ != NULL) {
      clients_[number] = server_->accept();
      if (clients_[number]) {
        return true;
      }
      if (IsLate(start, milliseconds)) {
        break;
      }
      yield();
    }
    return false;
  }

  bool Dial(int number, const char* address, size_t bytes, uint32_t milliseconds) {
    char host[HOST_BYTES];
    const uint32_t start = static_cast<uint32_t>(millis());
    if (bytes >= sizeof(host)) {
      return false;
    }
    memcpy(host, address, bytes);
    host[bytes] = '\0';
    char* colon = strrchr(host, ':');
    const long port = colon == NULL ? 0 : atol(colon + 1);
    if (port < 1 || port > 65535) {
      return false;
    }
    *colon = '\0';
    while (!clients_[number].connect(host, static_cast<uint16_t>(port))) { /* the other device may still be starting */
      clients_[number].stop();
      if (IsLate(start, milliseconds)) {
        return false;
      }
      yield();
    }
    return true;
  }

  static Client* Find(void* user, int stream) {
    tflite_fuse_network* self = static_cast<tflite_fuse_network*>(user);
    return stream >= 0 && stream < STREAMS && self->used_[stream] ? &self->clients_[stream] : NULL;
  }

  static int Send(void* user, int stream, const void* data, size_t bytes, uint32_t milliseconds) {
    Client* client = Find(user, stream);
    const uint8_t* rest = static_cast<const uint8_t*>(data);
    const uint32_t start = static_cast<uint32_t>(millis());
    while (client != NULL && bytes > 0) {
      const size_t count = client->write(rest, bytes);
      rest += count;
      bytes -= count;
      if (count == 0) {
        if (!client->connected() || IsLate(start, milliseconds)) {
          return -1;
        }
        yield();
      }
    }
    tflite_fuse_network* self = static_cast<tflite_fuse_network*>(user);
    if (client != NULL && self->hooks_.written != NULL) {
      self->hooks_.written(*client);
    }
    return client == NULL ? -1 : 0;
  }

  static int Receive(void* user, int stream, void* data, size_t bytes, uint32_t milliseconds) {
    Client* client = Find(user, stream);
    const uint32_t start = static_cast<uint32_t>(millis());
    while (client != NULL) {
      const int available = client->available();
      if (available > 0) {
        const size_t most = static_cast<size_t>(available) < bytes ? static_cast<size_t>(available) : bytes;
        const int count = client->read(static_cast<uint8_t*>(data), most);
        return count < 0 ? 0 : count;
      }
      if (!client->connected()) {
        return -1;
      }
      if (IsLate(start, milliseconds)) {
        return 0;
      }
      yield();
    }
    return -1;
  }

  static void Close(void* user, int stream) {
    Client* client = Find(user, stream);
    if (client != NULL) {
      client->stop();
      static_cast<tflite_fuse_network*>(user)->used_[stream] = false;
    }
  }

  Server* server_;
  Hooks hooks_;
  Client clients_[STREAMS];
  bool used_[STREAMS];
  tflite_fuse_transport transport_;
};

// A serial line by its Stream (Serial, Serial1, a USB port), which was begun. A packet of PACKET + 8 bytes must fit the
// board's receive buffer: 64 bytes on many.
template <int PACKET = 48>
class tflite_fuse_line {
 public:
  explicit tflite_fuse_line(Stream& begun, int (*entropy)(void* user, void* data, size_t bytes) = NULL)
      : stream_(begun) {
    uart_.user = this;
    uart_.read = Read;
    uart_.write = Write;
    uart_.microseconds = Microseconds;
    uart_.idle = Idle;
    uart_.random = entropy;
    (void)tflite_fuse_serial_open(&serial_, &uart_, memory_, sizeof(memory_), &transport_);
  }

  const tflite_fuse_transport* transport() const { return &transport_; }

 private:
  static_assert(PACKET >= 4 && PACKET <= 252 && PACKET % 4 == 0, "packets have 4, 8 ... 252 bytes");

  static int Read(void* user, void* data, size_t bytes) {
    Stream& from = static_cast<tflite_fuse_line*>(user)->stream_;
    uint8_t* to = static_cast<uint8_t*>(data);
    size_t count = 0;
    while (count < bytes && from.available() > 0) {
      to[count++] = static_cast<uint8_t>(from.read());
    }
    return static_cast<int>(count);
  }

  static int Write(void* user, const void* data, size_t bytes) {
    Stream& to = static_cast<tflite_fuse_line*>(user)->stream_;
    return static_cast<int>(to.write(static_cast<const uint8_t*>(data), bytes));
  }

  static uint32_t Microseconds(void*) { return static_cast<uint32_t>(micros()); }

  static void Idle(void*) { yield(); }

  Stream& stream_;
  tflite_fuse_uart uart_;
  tflite_fuse_serial serial_;
  tflite_fuse_transport transport_;
  alignas(4) uint8_t memory_[TFLITE_FUSE_SERIAL_BYTES(PACKET)];
};

#endif
