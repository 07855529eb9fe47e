/* Runs an exported main program, called run_model, and prints whether it wrote beside its two memories. The plugin of
 * the emulator counts while tflite_fuse_run runs: writes to start_or_stop tell it when. */
#include <stdbool.h>
#include <stdint.h>

#include "report.h"
#include "tflite_fuse_model.h"

enum { GUARD = 64 };

extern volatile uint32_t start_or_stop;
extern uint8_t fast_start[], fast_end[], slow_start[], slow_end[];

int run_model(void);

static bool visit(uint8_t* guard, bool fills) {
  bool intact = true;
  for (int i = 0; i < GUARD; ++i) {
    if (fills) {
      guard[i] = (uint8_t)(0xA5 ^ i);
    }
    intact = intact && guard[i] == (uint8_t)(0xA5 ^ i);
  }
  return intact;
}

static bool visit_all(bool fills) {
  const bool before = visit(fast_start, fills) & visit(slow_start, fills);
  return visit(fast_end, fills) & visit(slow_end, fills) & before;
}

tflite_fuse_status __real_tflite_fuse_run(const tflite_fuse_model*, const tflite_fuse_block*, void*, size_t,
                                          const tflite_fuse_outside*);
tflite_fuse_status __wrap_tflite_fuse_run(const tflite_fuse_model*, const tflite_fuse_block*, void*, size_t,
                                          const tflite_fuse_outside*);

tflite_fuse_status __wrap_tflite_fuse_run(const tflite_fuse_model* model, const tflite_fuse_block* blocks, void* arena,
                                          size_t bytes, const tflite_fuse_outside* outside) {
  start_or_stop = 1;
  const tflite_fuse_status status = __real_tflite_fuse_run(model, blocks, arena, bytes, outside);
  start_or_stop = 0;
  return status;
}

int main(void) {
  (void)visit_all(true);
  const int failed = run_model();
  write_line("guards ", visit_all(false), (uint64_t)(uint32_t)failed, 0);
  return failed;
}
