/* Declares the parts of TensorFlow Lite Micro in the Python wheel that the shim uses.
 *
 * The wheel ships no header. Its structs are declared here as they lie in memory (64-bit, namespace tflite::micro,
 * built for static memory), and its functions are looked up by name in the loaded module. Layout and names are checked before
 * the operator is registered, so another version is rejected with a message. Devices do not use this file: there the
 * glue is C++ compiled with the user's own headers. */
#ifndef TFLITE_FUSE_TFLM_WHEEL_H_
#define TFLITE_FUSE_TFLM_WHEEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TFLM_OK = 0, TFLM_ERROR = 1 };
enum { TFLM_TYPE_FLOAT32 = 1, TFLM_TYPE_INT32 = 2, TFLM_TYPE_UINT8 = 3, TFLM_TYPE_INT8 = 9 };
enum { TFLM_BUILTIN_CUSTOM = 32 };

/* Used by pointer only. */
typedef struct tflm_context tflm_context;

typedef struct {
  int size;
  int data[];
} tflm_int_array;

typedef struct {
  void* data;
  tflm_int_array* dims;
  int32_t type;
} tflm_eval_tensor;

typedef struct {
  tflm_int_array* inputs;  /* tensor indices */
  tflm_int_array* outputs; /* tensor indices */
  tflm_int_array* intermediates;
  void* user_data; /* the result of init */
  void* builtin_data;
  const void* custom_initial_data; /* the custom options, in the model file */
  int custom_initial_data_size;    /* bytes */
} tflm_node;

typedef struct {
  void* (*init)(tflm_context* context, const char* options, size_t size);
  void (*free)(tflm_context* context, void* user_data);
  int (*prepare)(tflm_context* context, tflm_node* node);
  int (*invoke)(tflm_context* context, tflm_node* node);
  void (*reset)(tflm_context* context, void* user_data);
  int32_t builtin_code;
  const char* custom_name;
} tflm_registration;

/* Functions of the runtime, bound by tflm_wheel_register. */
typedef struct {
  void* (*allocate_persistent_buffer)(tflm_context* context, size_t bytes); /* init and prepare only; NULL if full */
  void (*release_persistent_buffer)(void* memory);                          /* no effect: it lies in the arena */
  tflm_eval_tensor* (*get_eval_tensor)(const tflm_context* context, int tensor);
  void (*print)(const char* format, ...); /* a line on stderr; accepts %d %u %s %x only */
} tflm_functions;

extern tflm_functions tflm;

/* Returns whether a tensor is a constant, in prepare: tensors in the arena and variables get their address later. */
static inline bool is_constant(const tflm_eval_tensor* tensor) { return tensor->data != NULL; }

/* Adds `registration` to the operators of a resolver, under its custom_name.
 *
 * resolver: the runtime's PythonOpsResolver, the argument of a custom operator registerer.
 * registration: must live as long as the process.
 * Prints the reason and returns false if this runtime is not laid out as declared above. */
bool tflm_wheel_register(void* resolver, const tflm_registration* registration);

#endif
