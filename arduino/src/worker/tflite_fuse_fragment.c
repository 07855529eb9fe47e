/* Checks a fragment, which comes from an untrusted file: sections, views, blocks, then every step. */
#include "tflite_fuse_fragment.h"

#include "../tflite_fuse_outside.h"

/* A range of bytes in the buffer. */
typedef struct {
  uint64_t from;
  uint64_t to;
} extent;

static bool apart(extent a, extent b) { return a.to <= b.from || b.to <= a.from; }

/* ---- Header and sections ---- */

static bool section_fits(const tflite_fuse_fragment_header* header, uint32_t offset, uint32_t count, size_t size) {
  return offset % 4 == 0 && offset + (uint64_t)count * size <= header->bytes;
}

static tflite_fuse_status check_header(const tflite_fuse_fragment_header* header, size_t bytes) {
  if (header == NULL || (uintptr_t)header % TFLITE_FUSE_FRAGMENT_ALIGNMENT != 0 || bytes < sizeof(*header) ||
      header->magic != TFLITE_FUSE_MAGIC) {
    return TFLITE_FUSE_BAD_FRAGMENT;
  }
  if (header->version != TFLITE_FUSE_FRAGMENT_VERSION) {
    return TFLITE_FUSE_BAD_VERSION;
  }
  if (header->bytes < sizeof(*header) || header->bytes > bytes) {
    return TFLITE_FUSE_BAD_FRAGMENT;
  }
#ifndef TFLITE_FUSE_NO_CRC
  if (header->checksum !=
      tflite_fuse_checksum(header, header->bytes, (const uint8_t*)&header->checksum, header, 0)) {
    return TFLITE_FUSE_DAMAGED;
  }
#endif
  const bool fits = section_fits(header, header->steps, header->step_count, sizeof(tflite_fuse_fragment_step)) &&
                    section_fits(header, header->views, header->view_count, sizeof(tflite_fuse_fragment_view)) &&
                    section_fits(header, header->operands, header->operand_count, sizeof(uint32_t)) &&
                    section_fits(header, header->blocks, header->block_count, sizeof(tflite_fuse_fragment_block)) &&
                    section_fits(header, header->ends, (uint32_t)header->input_count + header->output_count,
                                 sizeof(tflite_fuse_fragment_end));
  const bool is_known_device = header->workers <= TFLITE_FUSE_MAX_WORKERS &&
                               within(header->device, TFLITE_FUSE_COORDINATOR, (int32_t)header->workers - 1);
  return fits && is_known_device ? TFLITE_FUSE_OK : TFLITE_FUSE_BAD_FRAGMENT;
}

/* ---- Places ---- */

static bool view_fits(const tflite_fuse_fragment_view* view, uint64_t room) {
  if (view->rows == 0 || view->columns == 0 || view->run == 0) {
    return false;
  }
  const uint64_t down = (uint64_t)(view->rows - 1) * view->row_stride;
  const uint64_t across = (uint64_t)(view->columns - 1) * view->column_stride;
  /* Overlapping runs would count bytes twice. */
  return down <= room && across <= room && view->offset + down + across + view->run <= room &&
         (uint64_t)view->rows * view->columns <= room && tflite_fuse_view_bytes(view) <= room;
}

static extent extent_of(const tflite_fuse_fragment_view* view) {
  const uint64_t last =
      (uint64_t)(view->rows - 1) * view->row_stride + (uint64_t)(view->columns - 1) * view->column_stride;
  return (extent){view->offset, view->offset + last + view->run};
}

static bool places_fit(const tflite_fuse_worker* worker) {
  const tflite_fuse_fragment_header* header = tflite_fuse_fragment_of(worker);
  for (uint32_t v = 0; v < header->view_count; ++v) {
    if (!view_fits(&tflite_fuse_views_of(worker)[v], header->buffer_bytes)) {
      return false;
    }
  }
  for (int32_t e = 0; e < header->input_count + header->output_count; ++e) {
    const tflite_fuse_fragment_end* end = &tflite_fuse_ends_of(worker)[e];
    if ((uint64_t)end->offset + end->bytes > header->buffer_bytes) {
      return false;
    }
  }
  return true;
}

/* ---- Blocks ---- */

