/* Runs the blocks of a model one after another, in one arena. */
#include "../tflite_fuse_model.h"

#include <stdbool.h>
#include <string.h>

#include "tflite_fuse_compiler.h"

enum { ALIGNMENT = 16 };

static bool lies_in(const tflite_fuse_model* model, tflite_fuse_place place) {
  return place.offset % ALIGNMENT == 0 && place.offset <= model->arena_bytes &&
         place.bytes <= model->arena_bytes - place.offset;
}

static bool copy_is_sound(const tflite_fuse_model* model, const tflite_fuse_step* step) {
  return step->input_count == 1 && step->output_count == 1 && step->inputs[0].bytes == step->outputs[0].bytes &&
         lies_in(model, step->inputs[0]) && lies_in(model, step->outputs[0]);
}

/* Returns the address of an input that is a constant, else NULL. */
static const int8_t* constant_at(const void* const* flash, int32_t number) {
  return flash == NULL ? NULL : flash[number];
}

static bool operands_fit(const tflite_fuse_model* model, const tflite_fuse_block* block, tflite_fuse_operand operand,
                         const tflite_fuse_place* places, int32_t count, const void* const* flash) {
  if (count > TFLITE_FUSE_MAX_OPERANDS || count != tflite_fuse_operand_count(block, operand)) {
    return false;
  }
  for (int32_t number = 0; number < count; ++number) {
    /* A block converts uint8 where it lies, which cannot be in flash. */
    const bool is_placed = constant_at(flash, number) != NULL
                               ? tflite_fuse_operand_type(block, operand, number) != TFLITE_FUSE_UINT8
                               : tflite_fuse_operand_place(block, operand, number) >= 0 ||
                                     lies_in(model, places[number]);
    if (!is_placed || places[number].bytes != (uint32_t)tflite_fuse_operand_bytes(block, operand, number)) {
      return false;
    }
  }
  return true;
}

static tflite_fuse_status load_step(const tflite_fuse_model* model, const tflite_fuse_step* step,
                                    tflite_fuse_block* block) {
  if (step->options == NULL) {
    return copy_is_sound(model, step) ? TFLITE_FUSE_OK : TFLITE_FUSE_BAD_MEMORY;
  }
  const tflite_fuse_status status =
      tflite_fuse_prepare(block, step->options, step->options_bytes, step->constants, step->constants_bytes);
  if (status != TFLITE_FUSE_OK) {
    return status;
  }
  const bool fits = operands_fit(model, block, TFLITE_FUSE_INPUT, step->inputs, step->input_count, step->flash) &&
                    operands_fit(model, block, TFLITE_FUSE_OUTPUT, step->outputs, step->output_count, NULL) &&
                    lies_in(model, step->scratch) && lies_in(model, step->state) &&
                    step->scratch.bytes >= (uint32_t)tflite_fuse_scratch_bytes(block) &&
                    step->state.bytes >= (uint32_t)tflite_fuse_state_bytes(block);
  return fits ? TFLITE_FUSE_OK : TFLITE_FUSE_BAD_MEMORY;
}

