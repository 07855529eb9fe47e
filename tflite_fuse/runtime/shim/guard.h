/* Memory whose bounds AddressSanitizer knows.
 *
 * All tensors lie in one arena and all constants in one file, so a sanitizer does not see an access that leaves one
 * tensor for the next. In a build with AddressSanitizer these functions hand out copies of exact size instead, and so they
 * do in one for LiteRT, whose applications read an input again after a run and give models at any address; in any other
 * build they hand the memory itself through. */
#ifndef TFLITE_FUSE_GUARD_H_
#define TFLITE_FUSE_GUARD_H_

#include <stddef.h>

typedef struct {
  void* copy;
  void* target; /* where the copy's content goes in guard_free; NULL: nowhere */
  size_t bytes;
} guard_copy;

/* Memory to read. Valid until guard_free. */
const void* guard_in(guard_copy* guard, const void* memory, size_t bytes);

/* Memory to write; its content is undefined until then. guard_free brings it back to `memory`. */
void* guard_out(guard_copy* guard, void* memory, size_t bytes);

/* Memory to read and to write. */
void* guard_both(guard_copy* guard, void* memory, size_t bytes);

/* End of use. Harmless on a guard that is all zeros. */
void guard_free(guard_copy* guard);

#endif
