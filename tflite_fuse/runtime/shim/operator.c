/* The operator TFLITE_FUSE for the TensorFlow Lite Micro wheel, or for the interpreter of LiteRT if TFLITE_FUSE_LITERT
 * is defined: passes operands to the C library.
 *
 * Inputs: the block's inputs; if it keeps or counts a state, a uint8 variable for it, which may follow the variable of
 * the model's last block with a state; last, an int8 constant with weights and tables. Outputs: the block's outputs, then
 * an int8 tensor without readers, the block's scratch memory. The file is not trusted: prepare rejects operands that do
 * not fit, with a message. */
#include <string.h>

#include "guard.h"
#include "outside.h"
#include "tflite_fuse.h"
#ifdef TFLITE_FUSE_LITERT
#include "litert_wheel.h"
#else
#include "tflm_wheel.h"
#endif

enum { MAX_OPERANDS = TFLITE_FUSE_MAX_OPERANDS };

typedef struct {
  tflite_fuse_block block;
  guard_copy options;
  guard_copy constants;
} operator_state;

static int refuse(const char* reason) {
  tflm.print("TFLITE_FUSE: %s", reason);
  return TFLM_ERROR;
}

/* Returns the bytes of a tensor of this type, or -1 if it has another type or impossible extents. Of the types of
 * blocks, only float32 and int32 have more than a byte per element. */
static int64_t bytes_of(const tflm_eval_tensor* tensor, int type) {
  if (tensor == NULL || (int)tensor->type != type || tensor->dims == NULL) {
    return -1;
  }
  int64_t bytes = type == TFLM_TYPE_FLOAT32 || type == TFLM_TYPE_INT32 ? 4 : 1;
  for (int axis = 0; axis < tensor->dims->size; ++axis) {
    const int extent = tensor->dims->data[axis];
    if (extent < 0 || (extent > 0 && bytes > INT32_MAX / extent)) {
      return -1;
    }
    bytes *= extent;
  }
  return bytes;
}

static int64_t int8_bytes(const tflm_eval_tensor* tensor) { return bytes_of(tensor, TFLM_TYPE_INT8); }

static tflm_eval_tensor* tensor_at(tflm_context* context, const tflm_int_array* indices, int position) {
  const int index = indices->data[position];
  return index < 0 ? NULL : tflm.get_eval_tensor(context, index);
}

static void* init(tflm_context* context, const char* options, size_t size) {
  (void)options;
  (void)size;
  operator_state* state = tflm.allocate_persistent_buffer(context, sizeof(operator_state));
  if (state != NULL) {
    memset(state, 0, sizeof(*state));
  }
  return state;
}

static void free_state(tflm_context* context, void* user_data) {
  (void)context;
  operator_state* state = user_data;
  if (state != NULL) {
    guard_free(&state->options);
    guard_free(&state->constants);
    tflm.release_persistent_buffer(state);
  }
}

/* Returns the number of inputs behind those of the block: the constants, its state if it keeps one, and the state of
 * the last block if it is an input. A block without a state may have a variable in which it counts. */
static int own_inputs(const tflite_fuse_block* block, const tflm_int_array* inputs) {
  const int own = inputs->size - tflite_fuse_operand_count(block, TFLITE_FUSE_INPUT);
  const int least = tflite_fuse_state_bytes(block) == 0 ? 1 : 2;
  return own == least + 1 ? own : least;
}

/* Returns the bytes of a block's state. A block that follows another has a number behind it, and one that only counts
 * has the number alone. */
static int32_t state_bytes(const tflite_fuse_block* block, int own) {
  const int32_t bytes = tflite_fuse_state_bytes(block);
  return bytes + (own == 3 || bytes == 0 ? (int32_t)sizeof(uint32_t) : 0);
}

/* Returns whether a tensor is a variable of at least some bytes. In prepare, only constants have an address already. */
static bool is_state(const tflm_eval_tensor* tensor, int64_t bytes) {
  return bytes_of(tensor, TFLM_TYPE_UINT8) >= bytes && !is_constant(tensor);
}

static int refuse_count(const char* kind, int32_t expected, int found) {
  tflm.print("TFLITE_FUSE: the options list %d %s tensors, but the operator has %d", expected, kind, found);
  return TFLM_ERROR;
}

