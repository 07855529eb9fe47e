/* A worker on this machine: FRAGMENT ADDRESS [KEY]. Prints its port, and serves until it is ended. An address that begins with a
 * slash is a serial line. KEY is a file. */
#include <stdio.h>
#include <stdlib.h>

#include "host.h"
#include "link/tflite_fuse_mbedtls.h"
#include "mac.h"

#ifdef TFLITE_FUSE_WITH_MBEDTLS
#define MAC tflite_fuse_mbedtls_mac
#else
#define MAC host_mac
#endif

enum { SESSIONS = 9 };

/* Whether only who has the key is served from now on. */
static bool is_locked(tflite_fuse_node* node, const char* path) {
  static uint8_t key[TFLITE_FUSE_KEY_MOST_BYTES], secrets[SESSIONS][TFLITE_FUSE_SECRET_BYTES];
  static tflite_fuse_key lock;
  FILE* file = fopen(path, "rb");
  const size_t bytes = file == NULL ? 0 : fread(key, 1, sizeof(key), file);
  if (file != NULL) fclose(file);
  return tflite_fuse_key_open(&lock, node, MAC, NULL, key, bytes, secrets) == TFLITE_FUSE_LINK_OK;
}

int main(int count, char** arguments) {
  static _Alignas(4) uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
  static tflite_fuse_session sessions[SESSIONS];
  static host_line line;
  tflite_fuse_worker worker;
  tflite_fuse_tcp tcp;
  tflite_fuse_transport transport;
  tflite_fuse_node node;
  if (count != 3 && count != 4) return 2;
  if (host_open(&worker, arguments[1]) != 0) return 3;
  const bool is_serial = arguments[2][0] == '/';
  if (tflite_fuse_tcp_listen(&tcp, &transport, is_serial ? "127.0.0.1:0" : arguments[2]) != 0) return 4;
  const tflite_fuse_transport other = transport;
  if (is_serial && host_line_open(&line, &transport, &other, arguments[2]) != 0) return 5;
  tflite_fuse_node_open(&node, &worker, &transport, frame, sessions, SESSIONS);
  if (count == 3) fputs("without a key whoever reaches this worker can use it\n", stderr);
  if (count == 4 && getenv("WITHOUT_ENTROPY") != NULL) transport.random = NULL;
  if (count == 4 && !is_locked(&node, arguments[3])) return 6;
  printf("%d\n", is_serial ? 0 : tflite_fuse_tcp_port(&tcp));
  fflush(stdout);
  for (;;) tflite_fuse_node_serve(&node, 1000);
}
