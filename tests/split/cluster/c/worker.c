/* A worker on this machine: FRAGMENT ADDRESS. Prints its port, and serves until it is ended. An address that begins with a
 * slash is a serial line. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "link/tflite_fuse_serial.h"
#include "link/tflite_fuse_tcp.h"
#include "tflite_fuse_link.h"

enum { SESSIONS = 9, ALIGNMENT = 16, ROOM = 240 };

static int line;

static int read_line(void* user, void* data, size_t bytes) {
  (void)user;
  const ssize_t count = read(line, data, bytes);
  return count > 0 ? (int)count : 0;
}

static int write_line(void* user, const void* data, size_t bytes) {
  (void)user;
  const ssize_t count = write(line, data, bytes);
  return count > 0 ? (int)count : 0;
}

static void sleep_a_little(void* user) {
  struct pollfd each = {line, POLLIN, 0};
  (void)user;
  (void)poll(&each, 1, 5);
}

static int open_line(tflite_fuse_serial* serial, tflite_fuse_uart* uart, tflite_fuse_transport* transport,
                     const char* path) {
  static _Alignas(4) uint8_t memory[TFLITE_FUSE_SERIAL_BYTES(ROOM)];
  struct termios state;
  line = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (line < 0 || tcgetattr(line, &state) != 0) return -1;
  cfmakeraw(&state);
  *uart = (tflite_fuse_uart){NULL, read_line, write_line, transport->microseconds, sleep_a_little, transport->random};
  if (tcsetattr(line, TCSANOW, &state) != 0) return -1;
  return tflite_fuse_serial_open(serial, uart, memory, sizeof(memory), transport);
}

int main(int count, char** arguments) {
  static _Alignas(4) uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
  static tflite_fuse_session sessions[SESSIONS];
  FILE* file = count == 3 ? fopen(arguments[1], "rb") : NULL;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 2;
  const size_t bytes = (size_t)ftell(file);
  uint8_t* fragment = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  rewind(file);
  if (fragment == NULL || fread(fragment, 1, bytes, file) != bytes) return 2;
  fclose(file);

  const uint32_t buffer_bytes = *(const uint32_t*)(const void*)(fragment + 28);
  uint8_t* buffer = aligned_alloc(ALIGNMENT, (buffer_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  tflite_fuse_worker worker;
  tflite_fuse_tcp tcp;
  tflite_fuse_serial serial;
  tflite_fuse_uart uart;
  tflite_fuse_transport transport;
  tflite_fuse_node node;
  if (tflite_fuse_worker_open(&worker, fragment, bytes, buffer, buffer_bytes) != TFLITE_FUSE_OK) return 3;
  const bool is_serial = arguments[2][0] == '/';
  if (tflite_fuse_tcp_listen(&tcp, &transport, is_serial ? "127.0.0.1:0" : arguments[2]) != 0) return 4;
  if (is_serial && open_line(&serial, &uart, &transport, arguments[2]) != 0) return 5;
  tflite_fuse_node_open(&node, &worker, &transport, frame, sessions, SESSIONS);
  printf("%d\n", is_serial ? 0 : tflite_fuse_tcp_port(&tcp));
  fflush(stdout);
  for (;;) tflite_fuse_node_serve(&node, 1000);
}
