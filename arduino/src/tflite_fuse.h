/* tflite-fuse: runs fused blocks of int8 neural network operators in little memory.
 *
 * A block is a piece of a model that runs as one operator. Its inner tensors are never stored whole: each is a ring
 * buffer of pixels (a pixel = its channels) that holds just what is still needed. The Python package tflite-fuse
 * decides what goes into a block and writes two things: its *options* (a FlatBuffer of schemas/fused_block.fbs) and
 * its *constants* (weights, biases, requantization tables, one block of bytes). Both are read in place, from flash.
 *
 *     tflite_fuse_block block;
 *     tflite_fuse_status status = tflite_fuse_prepare(&block, options, options_bytes, constants, constants_bytes);
 *     if (status != TFLITE_FUSE_OK) puts(tflite_fuse_message(status));
 *     ...
 *     tflite_fuse_io io = {.inputs = inputs, .outputs = outputs, .scratch = scratch};
 *     status = tflite_fuse_invoke(&block, &io);
 *
 * Nothing is allocated, nothing is global: all state of a run is in the scratch memory the caller passes in, so blocks
 * may be run by several threads as long as each run has its own scratch. What a block of a streaming model remembers
 * from run to run is in the state memory the caller passes in, one for each stream. Results are, byte for byte, those of
 * TensorFlow Lite Micro's reference kernels.
 */
#ifndef TFLITE_FUSE_H_
#define TFLITE_FUSE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The work a block may ask for, in elementary steps (about one per multiply-accumulate, counted as if every tile
 * computed every tensor whole). Options come from a file: without a limit a damaged one could run for ever. */
#ifndef TFLITE_FUSE_MAX_WORK
#define TFLITE_FUSE_MAX_WORK (UINT64_C(1) << 42)
#endif

typedef enum {
  TFLITE_FUSE_OK = 0,
  TFLITE_FUSE_BAD_BUFFER,     /* options truncated, misaligned, or no FlatBuffer of this kind */
  TFLITE_FUSE_BAD_VERSION,    /* options of another version, or with something in them that a later one added */
  TFLITE_FUSE_BAD_HEADER,     /* tiles, chunk or counts out of range */
  TFLITE_FUSE_BAD_TENSOR,     /* extent, storage, producer or operand of a tensor out of range */
  TFLITE_FUSE_BAD_SCRATCH,    /* a ring buffer or accumulator lies outside the scratch memory, or in reserved bytes */
  TFLITE_FUSE_BAD_STAGE,      /* unknown kind, wrong number of inputs, cycle, clamp or layout out of range */
  TFLITE_FUSE_BAD_SHAPE,      /* a stage's window or tensors do not fit together */
  TFLITE_FUSE_BAD_CONSTANTS,  /* a section lies outside the constants, is misaligned, or holds an impossible value */
  TFLITE_FUSE_TOO_MUCH_WORK,  /* more than TFLITE_FUSE_MAX_WORK */
  TFLITE_FUSE_BAD_MEMORY,     /* scratch or arena misaligned or too small, or an input or output in reserved bytes */
  TFLITE_FUSE_SOURCE_FAILED,  /* invoke: a source's read function returned other than 0 */
  TFLITE_FUSE_DAMAGED,        /* options or constants are not what was written: their checksum is another */
  TFLITE_FUSE_WRONG_ROWS,     /* row kernels computed other bytes than the library's */
  TFLITE_FUSE_BAD_FRAGMENT,   /* a fragment truncated or misaligned, none at all, or with a section outside of it */
  TFLITE_FUSE_BAD_PLACE,      /* something of a fragment lies outside the buffer, or over what it must not */
  TFLITE_FUSE_BAD_STEP,       /* a step of a fragment is of no kind, or its peer, number or operands are out of range */
  TFLITE_FUSE_NO_OPERATOR,    /* a fragment has an operator that no block holds: only the coordinator in Python can run it */
  TFLITE_FUSE_WRONG_CALL,     /* another event comes next, or there is no such input or output */
  TFLITE_FUSE_BAD_MESSAGE,    /* a message's payload has another size than the plan says */
  TFLITE_FUSE_CONTRACTED      /* a block computes with float32, and the library was not compiled with -ffp-contract=off */
} tflite_fuse_status;

/* Kinds of memory a caller brings to a run. */
typedef enum {
  TFLITE_FUSE_INPUT = 1,    /* a whole tensor, read only unless it is uint8 */
  TFLITE_FUSE_OUTPUT = 2,   /* a whole tensor the block writes (and may read again) */
  TFLITE_FUSE_EXTERNAL = 3, /* a whole tensor outside the arena (frame buffer, flash), read only */
  TFLITE_FUSE_SOURCE = 4    /* a tensor that is never whole: a function hands out its pixels */
} tflite_fuse_operand;

/* A prepared block. Fields are the library's own; it refers to the options and constants it was prepared from. */
typedef struct {
  const struct tflite_fuse_header* header;
  const struct tflite_fuse_tensor* tensors;
  const struct tflite_fuse_stage* stages;
  const int32_t* stage_inputs;
  const uint8_t* constants;
  const struct tflite_fuse_rows* rows; /* the application's own row kernels, or NULL */
  uint16_t reserved_words : 15;  /* of 8 bytes at the start of scratch: cursors, and pointers to large windows */
  uint16_t zeros_mean_reset : 1; /* of the state, where a runtime fills it with them to reset it */
  uint8_t tensor_count;
  uint8_t stage_count;
} tflite_fuse_block;

