#include "guard.h"

#if defined(__SANITIZE_ADDRESS__) || defined(TFLITE_FUSE_LITERT)

#include <stdlib.h>
#include <string.h>

static void* make_copy(guard_copy* guard, size_t bytes) {
  guard_free(guard);
  guard->copy = malloc(bytes);
  guard->bytes = bytes;
  return guard->copy;
}

const void* guard_in(guard_copy* guard, const void* memory, size_t bytes) {
  void* copy = make_copy(guard, bytes);
  if (copy == NULL || memory == NULL) {
    return memory;
  }
  memcpy(copy, memory, bytes);
  return copy;
}

void* guard_out(guard_copy* guard, void* memory, size_t bytes) {
  void* copy = make_copy(guard, bytes);
  if (copy == NULL) {
    return memory;
  }
  memset(copy, 0x5A, bytes);
  guard->target = memory;
  return copy;
}

void* guard_both(guard_copy* guard, void* memory, size_t bytes) {
  void* copy = guard_out(guard, memory, bytes);
  if (copy != memory) {
    memcpy(copy, memory, bytes);
  }
  return copy;
}

void guard_free(guard_copy* guard) {
  if (guard->copy != NULL && guard->target != NULL) {
    memcpy(guard->target, guard->copy, guard->bytes);
  }
  free(guard->copy);
  memset(guard, 0, sizeof(*guard));
}

#else

const void* guard_in(guard_copy* guard, const void* memory, size_t bytes) {
  (void)guard;
  (void)bytes;
  return memory;
}

void* guard_out(guard_copy* guard, void* memory, size_t bytes) {
  (void)guard;
  (void)bytes;
  return memory;
}

void* guard_both(guard_copy* guard, void* memory, size_t bytes) { return guard_out(guard, memory, bytes); }

void guard_free(guard_copy* guard) { (void)guard; }

#endif
