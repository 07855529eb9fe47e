#define _GNU_SOURCE
#include "tflm_wheel.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The offset to the top and the type information lie before the address in a vtable pointer. */
enum { VTABLE_HEADER = 2, VTABLE_METHODS = 5 };

/* A custom operator of every PythonOpsResolver, whose registration shows whether the layout is as declared. */
static const char KNOWN_OPERATOR[] = "CIRCULAR_BUFFER";

typedef const tflm_registration* (*find_custom)(const void* resolver, const char* name);

static void keep(void* memory) { (void)memory; }

tflm_functions tflm = {.release_persistent_buffer = keep};

static void* vtable_copy[VTABLE_HEADER + VTABLE_METHODS];
static find_custom find_in_runtime;
static const tflm_registration* own_registration;

static const tflm_registration* find_with_own(const void* resolver, const char* name) {
  if (strcmp(name, own_registration->custom_name) == 0) {
    return own_registration;
  }
  return find_in_runtime(resolver, name);
}

/* ISO C has no conversion from object to function pointers; POSIX promises equal representation. */
static bool bind(void* module, const char* symbol, void* target) {
  void* address = dlsym(module, symbol);
  if (address == NULL) {
    fprintf(stderr, "tflite-fuse: this tflite-micro has no symbol %s\n", symbol);
    return false;
  }
  memcpy(target, &address, sizeof(address));
  return true;
}

static bool bind_all(void* module) {
  return bind(module, "_ZN6tflite5micro36MicroContextAllocatePersistentBufferEPNS0_13TfLiteContextEm",
              &tflm.allocate_persistent_buffer) &&
         bind(module, "_ZN6tflite5micro25MicroContextGetEvalTensorEPKNS0_13TfLiteContextEi", &tflm.get_eval_tensor) &&
         bind(module, "_Z11MicroPrintfPKcz", &tflm.print) &&
         bind(module, "_ZNK6tflite5micro22MicroMutableOpResolverILj200EE6FindOpEPKc", &find_in_runtime);
}

static bool looks_like_a_registration(const tflm_registration* found) {
  return found != NULL && found->builtin_code == TFLM_BUILTIN_CUSTOM && found->custom_name != NULL &&
         strcmp(found->custom_name, KNOWN_OPERATOR) == 0 && found->prepare != NULL && found->invoke != NULL;
}

/* Returns the loaded module that contains a resolver's vtable: the runtime. */
static void* module_of(void* const* vtable) {
  Dl_info info;
  if (dladdr((const void*)vtable, &info) == 0 || info.dli_fname == NULL) {
    return NULL;
  }
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

static bool patch_vtable(void* resolver, void** vtable) {
  find_custom replacement = find_with_own;
  for (int method = 0; method < VTABLE_METHODS; ++method) {
    if (memcmp(&vtable[method], &find_in_runtime, sizeof(void*)) == 0) {
      memcpy(vtable_copy, vtable - VTABLE_HEADER, sizeof(vtable_copy));
      memcpy(&vtable_copy[VTABLE_HEADER + method], &replacement, sizeof(void*));
      void** patched = vtable_copy + VTABLE_HEADER;
      memcpy(resolver, &patched, sizeof(patched));
      return true;
    }
  }
  return false;
}

bool tflm_wheel_register(void* resolver, const tflm_registration* registration) {
  void** vtable;
  memcpy(&vtable, resolver, sizeof(vtable));
  void* module = module_of(vtable);
  if (module == NULL) {
    fprintf(stderr, "tflite-fuse: the operator resolver belongs to no loaded module\n");
    return false;
  }
  if (!bind_all(module)) {
    return false;
  }
  own_registration = registration;
  if (!looks_like_a_registration(find_in_runtime(resolver, KNOWN_OPERATOR)) || !patch_vtable(resolver, vtable)) {
    fprintf(stderr, "tflite-fuse: this tflite-micro is laid out otherwise than the version supported\n");
    return false;
  }
  return true;
}
