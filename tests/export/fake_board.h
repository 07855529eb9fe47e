// As much of TensorFlow Lite Micro's interpreter, of Arduino's and of ESP-IDF's API as an exported main program calls.
#ifndef FAKE_BOARD_H_
#define FAKE_BOARD_H_

#include <cstdlib>

#include "fake_tflm.h"

#define TFLITE_SCHEMA_VERSION 3

// What a test may make of the model and of the runtime.
#ifndef FAKE_MODEL_VERSION
#define FAKE_MODEL_VERSION TFLITE_SCHEMA_VERSION
#endif
#ifndef FAKE_ALLOCATES
#define FAKE_ALLOCATES 1
#endif
#ifndef FAKE_INVOKES
#define FAKE_INVOKES 1
#endif

FAKE_TYPES_BEGIN
struct TfLiteTensor {
  union {
    void* raw;
    int8_t* int8;
    uint8_t* uint8;
    int16_t* i16;
    int32_t* i32;
    float* f;
  } data;
  size_t bytes;
};
FAKE_TYPES_END

#ifndef FAKE_UNFUSED
#define FAKE_UNFUSED 0
#endif
// Bytes of an input or output.
#ifndef FAKE_TENSOR_BYTES
#define FAKE_TENSOR_BYTES 4096
#endif

namespace tflite {
struct Model {
  uint32_t version() const { return FAKE_MODEL_VERSION; }
};
inline const Model* GetModel(const void* data) { return static_cast<const Model*>(data); }
class ErrorReporter {};
class MicroErrorReporter : public ErrorReporter {};
}  // namespace tflite

// What a clock moves by from reading to reading, and by how much outputs grow from interpreter to interpreter.
#ifndef FAKE_TICKS
#define FAKE_TICKS 0
#endif
#ifndef FAKE_GROWTH
#define FAKE_GROWTH 0
#endif
static unsigned long fake_now = 0;
static int fake_interpreters = 0;

FAKE_CLASSES_BEGIN
class MicroProfilerInterface {
 public:
  virtual ~MicroProfilerInterface() {}
  virtual uint32_t BeginEvent(const char* tag) = 0;
  virtual void EndEvent(uint32_t event) = 0;
};
class MicroAllocator {
 public:
  uint8_t* arena;
  size_t size;
#ifdef FAKE_REPORTER
  static MicroAllocator* Create(uint8_t* arena, size_t size, ErrorReporter*) {
#else
  static MicroAllocator* Create(uint8_t* arena, size_t size) {
#endif
    static MicroAllocator made = {arena, size};
    return &made;
  }
#ifndef FAKE_REPORTER
  static MicroAllocator* Create(uint8_t* persistent, size_t persistent_size, uint8_t* arena, size_t size) {
    std::printf("persistent: %s\n", reinterpret_cast<uintptr_t>(persistent) % 16 == 0 && persistent_size % 16 == 0 ? "sound" : "not");
    return Create(arena, size);
  }
#endif
};
class MicroResourceVariables {
 public:
  static MicroResourceVariables* Create(MicroAllocator*, int count) {
    std::printf("%d variables\n", count);
    return nullptr;
  }
};
class MicroInterpreter {
 public:
  template <typename Resolver>
#ifdef FAKE_REPORTER
  MicroInterpreter(const Model* model, const Resolver& ops, MicroAllocator* made, ErrorReporter* reporter,
                   MicroResourceVariables*)
      : MicroInterpreter(model, ops, made->arena, made->size, reporter) {}
#else
  MicroInterpreter(const Model* model, const Resolver& ops, MicroAllocator* made, MicroResourceVariables* = nullptr)
      : MicroInterpreter(model, ops, made->arena, made->size) {}
#endif
  template <typename Resolver>
#ifdef FAKE_REPORTER
  MicroInterpreter(const Model*, const Resolver& resolver, uint8_t* arena, size_t size, ErrorReporter*)
#else
  MicroInterpreter(const Model*, const Resolver& resolver, uint8_t* arena, size_t size)
#endif
      : found_((FAKE_UNFUSED || resolver.FindOp("TFLITE_FUSE") != nullptr) && reinterpret_cast<uintptr_t>(arena) % 16 == 0 && size % 16 == 0) {
    input_.data.raw = given_;
    output_.data.raw = memory_;
    input_.bytes = output_.bytes = sizeof(memory_);
    std::memset(memory_, 7 + FAKE_GROWTH * fake_interpreters++, sizeof(memory_));
  }
#ifndef FAKE_REPORTER
  template <typename Resolver>
  MicroInterpreter(const Model* model, const Resolver& ops, uint8_t* arena, size_t size, MicroResourceVariables*,
                   MicroProfilerInterface* profiler)
      : MicroInterpreter(model, ops, arena, size) {
    profiler_ = profiler;
  }
#endif
  TfLiteStatus AllocateTensors() { return found_ && FAKE_ALLOCATES ? kTfLiteOk : kTfLiteError; }
  size_t arena_used_bytes() const { return 1000; }
  TfLiteStatus Invoke() {
    if (profiler_ != nullptr) {
      profiler_->EndEvent(profiler_->BeginEvent("OPERATOR"));
    }
    return FAKE_INVOKES ? kTfLiteOk : kTfLiteError;
  }
  TfLiteTensor* input(int) { return &input_; }
  TfLiteTensor* output(int) { return &output_; }

 private:
  bool found_;
  MicroProfilerInterface* profiler_ = nullptr;
  TfLiteTensor input_, output_;
  char given_[FAKE_TENSOR_BYTES], memory_[FAKE_TENSOR_BYTES];
};

void* FakeAllocatePersistent(size_t) { return nullptr; }
TfLiteEvalTensor* FakeTensor(int) { return nullptr; }
void* FakeExternalContext() { return nullptr; }
FAKE_CLASSES_END

// ---- Arduino ----

struct FakeSerial {
  void begin(long) {}
  void print(const char* text) { std::printf("%s", text); }
  void println(const char* text) { std::printf("%s\n", text); }
  void println(unsigned long number) { std::printf("%lu\n", number); }
};
FakeSerial Serial;
inline unsigned long micros() { return fake_now += FAKE_TICKS; }
static int fake_turns = 0;
inline void delay(unsigned long) {
  if (++fake_turns == 2) {
    std::exit(0);
  }
}

// ---- ESP-IDF ----

inline int64_t esp_timer_get_time() { return fake_now += FAKE_TICKS; }
#define pdMS_TO_TICKS(milliseconds) (milliseconds)
inline void vTaskDelay(unsigned long) { delay(0); }

#endif
