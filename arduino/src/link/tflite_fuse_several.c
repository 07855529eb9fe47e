/* Joins several transports to one: a stream's number determines its transport. */
#include "tflite_fuse_several.h"

enum { STREAMS = 1 << 20 }; /* streams per transport */

static const tflite_fuse_transport* part_of(void* user, int stream) {
  const tflite_fuse_several* several = user;
  return several->parts[stream / STREAMS];
}

static int open_any(void* user, const char* address, size_t address_bytes, uint32_t milliseconds) {
  const tflite_fuse_several* several = user;
  if (address == NULL || address_bytes < 2 || address[0] < '0' || address[0] - '0' >= several->count ||
      address[1] != '/') {
    return TFLITE_FUSE_NO_STREAM;
  }
  const int number = address[0] - '0';
  const tflite_fuse_transport* part = several->parts[number];
  const int stream = part->open(part->user, address + 2, address_bytes - 2, milliseconds);
  return stream < 0 || stream >= STREAMS ? TFLITE_FUSE_NO_STREAM : number * STREAMS + stream;
}

static int send_any(void* user, int stream, const void* data, size_t bytes, uint32_t milliseconds) {
  const tflite_fuse_transport* part = part_of(user, stream);
  return part->send(part->user, stream % STREAMS, data, bytes, milliseconds);
}

static int receive_any(void* user, int stream, void* data, size_t bytes, uint32_t milliseconds) {
  const tflite_fuse_transport* part = part_of(user, stream);
  return part->receive(part->user, stream % STREAMS, data, bytes, milliseconds);
}

static void close_any(void* user, int stream) {
  const tflite_fuse_transport* part = part_of(user, stream);
  part->close(part->user, stream % STREAMS);
}

static uint32_t microseconds(void* user) {
  const tflite_fuse_transport* part = part_of(user, 0);
  return part->microseconds(part->user);
}

static int random_bytes(void* user, void* data, size_t bytes) {
  const tflite_fuse_transport* part = part_of(user, 0);
  return part->random(part->user, data, bytes);
}

void tflite_fuse_several_open(tflite_fuse_several* several, const tflite_fuse_transport* const* parts, int count,
                              tflite_fuse_transport* transport) {
  *several = (tflite_fuse_several){parts, count};
  *transport = (tflite_fuse_transport){several,     open_any,  send_any,
                                       receive_any, close_any, microseconds,
                                       parts[0]->random == NULL ? NULL : random_bytes};
}
