/* A custom operator for tests of the mechanics: output = input + constant, byte by byte. Options: the byte 7. */
#include <string.h>

#include "tflm_wheel.h"

static size_t count(const tflm_eval_tensor* tensor) {
  size_t elements = 1;
  for (int axis = 0; axis < tensor->dims->size; ++axis) {
    elements *= (size_t)tensor->dims->data[axis];
  }
#ifdef READ_PAST_END
  elements <<= 16;
#endif
  return elements;
}

static void* init(tflm_context* context, const char* options, size_t size) {
  unsigned char* kept = tflm.allocate_persistent_buffer(context, 16);
  if (kept != NULL) {
    kept[0] = size == 1 ? (unsigned char)options[0] : 0;
  }
  return kept;
}

static int prepare(tflm_context* context, tflm_node* node) {
  (void)context;
  const unsigned char* kept = node->user_data;
  if (kept == NULL || kept[0] != 7) {
    tflm.print("COPY: options of %d bytes are not 7", node->custom_initial_data_size);
    return TFLM_ERROR;
  }
  return node->inputs->size == 2 && node->outputs->size == 2 ? TFLM_OK : TFLM_ERROR;
}

static int invoke(tflm_context* context, tflm_node* node) {
  const tflm_eval_tensor* input = tflm.get_eval_tensor(context, node->inputs->data[0]);
  const tflm_eval_tensor* constant = tflm.get_eval_tensor(context, node->inputs->data[1]);
  const tflm_eval_tensor* output = tflm.get_eval_tensor(context, node->outputs->data[0]);
  const tflm_eval_tensor* scratch = tflm.get_eval_tensor(context, node->outputs->data[1]);
  memset(scratch->data, 0x55, count(scratch));
  for (size_t i = 0; i < count(input); ++i) {
    ((int8_t*)output->data)[i] =
        (int8_t)(((const int8_t*)input->data)[i] + ((const int8_t*)constant->data)[i % count(constant)]);
  }
  return TFLM_OK;
}

static const tflm_registration registration = {init, NULL, prepare, invoke, NULL, TFLM_BUILTIN_CUSTOM, "COPY"};

bool register_copy(void* resolver);

bool register_copy(void* resolver) { return tflm_wheel_register(resolver, &registration); }
