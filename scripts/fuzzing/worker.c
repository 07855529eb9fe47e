/* Feeds damaged fragments to the worker, as libFuzzer's target: the library is built without checksums, so that what is damaged
 * comes past them. What is accepted runs in memory of exact size, messages included. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tflite_fuse_worker.h"
#include "worker/tflite_fuse_fragment_format.h"

enum { MOST_BYTES = 1 << 18, MOST_EVENTS = 300, ALIGNMENT = 16 };

static uint8_t* exact(size_t bytes, void** memory) {
  if (posix_memalign(memory, ALIGNMENT, bytes == 0 ? 1 : bytes) != 0) abort();
  return *memory;
}

static tflite_fuse_status step(tflite_fuse_worker* worker, const tflite_fuse_event* event) {
  void* memory;
  if (event->kind == TFLITE_FUSE_COMPUTE) return tflite_fuse_worker_compute(worker);
  uint8_t* payload = exact(event->bytes, &memory);
  memset(payload, event->sequence & 255, event->bytes);
  tflite_fuse_status status = TFLITE_FUSE_OK;
  if (event->kind == TFLITE_FUSE_RECEIVE) {
    status = tflite_fuse_worker_received(worker, payload, event->bytes);
  } else {
    status = tflite_fuse_worker_payload(worker, payload);
    if (status == TFLITE_FUSE_OK) status = tflite_fuse_worker_sent(worker);
  }
  free(memory);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t at = offsetof(tflite_fuse_fragment_header, buffer_bytes);
  uint32_t buffer_bytes = 0;
  void *fragment_memory, *buffer_memory;
  tflite_fuse_worker worker;
  tflite_fuse_worker_bring_sums();
  if (size >= at + 4) memcpy(&buffer_bytes, data + at, 4);
  if (buffer_bytes > MOST_BYTES) return 0;
  uint8_t* fragment = exact(size, &fragment_memory);
  memcpy(fragment, data, size);
  uint8_t* buffer = exact(buffer_bytes, &buffer_memory);
  memset(buffer, 0xA5, buffer_bytes);
  if (tflite_fuse_worker_open(&worker, fragment, size, buffer, buffer_bytes) == TFLITE_FUSE_OK) {
    tflite_fuse_worker_begin(&worker);
    for (int count = 0; count < MOST_EVENTS; ++count) {
      const tflite_fuse_event event = tflite_fuse_worker_next(&worker);
      if (event.kind == TFLITE_FUSE_FINISHED || step(&worker, &event) != TFLITE_FUSE_OK) break;
    }
    for (uint32_t number = 0, bytes; number < 3; ++number) {
      uint8_t* input = tflite_fuse_worker_input(&worker, number, &bytes);
      if (input != NULL) memset(input, 1, bytes);
    }
  }
  free(fragment_memory);
  free(buffer_memory);
  return 0;
}
