/* Declares checks of a block's shape, of its constants and of kinds. Private to the library.
 *
 * Options and constants come from a file and are treated as hostile: every offset, index and extent is checked before
 * it is used, in 64-bit arithmetic, so a run touches only the memory of its caller. Not checked is whether the rings
 * are long enough for the schedule: positions are taken modulo the capacity, so a ring that is too short gives wrong
 * values but no wild access. */
#ifndef TFLITE_FUSE_CHECKS_H_
#define TFLITE_FUSE_CHECKS_H_

#include "tflite_fuse_machine.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* Returns the checksum's field in unchecked options; NULL if they have none or cannot be read. */
const uint8_t* tflite_fuse_checksum_field(const void* options, size_t options_bytes);

/* Returns the correct checksum of options with the field at `field`. Options, field and constants: aligned to 4. */
uint32_t tflite_fuse_checksum(const void* options, size_t options_bytes, const uint8_t* field, const void* constants,
                              size_t constants_bytes);

/* Prepares a block that was prepared before, without checks. */
void tflite_fuse_find_again(tflite_fuse_block* block, const void* options, size_t options_bytes, const void* constants);

/* Computes the bytes at the start of scratch that hold no pixels; windows and their number must be sound. */
void tflite_fuse_reserve(tflite_fuse_block* block);

/* Returns whether all constants of a stage lie in their `size` bytes and hold values that its kernel supports. The
 * stage's numbers must be in range and its shapes fit. */
bool tflite_fuse_constants_are_sound(const tflite_fuse_block* block, const tflite_fuse_stage* stage, size_t size);

/* Returns the bytes of a stage's weights, 0 if its kind has none, -1 if it does not support this layout. */
int64_t tflite_fuse_weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                 const tflite_fuse_tensor* output);

/* Returns the bytes of weights packed for the convolution, -1 if the stage cannot have them. */
int64_t tflite_fuse_quad_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                               const tflite_fuse_tensor* output);

/* table_is_sound of kinds with one tflite_fuse_channel per output channel; and the same for `entries` of them. */
bool tflite_fuse_channels_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                                    int64_t room);
bool tflite_fuse_entries_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_channel* table, int64_t entries,
                                   int64_t room);

/* `fits` of pools; and of kinds whose inputs may have a single channel for all of the output. */
bool tflite_fuse_pool_fits(const tflite_fuse_block* block, const tflite_fuse_stage* stage);
bool tflite_fuse_broadcasts(const tflite_fuse_block* block, const tflite_fuse_stage* stage);

static inline bool is_packed(const tflite_fuse_stage* stage) {
  return stage->weight_layout != TFLITE_FUSE_LAYOUT_PLAIN;
}

static inline bool within(int32_t value, int32_t low, int32_t high) { return value >= low && value <= high; }

/* Returns a * b * c, or INT32_MAX + 1 if that exceeds INT32_MAX. a, b, c >= 0. */
uint32_t tflite_fuse_volume(int32_t a, int32_t b, int32_t c);

/* Returns whether `bytes` bytes from `offset` on lie in [low, high), and `offset` is aligned if required; low >= 0. */
static inline bool fits(int32_t offset, uint32_t bytes, int32_t low, int32_t high) {
  return within(offset, low, high) && bytes <= (uint32_t)(high - offset);
}

static inline bool fits_aligned(int32_t offset, uint32_t bytes, int32_t low, int32_t high) {
  return offset % 4 == 0 && fits(offset, bytes, low, high);
}

/* Returns the number of pointers of a call for one output pixel. */
static inline int32_t pointers_of_one(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  const int32_t columns = tflite_fuse_columns(stage, tflite_fuse_pixels_at_once(stage, input), 1);
  return tflite_fuse_pointers(stage, tflite_fuse_entry_of(stage), columns, 1);
}

/* Returns the last row (or column) under the windows, relative to the input's first. */
static inline int64_t reach(int32_t size, int32_t stride, int32_t kernel, int32_t dilation, int32_t pad) {
  return (int64_t)(size - 1) * stride + (int64_t)(kernel - 1) * dilation - pad;
}

/* Returns the same in the units of an axis, before padding. */
static inline int64_t reach_of(const tflite_fuse_axis* axis, int32_t size) {
  return (int64_t)(size - 1) * axis->stride + axis->extent - 1;
}

TFLITE_FUSE_HIDDEN_END

#endif
