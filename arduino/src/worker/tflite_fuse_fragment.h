/* Locates the parts of a fragment in place. Private to the library. */
#ifndef TFLITE_FUSE_FRAGMENT_H_
#define TFLITE_FUSE_FRAGMENT_H_

#include "../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_worker.h"
#include "tflite_fuse_fragment_format.h"

static inline const tflite_fuse_fragment_header* tflite_fuse_fragment_of(const tflite_fuse_worker* worker) {
  return (const void*)worker->fragment;
}

static inline const tflite_fuse_fragment_step* tflite_fuse_steps_of(const tflite_fuse_worker* worker) {
  return (const void*)(worker->fragment + tflite_fuse_fragment_of(worker)->steps);
}

static inline const tflite_fuse_fragment_view* tflite_fuse_views_of(const tflite_fuse_worker* worker) {
  return (const void*)(worker->fragment + tflite_fuse_fragment_of(worker)->views);
}

static inline const uint32_t* tflite_fuse_operands_of(const tflite_fuse_worker* worker) {
  return (const void*)(worker->fragment + tflite_fuse_fragment_of(worker)->operands);
}

static inline const tflite_fuse_fragment_block* tflite_fuse_blocks_of(const tflite_fuse_worker* worker) {
  return (const void*)(worker->fragment + tflite_fuse_fragment_of(worker)->blocks);
}

/* Returns the ends: inputs, then outputs. */
static inline const tflite_fuse_fragment_end* tflite_fuse_ends_of(const tflite_fuse_worker* worker) {
  return (const void*)(worker->fragment + tflite_fuse_fragment_of(worker)->ends);
}

/* Returns the bytes of a view that lies in a buffer. */
static inline uint64_t tflite_fuse_view_bytes(const tflite_fuse_fragment_view* view) {
  return (uint64_t)view->rows * view->columns * view->run;
}

/* Prepares a block that was checked before. */
static inline void tflite_fuse_find_block(const tflite_fuse_worker* worker, uint32_t number, tflite_fuse_block* block) {
  const tflite_fuse_fragment_block* record = &tflite_fuse_blocks_of(worker)[number];
  tflite_fuse_find_again(block, worker->fragment + record->options, record->options_bytes,
                         worker->fragment + record->constants);
}

#endif
