/* Finds a block's parts in its options, a FlatBuffer read in place, and returns properties of the block. */
#include <string.h>

#include "tflite_fuse_checks.h"

/* ---- FlatBuffer ---- */

typedef struct {
  const uint8_t* data;
  size_t size;
} buffer;

static uint32_t load_u32(const uint8_t* from) {
  uint32_t value;
  memcpy(&value, from, sizeof(value));
  return value;
}

static uint16_t load_u16(const uint8_t* from) {
  uint16_t value;
  memcpy(&value, from, sizeof(value));
  return value;
}

/* Returns a field of `bytes` bytes, a multiple of 4, of the root table; NULL if it is absent or damaged. */
static const uint8_t* find_field(const buffer* b, uint32_t id, size_t bytes) {
  const uint32_t root = load_u32(b->data);
  if (root % 4 != 0 || root > b->size - 4) {
    return NULL;
  }
  const int64_t vtable = (int64_t)root - (int32_t)load_u32(b->data + root);
  if (vtable < 0 || vtable % 2 != 0 || vtable > (int64_t)b->size - 4) {
    return NULL;
  }
  const size_t vtable_size = load_u16(b->data + vtable);
  const size_t table_size = load_u16(b->data + vtable + 2);
  const size_t slot = 4 + 2 * (size_t)id;
  if ((size_t)vtable + vtable_size > b->size || root + table_size > b->size || slot + 2 > vtable_size) {
    return NULL;
  }
  const size_t offset = load_u16(b->data + vtable + slot);
  if (offset < 4 || offset % 4 != 0 || offset + bytes > table_size) {
    return NULL;
  }
  return b->data + root + offset;
}

/* Returns whether the root table has a field that is reserved, unknown, or not in `version`. */
static bool has_unknown_field(const buffer* b, uint32_t version) {
  const uint8_t* vtable = b->data + load_u32(b->data) - (int32_t)load_u32(b->data + load_u32(b->data));
  for (uint32_t id = TFLITE_FUSE_FIELD_STAGE_INPUTS + 1; 4 + 2 * id + 2 <= load_u16(vtable); ++id) {
    const bool checksum = id == TFLITE_FUSE_FIELD_CHECKSUM && version >= TFLITE_FUSE_CHECKED_VERSION;
    if (!checksum && load_u16(vtable + 4 + 2 * id) != 0) {
      return true;
    }
  }
  return false;
}

/* Returns the elements of a vector of structs, or NULL. */
static const void* find_vector(const buffer* b, uint32_t id, size_t element_bytes, uint32_t* count) {
  const uint8_t* field = find_field(b, id, 4);
  if (field == NULL) {
    return NULL;
  }
  const size_t position = (size_t)(field - b->data);
  const uint32_t offset = load_u32(field);
  if (offset % 4 != 0 || offset > b->size - position || b->size - position - offset < 4) {
    return NULL;
  }
  *count = load_u32(field + offset);
  return *count <= (b->size - position - offset - 4) / element_bytes ? field + offset + 4 : NULL;
}

/* Finds the checksum of unchecked options; NULL if their version has none. */
static tflite_fuse_status find_checksum(const buffer* b, const uint8_t** checksum) {
  *checksum = NULL;
  if (b->data == NULL || (uintptr_t)b->data % 4 != 0 || b->size < 8 || b->size > INT32_MAX ||
      memcmp(b->data + 4, TFLITE_FUSE_IDENTIFIER, 4) != 0) {
    return TFLITE_FUSE_BAD_BUFFER;
  }
  const uint8_t* field = find_field(b, TFLITE_FUSE_FIELD_VERSION, 4);
  if (field == NULL) {
    return TFLITE_FUSE_BAD_BUFFER;
  }
  const uint32_t version = load_u32(field);
  if (version < TFLITE_FUSE_OLDEST_VERSION || version > TFLITE_FUSE_VERSION || has_unknown_field(b, version)) {
    return TFLITE_FUSE_BAD_VERSION;
  }
  if (version >= TFLITE_FUSE_CHECKED_VERSION) {
    *checksum = find_field(b, TFLITE_FUSE_FIELD_CHECKSUM, 4);
    return *checksum == NULL ? TFLITE_FUSE_BAD_BUFFER : TFLITE_FUSE_OK;
  }
  return TFLITE_FUSE_OK;
}

