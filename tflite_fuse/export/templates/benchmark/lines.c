static void put_number(const char* name, unsigned long value) {
  char text[64];
  snprintf(text, sizeof(text), ", \"%s\": %lu", name, value);
  benchmark_print(text);
}

static void put_text(const char* name, const char* value) {
  benchmark_print(", \"");
  benchmark_print(name);
  benchmark_print("\": \"");
  benchmark_print(value);
  benchmark_print("\"");
}

/* All of a line that is known before anything is run. */
static void put_head(const char* head) {
  benchmark_print(head);
  put_text("board", BENCHMARK_BOARD);
  put_text("core", benchmark_core());
  put_number("clock_hz", BENCHMARK_CLOCK_HZ);
}

static int fail(const char* head, const char* reason) {
  put_head(head);
  put_text("error", reason);
  benchmark_print("}\n");
  return 1;
}

static unsigned long microseconds(uint64_t ticks) {
  return (unsigned long)(ticks * 1000000u / BENCHMARK_TICKS_PER_SECOND);
}

/* Sorts them. */
static uint32_t median(uint32_t* values, int count) {
  for (int i = 1; i < count; ++i) {
    for (int k = i; k > 0 && values[k] < values[k - 1]; --k) {
      const uint32_t less = values[k];
      values[k] = values[k - 1];
      values[k - 1] = less;
    }
  }
  return values[count / 2];
}
