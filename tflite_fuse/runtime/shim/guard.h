/* Copies of operands whose bounds AddressSanitizer checks.
 *
 * All tensors lie in one arena and all constants in one file, so a sanitizer cannot detect an access beyond one tensor.
 * In a build with AddressSanitizer these functions return copies of exact size. A build for LiteRT copies as well,
 * because its applications read inputs again after a run and pass models at any address. Other builds return the memory
 * itself. */
#ifndef TFLITE_FUSE_GUARD_H_
#define TFLITE_FUSE_GUARD_H_

#include <stddef.h>

typedef struct {
  void* copy;
  void* target; /* guard_free writes the copy's content here; NULL: it is dropped */
  size_t bytes;
} guard_copy;

/* Returns memory to read, valid until guard_free. */
const void* guard_in(guard_copy* guard, const void* memory, size_t bytes);

/* Returns memory to write, of undefined content. guard_free copies it back to `memory`. */
void* guard_out(guard_copy* guard, void* memory, size_t bytes);

/* Returns memory to read and to write. */
void* guard_both(guard_copy* guard, void* memory, size_t bytes);

/* Ends the use of a guard; has no effect on one of zeros. */
void guard_free(guard_copy* guard);

#endif
