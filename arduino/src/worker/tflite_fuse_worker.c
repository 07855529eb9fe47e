/* Runs a checked fragment from event to event: messages, copies and blocks. */
#include "../tflite_fuse_worker.h"

#include <string.h>

#include "../tflite_fuse_outside.h"
#include "tflite_fuse_fragment.h"

static const tflite_fuse_fragment_step* step_of(const tflite_fuse_worker* worker) {
  return &tflite_fuse_steps_of(worker)[worker->step];
}

static bool is_over(const tflite_fuse_worker* worker) {
  return worker->step == tflite_fuse_fragment_of(worker)->step_count;
}

static bool is_next(const tflite_fuse_worker* worker, tflite_fuse_event_kind kind) {
  return tflite_fuse_worker_next(worker).kind == kind;
}

/* ---- The next event ---- */

tflite_fuse_identity tflite_fuse_worker_identity(const tflite_fuse_worker* worker) {
  const tflite_fuse_fragment_header* header = tflite_fuse_fragment_of(worker);
  return (tflite_fuse_identity){(uint64_t)header->plan_high << 32 | header->plan_low, header->device, header->workers,
                                header->buffer_bytes};
}

void tflite_fuse_worker_begin(tflite_fuse_worker* worker) {
  worker->step = 0;
  worker->done = 0;
}

tflite_fuse_event tflite_fuse_worker_next(const tflite_fuse_worker* worker) {
  tflite_fuse_event event = {TFLITE_FUSE_FINISHED, 0, 0, 0, worker->step};
  if (is_over(worker)) {
    return event;
  }
  const tflite_fuse_fragment_step* step = step_of(worker);
  if (step->kind != TFLITE_FUSE_STEP_SEND && step->kind != TFLITE_FUSE_STEP_RECEIVE) {
    event.kind = TFLITE_FUSE_COMPUTE;
    return event;
  }
  const uint32_t remaining = step->bytes - worker->done;
  event.kind = step->kind == TFLITE_FUSE_STEP_SEND ? TFLITE_FUSE_SEND : TFLITE_FUSE_RECEIVE;
  event.peer = step->peer;
  event.bytes = (uint16_t)(remaining < TFLITE_FUSE_PAYLOAD_BYTES ? remaining : TFLITE_FUSE_PAYLOAD_BYTES);
  event.sequence = step->number + worker->done / TFLITE_FUSE_PAYLOAD_BYTES;
  return event;
}

/* ---- Messages ---- */

/* Copies the next message out of the buffer to `to`, or from `from` into the buffer. */
static void move_payload(const tflite_fuse_worker* worker, uint8_t* to, const uint8_t* from) {
  const tflite_fuse_fragment_view* view = &tflite_fuse_views_of(worker)[step_of(worker)->first];
  uint32_t remaining = tflite_fuse_worker_next(worker).bytes;
  uint32_t skip = worker->done;
  for (; remaining > 0; ++view) {
    const uint32_t bytes = (uint32_t)tflite_fuse_view_bytes(view);
    while (remaining > 0 && skip < bytes) {
      const uint32_t run = skip / view->run, offset = skip % view->run;
      const uint32_t count = view->run - offset < remaining ? view->run - offset : remaining;
      uint8_t* place = worker->buffer + view->offset + (size_t)(run / view->columns) * view->row_stride +
                       (size_t)(run % view->columns) * view->column_stride + offset;
      if (to != NULL) {
        memcpy(to, place, count);
        to += count;
      } else {
        memcpy(place, from, count);
        from += count;
      }
      skip += count;
      remaining -= count;
    }
    skip -= skip < bytes ? skip : bytes;
  }
}

static void pass_message(tflite_fuse_worker* worker) {
  worker->done += tflite_fuse_worker_next(worker).bytes;
  if (worker->done == step_of(worker)->bytes) {
    worker->done = 0;
    ++worker->step;
  }
}

tflite_fuse_status tflite_fuse_worker_payload(const tflite_fuse_worker* worker, void* payload) {
  if (!is_next(worker, TFLITE_FUSE_SEND)) {
    return TFLITE_FUSE_WRONG_CALL;
  }
  move_payload(worker, payload, NULL);
  return TFLITE_FUSE_OK;
}