static int check_operands(tflm_context* context, const tflite_fuse_block* block, const tflm_int_array* indices,
                          tflite_fuse_operand kind) {
  const int32_t count = tflite_fuse_operand_count(block, kind);
  const int found = indices->size - (kind == TFLITE_FUSE_INPUT ? own_inputs(block, indices) : 1);
  if (count != found) {
    return refuse_count(kind == TFLITE_FUSE_INPUT ? "input" : "output", count, found);
  }
  for (int32_t number = 0; number < count; ++number) {
    static const int types[] = {0, TFLM_TYPE_INT8, TFLM_TYPE_UINT8, TFLM_TYPE_FLOAT32};
    static const char* const names[] = {"nothing", "int8", "uint8", "float32"};
    const int type = tflite_fuse_operand_type(block, kind, number);
    const tflm_eval_tensor* tensor = tensor_at(context, indices, number);
    /* A block writes an int32 as four channels of int8. */
    const bool is_int32 = type == TFLITE_FUSE_INT8 && kind == TFLITE_FUSE_OUTPUT && tensor != NULL &&
                          (int)tensor->type == TFLM_TYPE_INT32;
    const int64_t bytes = bytes_of(tensor, is_int32 ? TFLM_TYPE_INT32 : types[type]);
    const int32_t expected = tflite_fuse_operand_bytes(block, kind, number);
    if (bytes != expected) {
      tflm.print("TFLITE_FUSE: %s %d must be %s of %d bytes", kind == TFLITE_FUSE_INPUT ? "input" : "output", number,
                 names[type], expected);
      return TFLM_ERROR;
    }
    if ((kind == TFLITE_FUSE_OUTPUT || type == TFLITE_FUSE_UINT8) && is_constant(tensor)) {
      return refuse("a tensor that is written or converted where it lies is a constant");
    }
  }
  return TFLM_OK;
}

/* Gives tensors in the second memory their address: the runtime plans no place in the arena for a tensor that has one.
 * LiteRT has no arena, so there nothing is bound. */
static int bind_to_second_memory(tflm_context* context, const tflite_fuse_block* block, const tflm_int_array* indices,
                                 tflite_fuse_operand kind) {
#ifndef TFLITE_FUSE_LITERT
  const tflite_fuse_outside* outside = shim_outside();
  if (!tflite_fuse_memory_holds(outside, block)) {
    return refuse("the second memory is too small for the model");
  }
  for (int32_t number = 0; number < tflite_fuse_operand_count(block, kind); ++number) {
    void* place = tflite_fuse_second_memory(outside, block, kind, number);
    if (place != NULL) {
      tensor_at(context, indices, number)->data = place;
    }
  }
#else
  (void)context, (void)block, (void)indices, (void)kind;
#endif
  return TFLM_OK;
}

static int prepare(tflm_context* context, tflm_node* node) {
  operator_state* state = node->user_data;
  if (state == NULL) {
    return refuse("no memory for the operator's state");
  }
  if (node->inputs->size < 1 || node->outputs->size < 1 || node->inputs->size > MAX_OPERANDS + 3 ||
      node->outputs->size > MAX_OPERANDS + 1) {
    return refuse("the constants or the scratch tensor is missing, or there are too many tensors");
  }
  const tflm_eval_tensor* constants = tensor_at(context, node->inputs, node->inputs->size - 1);
  const int64_t constant_bytes = int8_bytes(constants);
  if (constant_bytes < 0 || constants->data == NULL) {
    return refuse("the last input must be a constant int8 tensor");
  }
  const size_t options_bytes = node->custom_initial_data_size < 0 ? 0 : (size_t)node->custom_initial_data_size;
  const tflite_fuse_status status =
      tflite_fuse_prepare(&state->block, guard_in(&state->options, node->custom_initial_data, options_bytes),
                          options_bytes, guard_in(&state->constants, constants->data, (size_t)constant_bytes),
                          (size_t)constant_bytes);
  if (status != TFLITE_FUSE_OK) {
    return refuse(tflite_fuse_message(status));
  }
  const tflm_eval_tensor* scratch = tensor_at(context, node->outputs, node->outputs->size - 1);
  if (int8_bytes(scratch) < tflite_fuse_scratch_bytes(&state->block) || is_constant(scratch)) {
    return refuse("the last output must be an int8 tensor as large as the block's scratch memory");
  }
  const int own = own_inputs(&state->block, node->inputs);
  if (own >= 2 && (node->inputs->size < 2 || !is_state(tensor_at(context, node->inputs, node->inputs->size - 2),
                                                       state_bytes(&state->block, own)))) {
    const int32_t count = tflite_fuse_operand_count(&state->block, TFLITE_FUSE_INPUT);
    if (tflite_fuse_state_bytes(&state->block) == 0) {
      return refuse_count("input", count, count + 1);
    }
    return refuse("the input before the last must be a uint8 variable as large as the block's state");
  }
  if (own == 3 && !is_state(tensor_at(context, node->inputs, node->inputs->size - 3), (int64_t)sizeof(uint32_t))) {
    return refuse("the input before the block's state must be a uint8 variable, the state of the last block");
  }
  if (check_operands(context, &state->block, node->inputs, TFLITE_FUSE_INPUT) != TFLM_OK ||
      check_operands(context, &state->block, node->outputs, TFLITE_FUSE_OUTPUT) != TFLM_OK ||
      bind_to_second_memory(context, &state->block, node->inputs, TFLITE_FUSE_INPUT) != TFLM_OK) {
    return TFLM_ERROR;
  }
  return bind_to_second_memory(context, &state->block, node->outputs, TFLITE_FUSE_OUTPUT);
}