/* Returns whether no two blocks read the same source, as each would read its image from the top. */
static bool sources_differ(const tflite_fuse_model* model, const tflite_fuse_block* blocks) {
  bool taken[TFLITE_FUSE_MAX_OPERANDS] = {false};
  for (uint32_t s = 0; s < model->step_count; ++s) {
    const int32_t count =
        model->steps[s].options == NULL ? 0 : tflite_fuse_operand_count(&blocks[s], TFLITE_FUSE_SOURCE);
    if (count > TFLITE_FUSE_MAX_OPERANDS) {
      return false;
    }
    for (int32_t number = 0; number < count; ++number) {
      if (tflite_fuse_operand_bytes(&blocks[s], TFLITE_FUSE_SOURCE, number) != 0) {
        if (taken[number]) {
          return false;
        }
        taken[number] = true;
      }
    }
  }
  return true;
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_load(const tflite_fuse_model* model, tflite_fuse_block* blocks) {
  tflite_fuse_status status = TFLITE_FUSE_OK;
  for (uint32_t s = 0; s < model->step_count && status == TFLITE_FUSE_OK; ++s) {
    status = load_step(model, &model->steps[s], &blocks[s]);
  }
  return status == TFLITE_FUSE_OK && !sources_differ(model, blocks) ? TFLITE_FUSE_BAD_MEMORY : status;
}

/* Returns the address of an operand: in the arena, or in a second memory; NULL if that is missing. */
static int8_t* address_of(const tflite_fuse_block* block, tflite_fuse_operand operand, int32_t number,
                          const tflite_fuse_place* places, uint8_t* arena, const tflite_fuse_outside* outside) {
  return tflite_fuse_operand_place(block, operand, number) < 0
             ? (int8_t*)(arena + places[number].offset)
             : (int8_t*)tflite_fuse_second_memory(outside, block, operand, number);
}

static TFLITE_FUSE_NOINLINE tflite_fuse_status run_block(const tflite_fuse_step* step, const tflite_fuse_block* block,
                                                         uint8_t* arena, const tflite_fuse_outside* outside) {
  const int8_t* inputs[TFLITE_FUSE_MAX_OPERANDS];
  int8_t* outputs[TFLITE_FUSE_MAX_OPERANDS];
  tflite_fuse_io io = {.inputs = inputs,
                       .outputs = outputs,
                       .scratch = arena + step->scratch.offset,
                       .state = arena + step->state.offset};
  if (!tflite_fuse_outside_serves(outside, block) || !tflite_fuse_memory_holds(outside, block)) {
    return TFLITE_FUSE_BAD_MEMORY;
  }
  if (outside != NULL) {
    io.externals = outside->externals;
    io.sources = outside->sources;
  }
  bool is_complete = true;
  for (int32_t i = 0; i < step->input_count; ++i) {
    inputs[i] = constant_at(step->flash, i);
    if (inputs[i] == NULL) {
      inputs[i] = address_of(block, TFLITE_FUSE_INPUT, i, step->inputs, arena, outside);
    }
    is_complete = is_complete && inputs[i] != NULL;
  }
  for (int32_t i = 0; i < step->output_count; ++i) {
    outputs[i] = address_of(block, TFLITE_FUSE_OUTPUT, i, step->outputs, arena, outside);
    is_complete = is_complete && outputs[i] != NULL;
  }
  return is_complete ? tflite_fuse_attempt(block, &io) : TFLITE_FUSE_BAD_MEMORY;
}

static tflite_fuse_status check_arena(const tflite_fuse_model* model, const void* arena, size_t arena_bytes) {
  const bool fits = arena_bytes >= model->arena_bytes && (uintptr_t)arena % ALIGNMENT == 0;
  return fits ? TFLITE_FUSE_OK : TFLITE_FUSE_BAD_MEMORY;
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_forget(const tflite_fuse_model* model,
                                                       const tflite_fuse_block* blocks, void* arena,
                                                       size_t arena_bytes) {
  const tflite_fuse_status status = check_arena(model, arena, arena_bytes);
  for (uint32_t s = 0; s < model->step_count && status == TFLITE_FUSE_OK; ++s) {
    if (model->steps[s].options != NULL) {
      tflite_fuse_reset(&blocks[s], (uint8_t*)arena + model->steps[s].state.offset);
    }
  }
  return status;
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_run(const tflite_fuse_model* model, const tflite_fuse_block* blocks,
                                                    void* arena, size_t arena_bytes,
                                                    const tflite_fuse_outside* outside) {
  tflite_fuse_status status = check_arena(model, arena, arena_bytes);
  uint8_t* bytes = arena;
  for (uint32_t s = 0; s < model->step_count && status == TFLITE_FUSE_OK; ++s) {
    const tflite_fuse_step* step = &model->steps[s];
    if (step->options != NULL) {
      status = run_block(step, &blocks[s], bytes, outside);
    } else {
      (void)memmove(bytes + step->outputs[0].offset, bytes + step->inputs[0].offset, step->inputs[0].bytes);
    }
  }
  for (uint32_t s = 0; s < model->step_count && status == TFLITE_FUSE_OK; ++s) {
    if (model->steps[s].options != NULL) {
      tflite_fuse_commit(&blocks[s], bytes + model->steps[s].state.offset);
    }
  }
  return status;
}
