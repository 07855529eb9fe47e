/* A worker on this machine: FRAGMENT ADDRESS. Prints its port, and serves until it is ended. An address that begins with a
 * slash is a serial line. */
#include <stdio.h>

#include "host.h"

enum { SESSIONS = 9 };

int main(int count, char** arguments) {
  static _Alignas(4) uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
  static tflite_fuse_session sessions[SESSIONS];
  static host_line line;
  tflite_fuse_worker worker;
  tflite_fuse_tcp tcp;
  tflite_fuse_transport transport;
  tflite_fuse_node node;
  if (count != 3) return 2;
  if (host_open(&worker, arguments[1]) != 0) return 3;
  const bool is_serial = arguments[2][0] == '/';
  if (tflite_fuse_tcp_listen(&tcp, &transport, is_serial ? "127.0.0.1:0" : arguments[2]) != 0) return 4;
  const tflite_fuse_transport other = transport;
  if (is_serial && host_line_open(&line, &transport, &other, arguments[2]) != 0) return 5;
  tflite_fuse_node_open(&node, &worker, &transport, frame, sessions, SESSIONS);
  printf("%d\n", is_serial ? 0 : tflite_fuse_tcp_port(&tcp));
  fflush(stdout);
  for (;;) tflite_fuse_node_serve(&node, 1000);
}