TFLITE_FUSE_RARE const uint8_t* tflite_fuse_checksum_field(const void* options, size_t options_bytes) {
  const buffer b = {options, options_bytes};
  const uint8_t* checksum;
  return find_checksum(&b, &checksum) == TFLITE_FUSE_OK ? checksum : NULL;
}

static tflite_fuse_status read_options(tflite_fuse_block* block, const buffer* b, uint32_t* stage_input_count) {
  uint32_t tensors = 0, stages = 0;
  const void* header = find_field(b, TFLITE_FUSE_FIELD_HEADER, sizeof(tflite_fuse_header));
  block->header = header;
  block->tensors = find_vector(b, TFLITE_FUSE_FIELD_TENSORS, sizeof(tflite_fuse_tensor), &tensors);
  block->stages = find_vector(b, TFLITE_FUSE_FIELD_STAGES, sizeof(tflite_fuse_stage), &stages);
  block->stage_inputs = find_vector(b, TFLITE_FUSE_FIELD_STAGE_INPUTS, sizeof(int32_t), stage_input_count);
  if (block->header == NULL || block->tensors == NULL || block->stages == NULL || block->stage_inputs == NULL) {
    return TFLITE_FUSE_BAD_BUFFER;
  }
  if (tensors < 1 || tensors > UINT8_MAX || stages < 1 || stages > UINT8_MAX) {
    return TFLITE_FUSE_BAD_HEADER;
  }
  block->tensor_count = (uint8_t)tensors;
  block->stage_count = (uint8_t)stages;
  return TFLITE_FUSE_OK;
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_prepare(tflite_fuse_block* block, const void* options,
                                                        size_t options_bytes, const void* constants,
                                                        size_t constants_bytes) {
  uint32_t stage_input_count = 0;
  memset(block, 0, sizeof(*block));
  const buffer b = {options, options_bytes};
  const uint8_t* checksum;
  tflite_fuse_status status = find_checksum(&b, &checksum);
  if (status != TFLITE_FUSE_OK) {
    return status;
  }
  if (constants == NULL || (uintptr_t)constants % 4 != 0) {
    return TFLITE_FUSE_BAD_CONSTANTS;
  }
#ifndef TFLITE_FUSE_NO_CRC
  if (checksum != NULL &&
      load_u32(checksum) != tflite_fuse_checksum(options, options_bytes, checksum, constants, constants_bytes)) {
    return TFLITE_FUSE_DAMAGED;
  }
#endif
  status = read_options(block, &b, &stage_input_count);
  if (status != TFLITE_FUSE_OK) {
    return status;
  }
  block->constants = constants;
  return tflite_fuse_validate(block, stage_input_count, constants_bytes);
}

TFLITE_FUSE_RARE void tflite_fuse_find_again(tflite_fuse_block* block, const void* options, size_t options_bytes,
                                             const void* constants) {
  const buffer b = {options, options_bytes};
  uint32_t stage_input_count;
  memset(block, 0, sizeof(*block));
  (void)read_options(block, &b, &stage_input_count);
  block->constants = constants;
  tflite_fuse_reserve(block);
}

/* ---- Properties ---- */

/* Returns whether a tensor is an operand of this kind. */
static bool is_operand(const tflite_fuse_block* block, const tflite_fuse_tensor* tensor, tflite_fuse_operand operand) {
  if (operand == TFLITE_FUSE_SOURCE) {
    return tensor->producer != TFLITE_FUSE_NONE && block->stages[tensor->producer].input_count == 0;
  }
  return tensor->storage == (int32_t)operand;
}

TFLITE_FUSE_RARE int32_t tflite_fuse_operand_count(const tflite_fuse_block* block, tflite_fuse_operand operand) {
  int32_t count = 0;
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    if (is_operand(block, &block->tensors[t], operand)) {
      count = tflite_fuse_max(count, block->tensors[t].operand + 1);
    }
  }
  return count;
}

