/* The structs of schemas/fused_block.fbs as C reads them in place: little-endian int32, no gaps.
 * The schema documents every field; names and order are the same there. */
#ifndef TFLITE_FUSE_FORMAT_H_
#define TFLITE_FUSE_FORMAT_H_

#include <stdint.h>

#define TFLITE_FUSE_IDENTIFIER "TFFB"

/* Offsets and indices that point nowhere. */
#define TFLITE_FUSE_NONE (-1)

enum tflite_fuse_kind {
  TFLITE_FUSE_KIND_CONV = 1,
  TFLITE_FUSE_KIND_DEPTHWISE = 2,
  TFLITE_FUSE_KIND_ADD = 3,
  TFLITE_FUSE_KIND_PAD = 4,
  TFLITE_FUSE_KIND_AVERAGE_POOL = 5,
  TFLITE_FUSE_KIND_MAX_POOL = 6,
  TFLITE_FUSE_KIND_GLOBAL_AVERAGE = 7,
  TFLITE_FUSE_KIND_FULLY_CONNECTED = 8,
  TFLITE_FUSE_KIND_CONCATENATION = 9,
  TFLITE_FUSE_KIND_SOURCE = 10
};

enum tflite_fuse_storage {
  TFLITE_FUSE_STORAGE_SCRATCH = 0,
  TFLITE_FUSE_STORAGE_INPUT = 1,
  TFLITE_FUSE_STORAGE_OUTPUT = 2,
  TFLITE_FUSE_STORAGE_EXTERNAL = 3
};

/* How the weights and the table of a stage are laid out; see the schema. */
enum tflite_fuse_layout {
  TFLITE_FUSE_LAYOUT_PLAIN = 0,
  TFLITE_FUSE_LAYOUT_PACKED_DOWN = 1,
  TFLITE_FUSE_LAYOUT_PACKED = 2
};

typedef struct tflite_fuse_header {
  int32_t tile_height;
  int32_t tile_width;
  int32_t chunk;
  int32_t driven;
  int32_t spatial_stages;
  int32_t scratch_bytes;
} tflite_fuse_header;

typedef struct tflite_fuse_tensor {
  int32_t height;
  int32_t width;
  int32_t channels;
  int32_t zero_point;
  int32_t storage;
  int32_t operand;
  int32_t producer;
  int32_t capacity;
  int32_t offset;
} tflite_fuse_tensor;

typedef struct tflite_fuse_stage {
  int32_t kind;
  int32_t output;
  int32_t first_input;
  int32_t input_count;
  int32_t kernel_height;
  int32_t kernel_width;
  int32_t stride_height;
  int32_t stride_width;
  int32_t dilation_height;
  int32_t dilation_width;
  int32_t pad_top;
  int32_t pad_left;
  int32_t depth_multiplier;
  int32_t activation_min;
  int32_t activation_max;
  int32_t weight_layout;
  int32_t weights_offset;
  int32_t table_offset;
  int32_t pad_offset;
  int32_t accumulator_offset;
} tflite_fuse_stage;

/* One entry per output channel in the constants: what turns a sum of int8 products into an output value. */
typedef struct {
  int32_t bias; /* bias - input zero point * sum of the channel's weights */
  int32_t multiplier;
  int32_t shift;
} tflite_fuse_channel;

/* The table of an ADD stage. */
typedef struct {
  int32_t left_shift;
  struct {
    int32_t multiplier;
    int32_t shift;
  } inputs[2], output;
} tflite_fuse_addition;

#endif
