/* A worker on this machine: FRAGMENT ADDRESS. Prints its port, and serves until it is ended. */
#include <stdio.h>
#include <stdlib.h>

#include "link/tflite_fuse_tcp.h"
#include "tflite_fuse_link.h"

enum { SESSIONS = 9, ALIGNMENT = 16 };

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
  tflite_fuse_transport transport;
  tflite_fuse_node node;
  if (tflite_fuse_worker_open(&worker, fragment, bytes, buffer, buffer_bytes) != TFLITE_FUSE_OK) return 3;
  if (tflite_fuse_tcp_listen(&tcp, &transport, arguments[2]) != 0) return 4;
  tflite_fuse_node_open(&node, &worker, &transport, frame, sessions, SESSIONS);
  printf("%d\n", tflite_fuse_tcp_port(&tcp));
  fflush(stdout);
  for (;;) tflite_fuse_node_serve(&node, 1000);
}
