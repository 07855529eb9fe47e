/* Measures a block's kernels by two readings of the application's clock per call. */
#include "../tflite_fuse_profile.h"

#include "tflite_fuse_machine.h"

static void measure(const tflite_fuse_call* call) {
  const tflite_fuse_profile* profile = call->user;
  const int32_t kind = call->stage->kind;
  const tflite_fuse_kernel row_kernel = profile->rows == NULL ? NULL : tflite_fuse_row_kernel(profile->rows, kind);
  tflite_fuse_call inner = *call;
  inner.user = profile->rows == NULL ? NULL : profile->rows->user;
  const uint32_t start = profile->clock(profile->user);
  (row_kernel == NULL ? tflite_fuse_entry_of(call->stage)->compute : row_kernel)(&inner);
  const uint32_t ticks = profile->clock(profile->user) - start;
  profile->took(profile->user, (int32_t)(call->stage - profile->block->stages), kind, ticks);
}

TFLITE_FUSE_RARE void tflite_fuse_use_profile(tflite_fuse_block* block, tflite_fuse_profile* profile) {
  if (block->rows != NULL && block->rows->others == measure) {
    block->rows = ((const tflite_fuse_profile*)block->rows->user)->rows;
  }
  if (profile != NULL) {
    profile->block = block;
    profile->rows = block->rows;
    profile->wrapped = (tflite_fuse_rows){NULL, NULL, profile, measure};
    block->rows = &profile->wrapped;
  }
}
