/* Runs whole models of fused blocks without any other runtime.
 *
 * `tflite-fuse export --format c` writes a tflite_fuse_model into C source. The program provides the memory:
 *
 *     static _Alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
 *     static tflite_fuse_block blocks[MODEL_STEPS];
 *
 *     tflite_fuse_status status = tflite_fuse_load(&model, blocks);
 *     ...
 *     fill(arena + MODEL_INPUT_0_OFFSET, MODEL_INPUT_0_BYTES);
 *     status = tflite_fuse_run(&model, blocks, arena, sizeof(arena), NULL);
 *     use(arena + MODEL_OUTPUT_0_OFFSET, MODEL_OUTPUT_0_BYTES);
 *
 * A run overwrites the input, whose memory is reused. One loaded model may run in several arenas at a time.
 *
 * The state of a streaming model is in its arena, too, from MODEL_STATE_OFFSET on: zeros before the first run (as
 * static memory is), and unchanged between runs. `tflite_fuse_forget` does the same as a runtime's Reset.
 */
#ifndef TFLITE_FUSE_MODEL_H_
#define TFLITE_FUSE_MODEL_H_

#include "tflite_fuse.h"
#include "tflite_fuse_outside.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor in the arena. */
typedef struct {
  uint32_t offset; /* bytes, a multiple of 16 */
  uint32_t bytes;
} tflite_fuse_place;

/* One operator. Without options it copies its input to its output, of the same size (RESHAPE). */
typedef struct {
  const void* options;
  const void* constants;
  uint32_t options_bytes;
  uint32_t constants_bytes;
  const tflite_fuse_place* inputs;
  const tflite_fuse_place* outputs;
  uint8_t input_count;
  uint8_t output_count;
  tflite_fuse_place scratch;
  tflite_fuse_place state; /* of 0 bytes for a block without a state */
  const void* const* flash; /* for each input its address if it is a constant, aligned to 16, else NULL; or NULL */
} tflite_fuse_step;

typedef struct {
  const tflite_fuse_step* steps;
  uint32_t step_count;
  uint32_t arena_bytes;
} tflite_fuse_model;

/* Checks a model once, before all runs, and prepares its blocks.
 *
 * blocks: one for each step of the model; must outlive all runs. */
tflite_fuse_status tflite_fuse_load(const tflite_fuse_model* model, tflite_fuse_block* blocks);

/* Runs a loaded model.
 *
 * arena: aligned to 16. arena_bytes: its size; fewer than model->arena_bytes are refused. outside: inputs outside of
 * it, or NULL. After an error outputs are unspecified, all blocks' states are unchanged, and the next run works. */
tflite_fuse_status tflite_fuse_run(const tflite_fuse_model* model, const tflite_fuse_block* blocks, void* arena,
                                   size_t arena_bytes, const tflite_fuse_outside* outside);

/* Resets the states in an arena. arena_bytes as above. */
tflite_fuse_status tflite_fuse_forget(const tflite_fuse_model* model, const tflite_fuse_block* blocks, void* arena,
                                      size_t arena_bytes);

#ifdef __cplusplus
}
#endif

#endif
