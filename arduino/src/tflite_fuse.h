/* tflite-fuse: runs fused blocks of int8 neural network operators in little memory.
 *
 * A block is a piece of a model that runs as one operator. Its inner tensors are never stored whole: each is a ring
 * buffer of pixels (a pixel = its channels) that holds only the pixels still needed. The Python package tflite-fuse
 * makes the blocks and writes two parts of each: its *options* (a FlatBuffer of schemas/fused_block.fbs) and its
 * *constants* (weights, biases, requantization tables, one block of bytes). Both are read in place, from flash.
 *
 *     tflite_fuse_block block;
 *     tflite_fuse_status status = tflite_fuse_prepare(&block, options, options_bytes, constants, constants_bytes);
 *     if (status != TFLITE_FUSE_OK) puts(tflite_fuse_message(status));
 *     ...
 *     tflite_fuse_io io = {.inputs = inputs, .outputs = outputs, .scratch = scratch};
 *     status = tflite_fuse_invoke(&block, &io);
 *
 * Nothing is allocated, nothing is global: a run uses only the scratch memory passed in by the caller, so several
 * threads may run blocks as long as each run has its own scratch. A block of a streaming model keeps its state from run
 * to run in state memory passed in by the caller, one for each stream. Results are, byte for byte, those of TensorFlow
 * Lite Micro's reference kernels.
 */
#ifndef TFLITE_FUSE_H_
#define TFLITE_FUSE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limit of a block's work in elementary steps (about one per multiply-accumulate, counted as if every tile computed
 * every tensor whole). Options come from a file: without a limit a damaged one could run for ever. */
#ifndef TFLITE_FUSE_MAX_WORK
#define TFLITE_FUSE_MAX_WORK (UINT64_C(1) << 42)
#endif

typedef enum {
  TFLITE_FUSE_OK = 0,
  TFLITE_FUSE_BAD_BUFFER,     /* options truncated, misaligned, or no FlatBuffer of this kind */
  TFLITE_FUSE_BAD_VERSION,    /* options of another version, or with fields of a later one */
  TFLITE_FUSE_BAD_HEADER,     /* tiles, chunk or counts out of range */
  TFLITE_FUSE_BAD_TENSOR,     /* extent, storage, producer or operand of a tensor out of range */
  TFLITE_FUSE_BAD_SCRATCH,    /* a ring buffer or accumulator lies outside the scratch memory, or in reserved bytes */
  TFLITE_FUSE_BAD_STAGE,      /* unknown kind, wrong number of inputs, cycle, clamp or layout out of range */
  TFLITE_FUSE_BAD_SHAPE,      /* a stage's window or tensors do not fit together */
  TFLITE_FUSE_BAD_CONSTANTS,  /* a section lies outside the constants, is misaligned, or holds an impossible value */
  TFLITE_FUSE_TOO_MUCH_WORK,  /* more than TFLITE_FUSE_MAX_WORK */
  TFLITE_FUSE_BAD_MEMORY,     /* scratch or arena misaligned or too small, or an input or output in reserved bytes */
  TFLITE_FUSE_SOURCE_FAILED,  /* invoke: a source's read function returned other than 0 */
  TFLITE_FUSE_DAMAGED,        /* options or constants were changed: their checksum is wrong */
  TFLITE_FUSE_WRONG_ROWS,     /* row kernels' bytes differ from the library's */
  TFLITE_FUSE_BAD_FRAGMENT,   /* a fragment truncated or misaligned, no fragment, or with a section outside of it */
  TFLITE_FUSE_BAD_PLACE,      /* a place of a fragment lies outside the buffer, or overlaps another one */
  TFLITE_FUSE_BAD_STEP,       /* a fragment's step has an unknown kind, or a peer, number or operand out of range */
  TFLITE_FUSE_NO_OPERATOR,    /* a fragment has an operator that no block holds: only the Python coordinator runs it */
  TFLITE_FUSE_WRONG_CALL,     /* another event is next, or there is no such input or output */
  TFLITE_FUSE_BAD_MESSAGE,    /* a message's payload has not the plan's size */
  TFLITE_FUSE_CONTRACTED      /* float32 needs a library compiled with -ffp-contract=off, without -ffast-math */
} tflite_fuse_status;

/* Kinds of memory that a caller provides for a run. */
typedef enum {
  TFLITE_FUSE_INPUT = 1,    /* a whole tensor, read only unless it is uint8 */
  TFLITE_FUSE_OUTPUT = 2,   /* a whole tensor that the block writes (and may read again) */
  TFLITE_FUSE_EXTERNAL = 3, /* a whole tensor outside the arena (frame buffer, flash), read only */
  TFLITE_FUSE_SOURCE = 4    /* a tensor that is never whole: a function returns its pixels */
} tflite_fuse_operand;

/* A prepared block. Fields are the library's own; it refers to the options and constants it was prepared from. */
typedef struct {
  const struct tflite_fuse_header* header;
  const struct tflite_fuse_tensor* tensors;
  const struct tflite_fuse_stage* stages;
  const int32_t* stage_inputs;
  const uint8_t* constants;
  const struct tflite_fuse_rows* rows; /* the application's own row kernels, or NULL */
  uint16_t reserved_words : 15;  /* words of 8 bytes at the start of scratch: cursors, and pointers to large windows */
  uint16_t zeros_mean_reset : 1; /* the runtime resets states by filling them with zeros */
  uint8_t tensor_count;
  uint8_t stage_count;
} tflite_fuse_block;