static tflite_fuse_status check_blocks(const tflite_fuse_worker* worker) {
  const tflite_fuse_fragment_header* header = tflite_fuse_fragment_of(worker);
  for (uint32_t b = 0; b < header->block_count; ++b) {
    const tflite_fuse_fragment_block* record = &tflite_fuse_blocks_of(worker)[b];
    if (!section_fits(header, record->options, record->options_bytes, 1) ||
        !section_fits(header, record->constants, record->constants_bytes, 1)) {
      return TFLITE_FUSE_BAD_FRAGMENT;
    }
    tflite_fuse_block block;
    const tflite_fuse_status status =
        tflite_fuse_prepare(&block, worker->fragment + record->options, record->options_bytes,
                            worker->fragment + record->constants, record->constants_bytes);
    if (status != TFLITE_FUSE_OK) {
      return status;
    }
    if (tflite_fuse_operand_count(&block, TFLITE_FUSE_EXTERNAL) != 0 ||
        tflite_fuse_operand_count(&block, TFLITE_FUSE_SOURCE) != 0 || tflite_fuse_state_bytes(&block) != 0 ||
        tflite_fuse_operand_count(&block, TFLITE_FUSE_INPUT) > TFLITE_FUSE_MAX_OPERANDS ||
        tflite_fuse_operand_count(&block, TFLITE_FUSE_OUTPUT) > TFLITE_FUSE_MAX_OPERANDS) {
      return TFLITE_FUSE_BAD_STEP;
    }
  }
  return TFLITE_FUSE_OK;
}

/* Returns whether operands of a kind lie in the buffer and do not overlap the block's scratch memory. */
static bool operands_fit(const tflite_fuse_worker* worker, const tflite_fuse_block* block, tflite_fuse_operand operand,
                         const uint32_t* offsets, extent scratch) {
  const int32_t count = tflite_fuse_operand_count(block, operand);
  for (int32_t number = 0; number < count; ++number) {
    const uint64_t bytes = (uint64_t)tflite_fuse_operand_bytes(block, operand, number);
    const extent place = {offsets[number], offsets[number] + bytes};
    if (place.to > tflite_fuse_fragment_of(worker)->buffer_bytes || !apart(place, scratch)) {
      return false;
    }
  }
  return true;
}

static tflite_fuse_status check_block_step(const tflite_fuse_worker* worker, const tflite_fuse_fragment_step* step) {
  const tflite_fuse_fragment_header* header = tflite_fuse_fragment_of(worker);
  if (step->number >= header->block_count || step->peer != 0 || step->bytes != 0 ||
      (uint64_t)step->first + step->amount > header->operand_count) {
    return TFLITE_FUSE_BAD_STEP;
  }
  tflite_fuse_block block;
  tflite_fuse_find_block(worker, step->number, &block);
  const uint32_t inputs = (uint32_t)tflite_fuse_operand_count(&block, TFLITE_FUSE_INPUT);
  const uint32_t outputs = (uint32_t)tflite_fuse_operand_count(&block, TFLITE_FUSE_OUTPUT);
  if (step->amount != inputs + outputs) {
    return TFLITE_FUSE_BAD_STEP;
  }
  const extent scratch = {step->scratch, step->scratch + (uint64_t)tflite_fuse_scratch_bytes(&block)};
  const uint32_t* offsets = tflite_fuse_operands_of(worker) + step->first;
  const bool fits = step->scratch % TFLITE_FUSE_POINTER_BYTES == 0 && scratch.to <= header->buffer_bytes &&
                    operands_fit(worker, &block, TFLITE_FUSE_INPUT, offsets, scratch) &&
                    operands_fit(worker, &block, TFLITE_FUSE_OUTPUT, offsets + inputs, scratch);
  return fits ? TFLITE_FUSE_OK : TFLITE_FUSE_BAD_PLACE;
}

/* ---- Messages and copies ---- */

/* Returns the number of messages before a step to or from its peer. */
static uint64_t messages_before(const tflite_fuse_fragment_step* steps, uint32_t number) {
  const tflite_fuse_fragment_step* step = &steps[number];
  for (uint32_t s = number; s > 0; --s) {
    const tflite_fuse_fragment_step* other = &steps[s - 1];
    if (other->kind == step->kind && other->peer == step->peer) {
      return (uint64_t)other->number + (other->bytes - 1) / TFLITE_FUSE_PAYLOAD_BYTES + 1;
    }
  }
  return 0;
}

