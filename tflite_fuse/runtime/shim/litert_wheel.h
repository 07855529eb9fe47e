/* Declares the parts of the interpreters in the Python packages of LiteRT, TensorFlow and tflite_runtime that the shim
 * uses.
 *
 * Names are those of tflm_wheel.h, so operator.c compiles with either header. Structs are laid out as in TensorFlow's
 * lite/core/c/common.h, whose fields up to those used here have kept their places since 2.5. The packages export no C++
 * symbol, so an operator is registered through the resolver's virtual functions, which the Itanium C++ ABI orders on
 * Linux and macOS. */
#ifndef TFLITE_FUSE_LITERT_WHEEL_H_
#define TFLITE_FUSE_LITERT_WHEEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TFLM_OK = 0, TFLM_ERROR = 1 };
enum { TFLM_TYPE_FLOAT32 = 1, TFLM_TYPE_INT32 = 2, TFLM_TYPE_UINT8 = 3, TFLM_TYPE_INT8 = 9 };
enum { TFLM_BUILTIN_CUSTOM = 32 };
enum { LITERT_CONSTANT = 1 }; /* kTfLiteMmapRo: in the model file */

typedef struct {
  int size;
  int data[];
} tflm_int_array;

/* TfLiteTensor. */
typedef struct {
  int32_t type;
  void* data;
  tflm_int_array* dims;
  struct {
    float scale;
    int32_t zero_point;
  } quantization;
  int32_t allocation_type;
  size_t bytes;
  const void* rest[8];
} tflm_eval_tensor;

/* TfLiteContext. */
typedef struct tflm_context {
  size_t tensors_size;
  void* get_execution_plan;
  tflm_eval_tensor* tensors;
  void* implementation;
  void* resize_tensor;
  void (*report_error)(struct tflm_context* context, const char* format, ...);
} tflm_context;

/* TfLiteNode. */
typedef struct {
  tflm_int_array* inputs;
  tflm_int_array* outputs;
  tflm_int_array* intermediates;
  tflm_int_array* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
} tflm_node;

/* TfLiteRegistration. Later versions read fields behind the version, which are zero here. */
typedef struct {
  void* (*init)(tflm_context* context, const char* options, size_t size);
  void (*free)(tflm_context* context, void* user_data);
  int (*prepare)(tflm_context* context, tflm_node* node);
  int (*invoke)(tflm_context* context, tflm_node* node);
  const char* (*profiling_string)(const tflm_context* context, const tflm_node* node);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  const void* rest[8];
} tflm_registration;

typedef struct {
  void* (*allocate_persistent_buffer)(tflm_context* context, size_t bytes);
  void (*release_persistent_buffer)(void* memory);
  tflm_eval_tensor* (*get_eval_tensor)(const tflm_context* context, int tensor);
  void (*print)(const char* format, ...);
} tflm_functions;

extern const tflm_functions tflm;

/* Returns whether a tensor is a constant. In prepare, others may have an address from an earlier preparation. */
static inline bool is_constant(const tflm_eval_tensor* tensor) { return tensor->allocation_type == LITERT_CONSTANT; }

/* Adds `registration` to the operators of a resolver, under its custom_name.
 *
 * resolver: a tflite::OpResolver, the argument of a custom operator registerer.
 * registration: must live as long as the process.
 * Returns false if this resolver is not laid out as declared above. */
bool litert_wheel_register(void* resolver, const tflm_registration* registration);

#endif
