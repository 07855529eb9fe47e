#include "litert_wheel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(void*) != 8 || sizeof(tflm_eval_tensor) == 112, "TfLiteTensor of a 64-bit machine");

typedef const tflm_registration* (*find_custom)(const void* resolver, const char* name, int version);

/* The offset to the top and the type information lie before the address in a vtable pointer. The second virtual
 * function of an OpResolver finds custom operators. */
enum { VTABLE_HEADER = 2, VTABLE_METHODS = 12, FIND_CUSTOM = 1 };

/* An operator of every built-in resolver, whose registration shows whether the layout is as declared. */
static const char KNOWN_OPERATOR[] = "TFLite_Detection_PostProcess";

typedef struct {
  find_custom find_in_runtime;
  void* entries[VTABLE_HEADER + VTABLE_METHODS];
} patched_vtable;

static const tflm_registration* own_registration;

static patched_vtable* patched_of(const void* resolver) {
  char* methods;
  memcpy(&methods, resolver, sizeof(methods));
  return (patched_vtable*)(void*)(methods - offsetof(patched_vtable, entries) - VTABLE_HEADER * sizeof(void*));
}

static const tflm_registration* find_with_own(const void* resolver, const char* name, int version) {
  if (strcmp(name, own_registration->custom_name) == 0) {
    return own_registration;
  }
  return patched_of(resolver)->find_in_runtime(resolver, name, version);
}

static bool looks_like_a_registration(const tflm_registration* found) {
  return found != NULL && found->builtin_code == TFLM_BUILTIN_CUSTOM && found->custom_name != NULL &&
         strcmp(found->custom_name, KNOWN_OPERATOR) == 0 && found->prepare != NULL && found->invoke != NULL;
}

/* The copy is never freed, because the end of the resolver's life is unknown. */
bool litert_wheel_register(void* resolver, const tflm_registration* registration) {
  void** vtable;
  memcpy(&vtable, resolver, sizeof(vtable));
  find_custom find;
  memcpy(&find, &vtable[FIND_CUSTOM], sizeof(find));
  patched_vtable* const patched = malloc(sizeof(*patched));
  if (patched == NULL || !looks_like_a_registration(find(resolver, KNOWN_OPERATOR, 1))) {
    free(patched);
    return false;
  }
  own_registration = registration;
  patched->find_in_runtime = find;
  memcpy(patched->entries, vtable - VTABLE_HEADER, sizeof(patched->entries));
  const find_custom replacement = find_with_own;
  memcpy(&patched->entries[VTABLE_HEADER + FIND_CUSTOM], &replacement, sizeof(replacement));
  void** const methods = patched->entries + VTABLE_HEADER;
  memcpy(resolver, &methods, sizeof(methods));
  return true;
}

/* ---- Functions for operator.c ---- */

/* The context of the operator that runs in this thread. The interpreter raises its error reports as an exception. */
static _Thread_local tflm_context* running;

static void* allocate(tflm_context* context, size_t bytes) {
  running = context;
  return malloc(bytes);
}

static tflm_eval_tensor* eval_tensor(const tflm_context* context, int tensor) {
  memcpy(&running, &context, sizeof(running));
  return tensor < 0 || (size_t)tensor >= context->tensors_size ? NULL : &context->tensors[tensor];
}

static void print(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (running != NULL && running->report_error != NULL) {
    running->report_error(running, "%s", text);
  }
}

const tflm_functions tflm = {allocate, free, eval_tensor, print};
