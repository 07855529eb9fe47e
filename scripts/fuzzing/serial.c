/* A connection over a serial line whose other end does whatever it likes, as libFuzzer's target.
 *
 * Input: first byte: room for packets, and who dials. Then what happens, a byte each that says what, mostly with its operand:
 * bytes that come, sound packets that come, time that passes, a line that takes nothing, and calls of the transport. Whatever
 * comes must end in a number of bytes that fits, and a call must end once its time is over. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "executor/tflite_fuse_checks.h"
#include "link/tflite_fuse_serial.h"

enum { COMES = 256, MOST = 64, HEAD = 8 };

typedef struct {
  uint8_t coming[COMES + HEAD + 255];
  size_t count, at;
  uint32_t clock;
  int writes; /* how many bytes of a call the line takes, or -1 if it is gone */
} line;

static void check(int sound) {
  if (!sound) abort();
}

static int read_line(void* user, void* data, size_t bytes) {
  line* l = user;
  const size_t left = l->count - l->at, count = left < bytes ? left : bytes;
  check(bytes > 0);
  memcpy(data, l->coming + l->at, count);
  l->at += count;
  return (int)count;
}

static int write_line(void* user, const void* data, size_t bytes) {
  const line* l = user;
  volatile uint8_t last = ((const uint8_t*)data)[bytes - 1];
  (void)last;
  return l->writes < 0 ? -1 : (int)(bytes < (size_t)l->writes ? bytes : (size_t)l->writes);
}

static uint32_t clock_of(void* user) {
  line* l = user;
  return l->clock += 700;
}

static void add(line* l, const uint8_t* data, size_t bytes) {
  if (l->at == l->count) l->at = l->count = 0;
  if (l->count + bytes <= sizeof(l->coming)) {
    memcpy(l->coming + l->count, data, bytes);
    l->count += bytes;
  }
}

static void add_packet(line* l, const uint8_t* data, size_t left) {
  _Alignas(4) uint8_t packet[HEAD + 256];
  const uint8_t bytes = left > 4 ? (uint8_t)(data[1] < left - 4 ? data[1] : left - 4) : 0;
  if (left < 4) return;
  memcpy(packet, data, 4);
  packet[0] = (uint8_t)(0xA0 + data[0] % 8);
  packet[1] = bytes;
  memcpy(packet + HEAD, data + 4, bytes);
  const uint32_t sum = tflite_fuse_checksum(packet, HEAD + (size_t)bytes, packet + 4, packet, 0);
  for (int i = 0; i < 4; ++i) packet[4 + i] = (uint8_t)(sum >> 8 * i);
  add(l, packet, HEAD + (size_t)bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  line l = {.writes = 300};
  const tflite_fuse_uart uart = {&l, read_line, write_line, clock_of, NULL, NULL};
  const size_t room = (size_t)(data[0] & 127) * 4, memory_bytes = TFLITE_FUSE_SERIAL_BYTES(room);
  uint8_t* memory = malloc(memory_bytes);
  uint8_t* values = malloc(MOST);
  tflite_fuse_serial serial;
  tflite_fuse_transport transport;
  check(memory != NULL && values != NULL);
  memset(values, 7, MOST);
  if (tflite_fuse_serial_open(&serial, &uart, memory, memory_bytes, &transport) != 0) {
    check(room < 4);
    free(values);
    free(memory);
    return 0;
  }
  const char* address = (data[0] & 128) != 0 ? "" : NULL;
  int stream = -1;
  for (size_t at = 1; at < size;) {
    const uint8_t what = data[at++], value = at < size ? data[at] : 0;
    const size_t some = size - at < (size_t)(what >> 3) ? size - at : (size_t)(what >> 3);
    const uint32_t start = l.clock;
    switch (what & 7) {
      case 0:
        add(&l, data + at, some);
        at += some;
        break;
      case 1:
        add_packet(&l, data + at, size - at);
        at += 4;
        at += at < size ? some : 0;
        break;
      case 2:
        l.clock += (uint32_t)value << 12;
        ++at;
        break;
      case 3:
        l.writes = (int)value - 1;
        ++at;
        break;
      case 4: {
        const int found = transport.open(transport.user, address, 0, what >> 3);
        check(found >= TFLITE_FUSE_NO_STREAM);
        stream = found >= 0 ? found : stream;
        break;
      }
      case 5: {
        const size_t wants = 1 + (what >> 3);
        const int came = transport.receive(transport.user, stream, values, wants, value);
        check(came >= -1 && came <= (int)wants);
        ++at;
        break;
      }
      case 6:
        check(transport.send(transport.user, stream, values, 1 + (size_t)(what >> 3), value) <= 0);
        ++at;
        break;
      default:
        transport.close(transport.user, stream);
        break;
    }
    if ((what & 7) >= 4) check(l.clock - start < UINT32_C(20000000));
  }
  free(values);
  free(memory);
  return 0;
}
