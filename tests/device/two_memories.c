/* Runs an exported main program, called run_model, and tells whether it wrote beside its two memories. */
#include <stdbool.h>
#include <stdint.h>

#include "report.h"

enum { GUARD = 64 };

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

int main(void) {
  (void)visit_all(true);
  const int failed = run_model();
  write_line("guards ", visit_all(false), (uint64_t)(uint32_t)failed, 0);
  return failed;
}
