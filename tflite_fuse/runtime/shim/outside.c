#include "outside.h"

#include <string.h>

#include "guard.h"

typedef struct {
  shim_input input;
  int64_t next; /* pixels handed out or passed over */
  guard_copy guard;
} feed;

static feed feeds[TFLITE_FUSE_MAX_OPERANDS];
static const void* externals[TFLITE_FUSE_MAX_OPERANDS];
static tflite_fuse_source sources[TFLITE_FUSE_MAX_OPERANDS];
static size_t sizes[TFLITE_FUSE_MAX_OPERANDS];
/* Pages that are never accessed take no memory of this machine. */
static _Alignas(16) uint8_t second_memory[32 << 20];
static tflite_fuse_outside outside = {
    TFLITE_FUSE_OUTSIDE_MARK_2, 0, externals, sizes, 0, sources, second_memory, sizeof(second_memory)};

static size_t pixel_bytes(const shim_input* input) {
  return (size_t)input->channels * (input->type == TFLITE_FUSE_FLOAT32 ? 4 : 1);
}

static int read_in_order(void* user, int y, int x, int count, void* destination, size_t capacity) {
  feed* from = user;
  const shim_input* input = &from->input;
  const int64_t first = (int64_t)y * input->width + x;
  if (y < 0 || x < 0 || count < 0 || y >= input->height || x + count > input->width || first < from->next ||
      (size_t)count * pixel_bytes(input) > capacity) {
    return -1;
  }
  from->next = first + count;
  if (input->read != NULL) {
    return input->read(NULL, y, x, count, destination, capacity);
  }
  memcpy(destination, (const uint8_t*)input->data + (size_t)first * pixel_bytes(input), (size_t)count * pixel_bytes(input));
  return 0;
}

__attribute__((visibility("default"))) int tflite_fuse_shim_set_outside(const shim_input* inputs, int32_t count) {
  if (count < 0 || count > TFLITE_FUSE_MAX_OPERANDS) {
    return -1;
  }
  for (int32_t i = 0; i < count; ++i) {
    feed* to = &feeds[i];
    sizes[i] = (size_t)inputs[i].height * (size_t)inputs[i].width * pixel_bytes(&inputs[i]);
    to->input = inputs[i];
    to->input.data = guard_in(&to->guard, inputs[i].data, sizes[i]);
    to->next = 0;
    externals[i] = inputs[i].data == NULL ? NULL : to->input.data;
    sources[i] = (tflite_fuse_source){read_in_order,           to, inputs[i].height, inputs[i].width, inputs[i].channels,
                                      (tflite_fuse_type)inputs[i].type};
  }
  outside.external_count = count;
  outside.source_count = count;
  return 0;
}

const tflite_fuse_outside* shim_outside(void) { return &outside; }