tflite_fuse_status tflite_fuse_worker_sent(tflite_fuse_worker* worker) {
  if (!is_next(worker, TFLITE_FUSE_SEND)) {
    return TFLITE_FUSE_WRONG_CALL;
  }
  pass_message(worker);
  return TFLITE_FUSE_OK;
}

tflite_fuse_status tflite_fuse_worker_received(tflite_fuse_worker* worker, const void* payload, size_t bytes) {
  if (!is_next(worker, TFLITE_FUSE_RECEIVE)) {
    return TFLITE_FUSE_WRONG_CALL;
  }
  if (bytes != tflite_fuse_worker_next(worker).bytes) {
    return TFLITE_FUSE_BAD_MESSAGE;
  }
  move_payload(worker, NULL, payload);
  pass_message(worker);
  return TFLITE_FUSE_OK;
}

/* ---- Computing ---- */

static void copy_views(const tflite_fuse_worker* worker, const tflite_fuse_fragment_step* step) {
  const tflite_fuse_fragment_view* source = &tflite_fuse_views_of(worker)[step->first];
  const tflite_fuse_fragment_view* target = source + 1;
  for (uint32_t y = 0; y < source->rows; ++y) {
    const uint8_t* from = worker->buffer + source->offset + (size_t)y * source->row_stride;
    uint8_t* to = worker->buffer + target->offset + (size_t)y * target->row_stride;
    for (uint32_t x = 0; x < source->columns; ++x) {
      memcpy(to + (size_t)x * target->column_stride, from + (size_t)x * source->column_stride, source->run);
    }
  }
}

static void copy_on(tflite_fuse_worker* worker) {
  while (!is_over(worker) && step_of(worker)->kind == TFLITE_FUSE_STEP_COPY) {
    copy_views(worker, step_of(worker));
    ++worker->step;
  }
}

static tflite_fuse_status run_block(const tflite_fuse_worker* worker, const tflite_fuse_fragment_step* step) {
  const int8_t* inputs[TFLITE_FUSE_MAX_OPERANDS];
  int8_t* outputs[TFLITE_FUSE_MAX_OPERANDS];
  const uint32_t* offsets = tflite_fuse_operands_of(worker) + step->first;
  tflite_fuse_block block;
  tflite_fuse_find_block(worker, step->number, &block);
  const uint32_t input_count = (uint32_t)tflite_fuse_operand_count(&block, TFLITE_FUSE_INPUT);
  for (uint32_t i = 0; i < input_count; ++i) {
    inputs[i] = (const int8_t*)(worker->buffer + offsets[i]);
  }
  for (uint32_t i = input_count; i < step->amount; ++i) {
    outputs[i - input_count] = (int8_t*)(worker->buffer + offsets[i]);
  }
  const tflite_fuse_io io = {.inputs = inputs, .outputs = outputs, .scratch = worker->buffer + step->scratch};
  return tflite_fuse_invoke(&block, &io);
}

tflite_fuse_status tflite_fuse_worker_compute(tflite_fuse_worker* worker) {
  if (!is_next(worker, TFLITE_FUSE_COMPUTE)) {
    return TFLITE_FUSE_WRONG_CALL;
  }
  copy_on(worker);
  if (!is_over(worker) && step_of(worker)->kind == TFLITE_FUSE_STEP_BLOCK) {
    const tflite_fuse_status status = run_block(worker, step_of(worker));
    if (status != TFLITE_FUSE_OK) {
      return status;
    }
    ++worker->step;
    copy_on(worker);
  }
  return TFLITE_FUSE_OK;
}

/* ---- Inputs and outputs of the model ---- */

static void* end_of(const tflite_fuse_worker* worker, uint32_t number, uint32_t* bytes) {
  const tflite_fuse_fragment_end* end = &tflite_fuse_ends_of(worker)[number];
  *bytes = end->bytes;
  return worker->buffer + end->offset;
}

void* tflite_fuse_worker_input(const tflite_fuse_worker* worker, uint32_t number, uint32_t* bytes) {
  return number < tflite_fuse_fragment_of(worker)->input_count ? end_of(worker, number, bytes) : NULL;
}

const void* tflite_fuse_worker_output(const tflite_fuse_worker* worker, uint32_t number, uint32_t* bytes) {
  const tflite_fuse_fragment_header* header = tflite_fuse_fragment_of(worker);
  return number < header->output_count ? end_of(worker, header->input_count + number, bytes) : NULL;
}
