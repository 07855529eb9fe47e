/* What the stages of a block take, by a clock of the application.
 *
 *     static uint32_t cycles(void* user) { return DWT->CYCCNT; }
 *     static void took(void* user, int32_t stage, int32_t kind, uint32_t ticks) { ((uint32_t*)user)[stage] += ticks; }
 *     static uint32_t by_stage[255];
 *     static tflite_fuse_profile profile = {cycles, took, by_stage};
 *     ...
 *     tflite_fuse_use_profile(&blocks[0], &profile);
 *
 * It wraps kernels as an application's own are (tflite_fuse_rows.h), so that programs without a profile link nothing of it
 * and blocks without one execute the same instructions. What a block takes beyond its stages is moving through them, sums
 * over whole inputs (global averages, fully connected layers of several pixels), CONCATENATION, and reading sources. */
#ifndef TFLITE_FUSE_PROFILE_H_
#define TFLITE_FUSE_PROFILE_H_

#include "tflite_fuse_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clock: ticks, which may run over. took: is called behind each run of pixels of a stage, with the stage's number in the
 * block, its kind (enum tflite_fuse_kind) and its ticks, those of two readings of the clock included. Fields from block on
 * are the library's own. */
typedef struct {
  uint32_t (*clock)(void* user);
  void (*took)(void* user, int32_t stage, int32_t kind, uint32_t ticks);
  void* user;
  const tflite_fuse_block* block;
  const tflite_fuse_rows* rows;
  tflite_fuse_rows wrapped;
} tflite_fuse_profile;

/* Profiles a prepared block from now on, with the kernels it has; NULL: no more.
 *
 * profile: of this block alone; must stay as long as the block is run. */
void tflite_fuse_use_profile(tflite_fuse_block* block, tflite_fuse_profile* profile);

#ifdef __cplusplus
}
#endif

#endif