int32_t tflite_fuse_operand_bytes(const tflite_fuse_block* block, tflite_fuse_operand operand,
                                                   int32_t number) {
  int32_t bytes = 0;
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->operand == number && is_operand(block, tensor, operand)) {
      bytes = tflite_fuse_max(bytes, tflite_fuse_pixels(tensor) * tflite_fuse_pixel_bytes(tensor));
    }
  }
  return bytes;
}

static tflite_fuse_type type_of(const tflite_fuse_tensor* tensor) {
  return (tflite_fuse_type)(tensor->element_type + 1);
}

int tflite_fuse_operand_type(const tflite_fuse_block* block, tflite_fuse_operand operand,
                                              int32_t number) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    if (block->tensors[t].operand == number && is_operand(block, &block->tensors[t], operand)) {
      return (int)type_of(&block->tensors[t]);
    }
  }
  return 0;
}

TFLITE_FUSE_RARE int32_t tflite_fuse_operand_place(const tflite_fuse_block* block, tflite_fuse_operand operand,
                                                   int32_t number) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->region != 0 && tensor->operand == number && tensor->storage == (int32_t)operand) {
      return tensor->offset;
    }
  }
  return -1;
}

int tflite_fuse_source_fits(const tflite_fuse_block* block, int32_t number,
                                             const tflite_fuse_source* source) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->operand == number && is_operand(block, tensor, TFLITE_FUSE_SOURCE) &&
        (source->read == NULL || source->type != type_of(tensor) || source->height != tensor->height ||
         source->width != tensor->width || source->channels != tensor->channels)) {
      return 0;
    }
  }
  return 1;
}

TFLITE_FUSE_RARE int32_t tflite_fuse_scratch_bytes(const tflite_fuse_block* block) {
  return block->header->scratch_bytes;
}

TFLITE_FUSE_RARE const char* tflite_fuse_message(tflite_fuse_status status) {
  switch (status) {
    case TFLITE_FUSE_OK:
      return "the block is sound";
    case TFLITE_FUSE_BAD_BUFFER:
      return "the options are truncated, misaligned or no fused block";
    case TFLITE_FUSE_DAMAGED:
      return "the options or constants are damaged: their checksum differs";
    case TFLITE_FUSE_CONTRACTED:
      return "float32 needs -ffp-contract=off and no -ffast-math";
    case TFLITE_FUSE_WRONG_ROWS:
      return "the application's row kernels compute bytes that differ from the library's";
    case TFLITE_FUSE_BAD_VERSION:
      return "the options are of another version: rewrite the model with the tflite-fuse of this library";
    case TFLITE_FUSE_BAD_HEADER:
      return "tiles, chunk or counts in the options are out of range";
    case TFLITE_FUSE_BAD_TENSOR:
      return "a tensor in the options is out of range";
    case TFLITE_FUSE_BAD_SCRATCH:
      return "the options place a tensor outside the scratch or state memory";
    case TFLITE_FUSE_BAD_STAGE:
      return "a stage in the options is out of range";
    case TFLITE_FUSE_BAD_SHAPE:
      return "the tensors of a stage in the options do not fit together";
    case TFLITE_FUSE_BAD_CONSTANTS:
      return "the constants are misaligned, too short for a stage, or out of range";
    case TFLITE_FUSE_TOO_MUCH_WORK:
      return "the block needs more work than TFLITE_FUSE_MAX_WORK";
    case TFLITE_FUSE_BAD_MEMORY:
      return "the arena, scratch or state memory is missing, too small, misaligned or overlapping";
    case TFLITE_FUSE_SOURCE_FAILED:
      return "the source of the input reported an error";
    default:
      return "unknown status";
  }
}
