// Runs $title as it was and rewritten on the same inputs, compares their outputs, and prints a JSON line for each.
// Written by tflite-fuse. Code for your board belongs in board.h. TensorFlow Lite Micro of 2023 or newer.
$first#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_profiler_interface.h"
#include "tensorflow/lite/schema/schema_generated.h"

#include "board.h"
#include "model_data.h"
#include "model_ops.h"
#include "original_data.h"

$lines
namespace tflite {
namespace micro {

enum { RUNS = $runs, INPUT_SETS = $sets, OUTPUT_BYTES = $output_bytes, OPERATORS = $operators };
enum { ARENA_BYTES = MODEL_ARENA_BYTES > ORIGINAL_ARENA_BYTES ? MODEL_ARENA_BYTES : ORIGINAL_ARENA_BYTES };

struct Contender {
  const char* head;  // of its line
  const unsigned char* data;
  size_t arena_bytes;
};

struct Port {
  uint32_t bytes;
  bool is_float;
};

static const Contender original = {$original_head, original_data, ORIGINAL_ARENA_BYTES};
static const Contender rewritten = {$model_head, model_data, MODEL_ARENA_BYTES};
static const Port inputs[] = {$inputs};
static const Port outputs[] = {$outputs};

alignas(16) static uint8_t arena[ARENA_BYTES];
static uint8_t wanted[INPUT_SETS][OUTPUT_BYTES];
static uint32_t totals[RUNS];

// Ticks of each operator, as the runtime reports them.
class Profiler : public MicroProfilerInterface {
 public:
  uint32_t BeginEvent(const char* tag) override {
    if (count < OPERATORS) {
      names[count] = tag;
    }
    start_ = benchmark_ticks();
    return count++;
  }
  void EndEvent(uint32_t event) override {
    if (event < OPERATORS) {
      ticks[event] += benchmark_ticks() - start_;
    }
  }
  const char* names[OPERATORS];
  uint32_t ticks[OPERATORS];
  uint32_t count;

 private:
  uint32_t start_;
};

static Profiler profiler;

// Pseudo-random bytes, the same for both; float32 inputs are multiples of 1/128 in -1...1.
static void Fill(MicroInterpreter& interpreter, uint32_t set) {
  uint32_t random = set + 1;
  for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); ++i) {
    void* memory = interpreter.input(i)->data.raw;
    uint8_t* bytes = static_cast<uint8_t*>(memory);
    for (uint32_t at = 0; at < inputs[i].bytes; at += inputs[i].is_float ? sizeof(float) : 1) {
      random = random * UINT32_C(1664525) + UINT32_C(1013904223);
      bytes[at] = static_cast<uint8_t>(random >> 24);
      if (inputs[i].is_float) {
        const float value = static_cast<float>(static_cast<int8_t>(random >> 24)) / 128.0f;
        memcpy(bytes + at, &value, sizeof(value));
      }
    }
  }
}

// Returns whether all outputs equal those of the first contender.
static bool Agrees(const Contender& c, MicroInterpreter& interpreter, uint32_t set, bool is_first) {
  char text[128];
  uint8_t* expected = wanted[set];
  for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); expected += outputs[i].bytes, ++i) {
    const void* memory = interpreter.output(i)->data.raw;
    const uint8_t* found = static_cast<const uint8_t*>(memory);
    if (is_first) {
      memcpy(expected, found, outputs[i].bytes);
    }
    for (uint32_t at = 0; at < outputs[i].bytes; ++at) {
      if (found[at] != expected[at]) {
        snprintf(text, sizeof(text), "output %d, byte %lu, of input set %lu is %d, and %d in the original",
                 static_cast<int>(i), static_cast<unsigned long>(at), static_cast<unsigned long>(set),
                 static_cast<int8_t>(found[at]), static_cast<int8_t>(expected[at]));
        return fail(c.head, text) == 0;
      }
    }
  }
  return true;
}

static bool Measure(const Contender& c, MicroInterpreter& interpreter) {
  memset(profiler.ticks, 0, sizeof(profiler.ticks));
  for (uint32_t run = 0; run < RUNS; ++run) {
    Fill(interpreter, 0);
    profiler.count = 0;
    const uint32_t start = benchmark_ticks();
    if (interpreter.Invoke() != kTfLiteOk) {
      return fail(c.head, "Invoke failed") == 0;
    }
    totals[run] = benchmark_ticks() - start;
  }
  const uint32_t middle = median(totals, RUNS);
  if (middle == 0) {
    return fail(c.head, "the clock does not move: see benchmark_ticks in board.h") == 0;
  }
  put_head(c.head);
  put_number("arena_bytes", static_cast<unsigned long>(c.arena_bytes));
  put_number("arena_used", static_cast<unsigned long>(interpreter.arena_used_bytes()));
  put_number("runs", RUNS);
  put_number("microseconds", microseconds(middle));
  benchmark_print(", \"blocks\": [");
  for (uint32_t i = 0; i < profiler.count && i < OPERATORS; ++i) {
    benchmark_print(i == 0 ? "{\"name\": \"" : ", {\"name\": \"");
    benchmark_print(profiler.names[i]);
    benchmark_print("\"");
    put_number("microseconds", microseconds(profiler.ticks[i] / RUNS));
    benchmark_print("}");
  }
  benchmark_print("]}\n");
  return true;
}

// The arena is the same for both, one after the other.
template <int Which>
static bool Run(const Contender& c) {
  static ModelOps ops;
  if (RegisterModelOps(ops) != kTfLiteOk) {
    return fail(c.head, "an operator could not be registered") == 0;
  }
  static MicroInterpreter interpreter(GetModel(c.data), ops, arena, c.arena_bytes, nullptr, &profiler);
  if (interpreter.AllocateTensors() != kTfLiteOk) {
    return fail(c.head, "AllocateTensors failed") == 0;
  }
  for (uint32_t set = 0; set < INPUT_SETS; ++set) {
    Fill(interpreter, set);
    profiler.count = 0;
    if (interpreter.Invoke() != kTfLiteOk) {
      return fail(c.head, "Invoke failed") == 0;
    }
    if (!Agrees(c, interpreter, set, Which == 0)) {
      return false;
    }
  }
  return Measure(c, interpreter);
}

static void Benchmark() {
  if (Run<0>(original)) {
    Run<1>(rewritten);
  }
}

}  // namespace micro
}  // namespace tflite

$start