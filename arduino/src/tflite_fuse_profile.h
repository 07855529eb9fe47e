/* Measures the time of a block's stages by a clock of the application.
 *
 *     static uint32_t cycles(void* user) { return DWT->CYCCNT; }
 *     static void took(void* user, int32_t stage, int32_t kind, uint32_t ticks) { ((uint32_t*)user)[stage] += ticks; }
 *     static uint32_t by_stage[255];
 *     static tflite_fuse_profile profile = {cycles, took, by_stage};
 *     ...
 *     tflite_fuse_use_profile(&blocks[0], &profile);
 *
 * It wraps kernels in the same way as an application's own (tflite_fuse_rows.h), so programs without a profile link
 * nothing of it and blocks without one execute the same instructions. The rest of a block's time is the executor, sums
 * over whole inputs (global averages, fully connected layers of several pixels), CONCATENATION, and reading sources. */
#ifndef TFLITE_FUSE_PROFILE_H_
#define TFLITE_FUSE_PROFILE_H_

#include "tflite_fuse_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clock: returns ticks, which may wrap around. took: called after each run of pixels of a stage, with the stage's
 * number in the block, its kind (enum tflite_fuse_kind) and its ticks, including two readings of the clock. Fields from
 * block on are the library's own. */
typedef struct {
  uint32_t (*clock)(void* user);
  void (*took)(void* user, int32_t stage, int32_t kind, uint32_t ticks);
  void* user;
  const tflite_fuse_block* block;
  const tflite_fuse_rows* rows;
  tflite_fuse_rows wrapped;
} tflite_fuse_profile;

/* Starts to profile a prepared block with its present kernels; NULL stops it.
 *
 * profile: of this block alone; must outlive all runs. */
void tflite_fuse_use_profile(tflite_fuse_block* block, tflite_fuse_profile* profile);

#ifdef __cplusplus
}
#endif

#endif
