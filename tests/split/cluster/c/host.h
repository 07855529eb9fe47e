/* What the programs here have in common: a fragment out of a file, and a serial line of this machine. */
#ifndef HOST_H_
#define HOST_H_

#include "link/tflite_fuse_serial.h"
#include "link/tflite_fuse_several.h"
#include "link/tflite_fuse_tcp.h"

enum { HOST_ROOM = 240 };

typedef struct {
  int file;
  tflite_fuse_uart uart;
  tflite_fuse_serial serial;
  _Alignas(4) uint8_t memory[TFLITE_FUSE_SERIAL_BYTES(HOST_ROOM)];
} host_line;

/* Opens a worker, or the coordinator's machine, of the fragment in a file. 0 if that worked. */
int host_open(tflite_fuse_worker* worker, const char* path);

/* Opens a terminal. Clock and random source are those of another transport. 0 if that worked. */
int host_line_open(host_line* line, tflite_fuse_transport* transport, const tflite_fuse_transport* other, const char* path);

#endif
