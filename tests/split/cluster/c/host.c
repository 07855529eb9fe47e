/* A fragment out of a file, and a serial line of this machine. */
#define _DEFAULT_SOURCE
#include "host.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

enum { ALIGNMENT = 16, BUFFER_BYTES_AT = 28 };

/* Kept until the process ends. */
static void* room_for(size_t bytes) {
  static void* kept[4];
  static int count;
  void* room = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
  return kept[count++ % 4] = room;
}

int host_open(tflite_fuse_worker* worker, const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return -1;
  const size_t bytes = (size_t)ftell(file);
  uint8_t* fragment = room_for(bytes);
  rewind(file);
  if (fragment == NULL || fread(fragment, 1, bytes, file) != bytes) return -1;
  fclose(file);
  const uint32_t buffer_bytes = *(const uint32_t*)(const void*)(fragment + BUFFER_BYTES_AT);
  const tflite_fuse_status status =
      tflite_fuse_worker_open(worker, fragment, bytes, room_for(buffer_bytes), buffer_bytes);
  if (status != TFLITE_FUSE_OK) fprintf(stderr, "%s\n", tflite_fuse_worker_message(status));
  if (status == TFLITE_FUSE_NO_OPERATOR) fprintf(stderr, "operator %u \n", tflite_fuse_worker_operator(worker));
  return status == TFLITE_FUSE_OK ? 0 : -1;
}

static int read_line(void* user, void* data, size_t bytes) {
  const ssize_t count = read(((host_line*)user)->file, data, bytes);
  return count > 0 ? (int)count : 0;
}

static int write_line(void* user, const void* data, size_t bytes) {
  const ssize_t count = write(((host_line*)user)->file, data, bytes);
  return count > 0 ? (int)count : 0;
}

static void sleep_a_little(void* user) {
  struct pollfd each = {((host_line*)user)->file, POLLIN, 0};
  (void)poll(&each, 1, 5);
}

int host_line_open(host_line* line, tflite_fuse_transport* transport, const tflite_fuse_transport* other, const char* path) {
  struct termios state;
  line->file = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (line->file < 0 || tcgetattr(line->file, &state) != 0) return -1;
  cfmakeraw(&state);
  if (tcsetattr(line->file, TCSANOW, &state) != 0) return -1;
  line->uart = (tflite_fuse_uart){line, read_line, write_line, other->microseconds, sleep_a_little, other->random};
  return tflite_fuse_serial_open(&line->serial, &line->uart, line->memory, sizeof(line->memory), transport);
}