static bool all_have_memory(tflm_context* context, const tflm_int_array* indices) {
  for (int i = 0; i < indices->size; ++i) {
    const tflm_eval_tensor* tensor = tensor_at(context, indices, i);
    if (tensor == NULL || (tensor->data == NULL && bytes_of(tensor, (int)tensor->type) != 0)) {
      return false;
    }
  }
  return true;
}

static int invoke(tflm_context* context, tflm_node* node) {
  if (!all_have_memory(context, node->inputs) || !all_have_memory(context, node->outputs)) {
    return refuse("one of the tensors has no memory");
  }
  operator_state* state = node->user_data;
  if (!tflite_fuse_outside_serves(shim_outside(), &state->block)) {
    return refuse("the block reads memory outside the arena, and none of that size was given");
  }
  const int own = own_inputs(&state->block, node->inputs);
  const int input_count = node->inputs->size - own;
  const int output_count = node->outputs->size - 1;
  guard_copy guards[2 * MAX_OPERANDS];
  const int8_t* inputs[MAX_OPERANDS];
  int8_t* outputs[MAX_OPERANDS];
  memset(guards, 0, sizeof(guards));
  for (int i = 0; i < input_count; ++i) {
    const tflm_eval_tensor* tensor = tensor_at(context, node->inputs, i);
    inputs[i] = guard_in(&guards[i], tensor->data, (size_t)bytes_of(tensor, (int)tensor->type));
  }
  guard_copy* output_guards = guards + input_count;
  for (int i = 0; i < output_count; ++i) {
    tflm_eval_tensor* tensor = tensor_at(context, node->outputs, i);
    outputs[i] = guard_out(&output_guards[i], tensor->data, (size_t)bytes_of(tensor, (int)tensor->type));
  }
  tflm_eval_tensor* scratch = tensor_at(context, node->outputs, output_count);
  guard_copy scratch_guard = {0}, state_guard = {0};
  tflm_eval_tensor* kept = own >= 2 ? tensor_at(context, node->inputs, node->inputs->size - 2) : NULL;
  const tflite_fuse_io io = {
      .inputs = inputs,
      .outputs = outputs,
      .externals = shim_outside()->externals,
      .sources = shim_outside()->sources,
      .scratch = guard_out(&scratch_guard, scratch->data, (size_t)tflite_fuse_scratch_bytes(&state->block)),
      .state = kept == NULL ? NULL
                            : guard_both(&state_guard, kept->data, (size_t)state_bytes(&state->block, own)),
  };
  uint32_t* const last = own == 3 ? tensor_at(context, node->inputs, input_count)->data : NULL;
  const tflite_fuse_status status =
      own == 1 ? tflite_fuse_invoke(&state->block, &io) : tflite_fuse_follow(&state->block, &io, last);
  for (int i = 0; i < input_count + output_count; ++i) {
    guard_free(&guards[i]);
  }
  guard_free(&scratch_guard);
  guard_free(&state_guard);
  return status == TFLITE_FUSE_OK ? TFLM_OK : refuse(tflite_fuse_message(status));
}

static const tflm_registration registration = {.init = init,
                                               .free = free_state,
                                               .prepare = prepare,
                                               .invoke = invoke,
                                               .builtin_code = TFLM_BUILTIN_CUSTOM,
                                               .custom_name = "TFLITE_FUSE"};

/* A custom operator registerer; the Python side refers to it by name. */
__attribute__((visibility("default"))) bool tflite_fuse_register(void* resolver) {
#ifdef TFLITE_FUSE_LITERT
  return litert_wheel_register(resolver, &registration);
#else
  return tflm_wheel_register(resolver, &registration);
#endif
}