/* Writes `count` pixels of row y from column x on, count * channels elements, to `destination`, which has room for
 * `capacity` bytes and is aligned to an element. A function that copies its own rows must check that they fit.
 *
 * It is called for rows from top to bottom, in each row from left to right; once for each pixel if the block runs in
 * one tile. Returns 0, or any other value to end the run with TFLITE_FUSE_SOURCE_FAILED. */
typedef int (*tflite_fuse_read)(void* user, int y, int x, int count, void* destination, size_t capacity);

/* Types of elements. 0 is no type, so missing ones are detected. */
typedef enum { TFLITE_FUSE_INT8 = 1, TFLITE_FUSE_UINT8 = 2, TFLITE_FUSE_FLOAT32 = 3 } tflite_fuse_type;

/* A source and the extents of its image. A block for another image does not run, so a hostile model cannot make `read`
 * write out of bounds. */
typedef struct {
  tflite_fuse_read read;
  void* user; /* passed to read */
  int32_t height;
  int32_t width;
  int32_t channels;
  tflite_fuse_type type;
} tflite_fuse_source;

/* The memory of one run. Arrays are indexed by operand number; those without operands of a block may be NULL.
 *
 * A uint8 input is converted in place, so it must be writable; afterwards it holds int8 values. */
typedef struct {
  const int8_t* const* inputs;
  int8_t* const* outputs;
  const void* const* externals;
  const tflite_fuse_source* sources;
  void* scratch; /* tflite_fuse_scratch_bytes(), aligned as a pointer and to 4 bytes; contents do not matter */
  void* state;   /* tflite_fuse_state_bytes(), aligned to 4; zeros before the first run, unchanged between runs */
} tflite_fuse_io;

/* Checks a block once, before all runs.
 *
 * options: 4-byte aligned, as they are in a .tflite file. constants: 4-byte aligned and complete: their checksum is
 * compared, which takes about 7 instructions per byte. It detects a damaged update or a half-written flash, not an
 * attacker. Define TFLITE_FUSE_NO_CRC for the library's sources to leave it out. Both must outlive `block`. After
 * TFLITE_FUSE_OK no run of the block accesses memory outside its operands, for any options and constants. */
tflite_fuse_status tflite_fuse_prepare(tflite_fuse_block* block, const void* options, size_t options_bytes,
                                       const void* constants, size_t constants_bytes);

/* Runs a prepared block. Reads and writes are in the order of the Python package's plan: outputs may overlap inputs at
 * the planned distance. After an error outputs are unspecified, the state is unchanged, and the next run works. */
tflite_fuse_status tflite_fuse_invoke(const tflite_fuse_block* block, const tflite_fuse_io* io);

/* The two halves of tflite_fuse_invoke, for several blocks that must succeed together or not at all: a run that can be
 * repeated because the state is unchanged, and the commit of its new state. Between them the state must not change. */
tflite_fuse_status tflite_fuse_attempt(const tflite_fuse_block* block, const tflite_fuse_io* io);
void tflite_fuse_commit(const tflite_fuse_block* block, void* state);

/* A block's part of a step in a runtime that calls each block by itself, so no caller commits after all of them, and
 * that resets states by filling them with zeros. The last block that keeps a state or reads from outside the arena
 * decides: the others commit their last attempt at the beginning of the next one, if the last block has succeeded
 * since. Operators behind it do not count.
 *
 * last: the first number in the last block's state, which the others read, too; NULL for the last block itself. Behind
 * tflite_fuse_state_bytes(), a multiple of 4, io->state has four more bytes: for the others, the step of their attempt;
 * for a last block without a state, a number that changes with every step. */
tflite_fuse_status tflite_fuse_follow(tflite_fuse_block* block, const tflite_fuse_io* io, uint32_t* last);

/* Returns the number of operands of a kind. */
int32_t tflite_fuse_operand_count(const tflite_fuse_block* block, tflite_fuse_operand operand);

/* Returns the bytes of one operand, 0 if there is none with that number. */
int32_t tflite_fuse_operand_bytes(const tflite_fuse_block* block, tflite_fuse_operand operand, int32_t number);

/* Returns the type of the elements of one operand, 0 if there is none with that number. */
int tflite_fuse_operand_type(const tflite_fuse_block* block, tflite_fuse_operand operand, int32_t number);

/* Returns the place of an input or output in the application's second memory, in bytes from its start, a multiple of
 * 16; -1 if it lies in the arena. */
int32_t tflite_fuse_operand_place(const tflite_fuse_block* block, tflite_fuse_operand operand, int32_t number);

/* Returns whether a source has the image that a block reads from this number; also if the block does not read it. */
int tflite_fuse_source_fits(const tflite_fuse_block* block, int32_t number, const tflite_fuse_source* source);

/* Returns the bytes of scratch memory that a run needs. */
int32_t tflite_fuse_scratch_bytes(const tflite_fuse_block* block);

/* Returns the bytes of state memory, which must not change between runs; 0 for a block without a state. */
int32_t tflite_fuse_state_bytes(const tflite_fuse_block* block);

/* Resets the state: the next run reads the zero point in place of earlier runs' values, as after the runtime's Reset.
 * Filling the state with zeros instead restores the model's initial values. */
void tflite_fuse_reset(const tflite_fuse_block* block, void* state);

/* Returns one sentence for people. */
const char* tflite_fuse_message(tflite_fuse_status status);

#ifdef __cplusplus
}
#endif

#endif
