/* Two neighbouring tensors in one piece of memory; `read` and `write` touch the byte at `offset` of the first. */
#include "guard.h"

static signed char arena[64];

int read_at(int offset);
int write_at(int offset);

int read_at(int offset) {
  guard_copy guard = {0};
  arena[3] = 42;
  const signed char* tensor = guard_in(&guard, arena, 16);
  const int value = tensor[offset];
  guard_free(&guard);
  return value;
}

int write_at(int offset) {
  guard_copy guard = {0};
  signed char* tensor = guard_out(&guard, arena, 16);
  for (int i = 0; i < 16; ++i) {
    tensor[i] = (signed char)i;
  }
  tensor[offset] = 77;
  guard_free(&guard);
  return arena[offset];
}