static tflite_fuse_status check_message(const tflite_fuse_worker* worker, uint32_t number) {
  const tflite_fuse_fragment_header* header = tflite_fuse_fragment_of(worker);
  const tflite_fuse_fragment_step* step = &tflite_fuse_steps_of(worker)[number];
  uint64_t bytes = 0;
  for (uint32_t v = 0; v < step->amount; ++v) {
    bytes += tflite_fuse_view_bytes(&tflite_fuse_views_of(worker)[step->first + v]);
  }
  const bool is_peer =
      within(step->peer, TFLITE_FUSE_COORDINATOR, (int32_t)header->workers - 1) && step->peer != header->device;
  return is_peer && step->bytes != 0 && step->bytes == bytes && step->scratch == 0 &&
                 step->number == messages_before(tflite_fuse_steps_of(worker), number)
             ? TFLITE_FUSE_OK
             : TFLITE_FUSE_BAD_STEP;
}

static tflite_fuse_status check_copy(const tflite_fuse_worker* worker, const tflite_fuse_fragment_step* step) {
  if (step->amount != 2 || step->peer != 0 || step->number != 0 || step->scratch != 0) {
    return TFLITE_FUSE_BAD_STEP;
  }
  const tflite_fuse_fragment_view* source = &tflite_fuse_views_of(worker)[step->first];
  const tflite_fuse_fragment_view* target = source + 1;
  if (source->rows != target->rows || source->columns != target->columns || source->run != target->run ||
      step->bytes != tflite_fuse_view_bytes(source)) {
    return TFLITE_FUSE_BAD_STEP;
  }
  return apart(extent_of(source), extent_of(target)) ? TFLITE_FUSE_OK : TFLITE_FUSE_BAD_PLACE;
}

static tflite_fuse_status check_step(const tflite_fuse_worker* worker, uint32_t number) {
  const tflite_fuse_fragment_step* step = &tflite_fuse_steps_of(worker)[number];
  if (!tflite_fuse_fragment_step_is_known(step)) {
    return TFLITE_FUSE_BAD_STEP;
  }
  if (step->kind == TFLITE_FUSE_STEP_BLOCK) {
    return check_block_step(worker, step);
  }
  if (step->kind == TFLITE_FUSE_STEP_OPERATOR) {
    return TFLITE_FUSE_NO_OPERATOR;
  }
  if ((uint64_t)step->first + step->amount > tflite_fuse_fragment_of(worker)->view_count) {
    return TFLITE_FUSE_BAD_STEP;
  }
  if (step->kind == TFLITE_FUSE_STEP_COPY) {
    return check_copy(worker, step);
  }
  return step->kind == TFLITE_FUSE_STEP_SEND || step->kind == TFLITE_FUSE_STEP_RECEIVE ? check_message(worker, number)
                                                                                       : TFLITE_FUSE_BAD_STEP;
}

TFLITE_FUSE_RARE const char* tflite_fuse_worker_message(tflite_fuse_status status) {
  switch (status) {
    case TFLITE_FUSE_BAD_FRAGMENT:
      return "the fragment is truncated, misaligned or not a fragment";
    case TFLITE_FUSE_BAD_PLACE:
      return "the fragment places data outside the buffer or over live data";
    case TFLITE_FUSE_BAD_STEP:
      return "a step of the fragment is out of range";
    case TFLITE_FUSE_NO_OPERATOR:
      return "the fragment holds an operator that only a coordinator in Python runs";
    case TFLITE_FUSE_WRONG_CALL:
      return "the request does not match the worker's next step";
    case TFLITE_FUSE_BAD_MESSAGE:
      return "the size of a message differs from the plan";
    default:
      return tflite_fuse_message(status);
  }
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_worker_open(tflite_fuse_worker* worker, const void* fragment,
                                                            size_t fragment_bytes, void* buffer, size_t buffer_bytes) {
  const tflite_fuse_fragment_header* header = fragment;
  tflite_fuse_status status = check_header(header, fragment_bytes);
  if (status != TFLITE_FUSE_OK) {
    return status;
  }
  if ((uintptr_t)buffer % TFLITE_FUSE_FRAGMENT_ALIGNMENT != 0 || buffer_bytes < header->buffer_bytes ||
      (buffer == NULL && header->buffer_bytes != 0)) {
    return TFLITE_FUSE_BAD_MEMORY;
  }
  *worker = (tflite_fuse_worker){fragment, buffer, header->step_count, 0};
  if (!places_fit(worker)) {
    return TFLITE_FUSE_BAD_PLACE;
  }
  status = check_blocks(worker);
  for (uint32_t s = 0; s < header->step_count && status == TFLITE_FUSE_OK; ++s) {
    status = check_step(worker, s);
    worker->step = status == TFLITE_FUSE_OK ? header->step_count : s;
  }
  return status;
}

TFLITE_FUSE_RARE uint32_t tflite_fuse_worker_operator(const tflite_fuse_worker* worker) {
  return tflite_fuse_steps_of(worker)[worker->step].number;
}