/* Hands out `count` pixels of row y from column x on: count * channels elements, to `destination`, which has room for
 * `capacity` bytes and is aligned to an element. A function that copies rows of its own checks that they fit before it
 * copies.
 *
 * Pixels are asked for in rows from top to bottom, in each row from left to right; each once if the block runs in one
 * tile. Returns 0, or anything else to end the run with TFLITE_FUSE_SOURCE_FAILED. */
typedef int (*tflite_fuse_read)(void* user, int y, int x, int count, void* destination, size_t capacity);

/* Types of elements. 0 is none, so that what was not filled in is noticed. */
typedef enum { TFLITE_FUSE_INT8 = 1, TFLITE_FUSE_UINT8 = 2, TFLITE_FUSE_FLOAT32 = 3 } tflite_fuse_type;

/* A source and the picture it has. A block that asks for another picture does not run: a model that lies about its input
 * cannot make `read` write more than it means to. */
typedef struct {
  tflite_fuse_read read;
  void* user; /* passed to read */
  int32_t height;
  int32_t width;
  int32_t channels;
  tflite_fuse_type type;
} tflite_fuse_source;

/* The memory of one run. Arrays are indexed by operand number; those a block has no operands for may be NULL.
 *
 * A uint8 input is converted where it lies, so that memory must be writable; afterwards it holds int8 values. */
typedef struct {
  const int8_t* const* inputs;
  int8_t* const* outputs;
  const void* const* externals;
  const tflite_fuse_source* sources;
  void* scratch; /* tflite_fuse_scratch_bytes(), aligned as a pointer and to 4 bytes; contents do not matter */
  void* state;   /* tflite_fuse_state_bytes(), aligned to 4; zeros before the first run, the library's own between runs */
} tflite_fuse_io;

/* Checks a block once and for all.
 *
 * options: 4-byte aligned, as they are in a .tflite file. constants: 4-byte aligned; all of them, as their checksum is
 * compared, which takes about 7 instructions a byte. It tells a damaged update or a half-written flash, no attacker.
 * Define TFLITE_FUSE_NO_CRC for the library's sources to leave it out.
 * Both must outlive `block`. After TFLITE_FUSE_OK no run of the block reads or writes outside the memory it is given,
 * whatever the options and constants hold. */
tflite_fuse_status tflite_fuse_prepare(tflite_fuse_block* block, const void* options, size_t options_bytes,
                                       const void* constants, size_t constants_bytes);

/* Runs a prepared block. The order of reads and writes is the one the Python package planned with: outputs may lie
 * over inputs at the distance it computed. After an error outputs are unspecified, the state is as it was before the run,
 * and the next run works. */
tflite_fuse_status tflite_fuse_invoke(const tflite_fuse_block* block, const tflite_fuse_io* io);

/* The two halves of tflite_fuse_invoke, for several blocks that are to go on together or not at all: a run that leaves the
 * state as it was, so that it can be made again, and the step that makes history of what it saw. Between the two the state
 * must be left alone. */
tflite_fuse_status tflite_fuse_attempt(const tflite_fuse_block* block, const tflite_fuse_io* io);
void tflite_fuse_commit(const tflite_fuse_block* block, void* state);

/* A block's part of a step where a runtime calls each block by itself, so that nobody is there to commit when all have
 * run, and fills states with zeros to reset them. What counts is the last block that keeps a state or reads from outside the
 * arena: the others commit their last attempt at the beginning of the next, if that one's has gone well since. Whatever
 * runs behind it is not waited for.
 *
 * last: the first number in that one's state, which the others read, too; NULL for itself. Behind tflite_fuse_state_bytes(),
 * a multiple of 4, io->state has four bytes more: of a block that follows, which step its attempt was for; of a last one
 * that keeps no state, a number that is another after every step. */
tflite_fuse_status tflite_fuse_follow(tflite_fuse_block* block, const tflite_fuse_io* io, uint32_t* last);

/* Number of operands of a kind. */
int32_t tflite_fuse_operand_count(const tflite_fuse_block* block, tflite_fuse_operand operand);

/* Bytes of one operand, 0 if there is none with that number. */
int32_t tflite_fuse_operand_bytes(const tflite_fuse_block* block, tflite_fuse_operand operand, int32_t number);

/* Type of the elements of one operand, 0 if there is none with that number. */
int tflite_fuse_operand_type(const tflite_fuse_block* block, tflite_fuse_operand operand, int32_t number);

/* Whether a source has the picture a block asks for under this number; so it does for numbers the block has none with. */
int tflite_fuse_source_fits(const tflite_fuse_block* block, int32_t number, const tflite_fuse_source* source);

/* Bytes of scratch memory a run needs. */
int32_t tflite_fuse_scratch_bytes(const tflite_fuse_block* block);

/* Bytes of memory that must stay as it is from run to run, 0 for a block that remembers nothing. */
int32_t tflite_fuse_state_bytes(const tflite_fuse_block* block);

/* Forgets all earlier runs: the next one sees what the runtime's Reset leaves, the zero point. Zeros in all of the state
 * instead start it anew as if it had never run: then what the model's initialization wrote is seen. */
void tflite_fuse_reset(const tflite_fuse_block* block, void* state);

/* One sentence for people. */
const char* tflite_fuse_message(tflite_fuse_status status);

#ifdef __cplusplus
}
#endif

#endif
