#include "outside.h"

#include <string.h>

#include "guard.h"

typedef struct {
  shim_array array;
  int64_t next; /* pixels handed out or passed over */
  guard_copy guard;
} feed;

static feed feeds[TFLITE_FUSE_MAX_OPERANDS];
static const int8_t* externals[TFLITE_FUSE_MAX_OPERANDS];
static tflite_fuse_source sources[TFLITE_FUSE_MAX_OPERANDS];
static size_t sizes[TFLITE_FUSE_MAX_OPERANDS];
static tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK, 0, externals, sizes, 0, sources, sizes};

static int read_in_order(void* user, int y, int x, int count, int8_t* destination) {
  feed* from = user;
  const int64_t first = (int64_t)y * from->array.width + x;
  if (y < 0 || x < 0 || count < 0 || y >= from->array.height || x + count > from->array.width || first < from->next) {
    return -1;
  }
  from->next = first + count;
  memcpy(destination, from->array.data + first * from->array.channels, (size_t)count * (size_t)from->array.channels);
  return 0;
}

__attribute__((visibility("default"))) int tflite_fuse_shim_set_outside(const shim_array* arrays, int32_t count) {
  if (count < 0 || count > TFLITE_FUSE_MAX_OPERANDS) {
    return -1;
  }
  for (int32_t i = 0; i < count; ++i) {
    feed* to = &feeds[i];
    sizes[i] = (size_t)arrays[i].height * (size_t)arrays[i].width * (size_t)arrays[i].channels;
    to->array = arrays[i];
    to->array.data = guard_in(&to->guard, arrays[i].data, sizes[i]);
    to->next = 0;
    externals[i] = to->array.data;
    sources[i].read = read_in_order;
    sources[i].user = to;
  }
  outside.external_count = count;
  outside.source_count = count;
  return 0;
}

const tflite_fuse_outside* shim_outside(void) { return &outside; }
