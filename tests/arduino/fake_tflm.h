// As much of TensorFlow Lite Micro as one operator sees, in the shape of each generation of its API.
//
// FAKE_GENERATION: 1 = TfLiteRegistration, functions in TfLiteContext. 2 = the same beside a MicroContext.
// 3 = TfLiteRegistration_V1. 4 = TFLMRegistration. 5 = const TFLMRegistration. 6 = the same in namespace tflite::micro.
// The headers that exist in a generation are written by the test; all of them include this file.
#ifndef FAKE_TFLM_H_
#define FAKE_TFLM_H_

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#if FAKE_GENERATION >= 6
#define FAKE_TYPES_BEGIN namespace tflite { namespace micro {
#define FAKE_TYPES_END } }
#define FAKE_CLASSES_BEGIN FAKE_TYPES_BEGIN
#define FAKE_CLASSES_END FAKE_TYPES_END
#else
#define FAKE_TYPES_BEGIN
#define FAKE_TYPES_END
#define FAKE_CLASSES_BEGIN namespace tflite {
#define FAKE_CLASSES_END }
#endif

FAKE_TYPES_BEGIN

enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 };
enum TfLiteType { kTfLiteNoType = 0, kTfLiteFloat32 = 1, kTfLiteInt32 = 2, kTfLiteUInt8 = 3, kTfLiteInt8 = 9 };

struct TfLiteIntArray {
  int size;
  int data[64];
};

struct TfLiteEvalTensor {
  union {
    void* raw;
    void* data;
  } data;
  TfLiteIntArray* dims;
  TfLiteType type;
};

struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
};

struct TfLiteContext {
  void* impl_;
#if FAKE_GENERATION < 6
  void (*ReportError)(TfLiteContext*, const char* format, ...);
  void* (*AllocatePersistentBuffer)(TfLiteContext*, size_t bytes);
  TfLiteEvalTensor* (*GetEvalTensor)(const TfLiteContext*, int tensor);
#endif
};

#define TF_LITE_KERNEL_LOG(context, ...) (context)->ReportError((context), __VA_ARGS__)

struct FakeOldRegistration {
  void* (*init)(TfLiteContext*, const char* buffer, size_t length);
  void (*free)(TfLiteContext*, void* buffer);
  TfLiteStatus (*prepare)(TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke)(TfLiteContext*, TfLiteNode*);
  const char* (*profiling_string)(const TfLiteContext*, const TfLiteNode*);
  int32_t builtin_code;
  const char* custom_name;
  int version;
};

struct TFLMRegistration {
  void* (*init)(TfLiteContext*, const char* buffer, size_t length);
  void (*free)(TfLiteContext*, void* buffer);
  TfLiteStatus (*prepare)(TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke)(TfLiteContext*, TfLiteNode*);
  void (*reset)(TfLiteContext*, void* buffer);
  int32_t builtin_code;
  const char* custom_name;
};

#if FAKE_GENERATION <= 2
typedef FakeOldRegistration TfLiteRegistration;
typedef TfLiteRegistration FakeRegistration;
#define FAKE_PARAMETER TfLiteRegistration*
#elif FAKE_GENERATION == 3
typedef FakeOldRegistration TfLiteRegistration_V1;
typedef TfLiteRegistration_V1 FakeRegistration;
#define FAKE_PARAMETER TfLiteRegistration_V1*
#elif FAKE_GENERATION == 4
typedef TFLMRegistration FakeRegistration;
#define FAKE_PARAMETER TFLMRegistration*
#else
typedef TFLMRegistration FakeRegistration;
#define FAKE_PARAMETER const TFLMRegistration*
#endif

FAKE_TYPES_END

#if FAKE_GENERATION >= 3
inline void MicroPrintf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}
#endif

FAKE_CLASSES_BEGIN

// What the driver provides.
void* FakeAllocatePersistent(size_t bytes);
TfLiteEvalTensor* FakeTensor(int index);
void* FakeExternalContext();

class MicroContext {
 public:
  void* AllocatePersistentBuffer(size_t bytes) { return FakeAllocatePersistent(bytes); }
  TfLiteEvalTensor* GetEvalTensor(int tensor) { return FakeTensor(tensor); }
  void* external_context() { return FakeExternalContext(); }
};

inline MicroContext* GetMicroContext(const TfLiteContext* context) {
  return static_cast<MicroContext*>(context->impl_);
}

inline void* MicroContextAllocatePersistentBuffer(TfLiteContext* context, size_t bytes) {
  return GetMicroContext(context)->AllocatePersistentBuffer(bytes);
}

template <unsigned int tOpCount>
class MicroMutableOpResolver {
 public:
  TfLiteStatus AddCustom(const char* name, FAKE_PARAMETER registration) {
    if (length_ == tOpCount || FindOp(name) != nullptr) {
      return kTfLiteError;
    }
    registrations_[length_] = *registration;
    registrations_[length_].custom_name = name;
    ++length_;
    return kTfLiteOk;
  }

  TfLiteStatus AddConv2D() { return kTfLiteOk; }
  TfLiteStatus AddDequantize() { return kTfLiteOk; }
  TfLiteStatus AddSoftmax() { return kTfLiteOk; }
#ifdef FAKE_OPERATORS  // further ones
  FAKE_OPERATORS
#endif

  const FakeRegistration* FindOp(const char* name) const {
    for (unsigned int i = 0; i < length_; ++i) {
      if (std::strcmp(registrations_[i].custom_name, name) == 0) {
        return &registrations_[i];
      }
    }
    return nullptr;
  }

 private:
  FakeRegistration registrations_[tOpCount];
  unsigned int length_ = 0;
};

FAKE_CLASSES_END

namespace tflite {
namespace micro {

inline const TfLiteEvalTensor* GetEvalInput(const TfLiteContext*, const TfLiteNode* node, int position) {
  return FakeTensor(node->inputs->data[position]);
}
inline TfLiteEvalTensor* GetEvalOutput(const TfLiteContext*, const TfLiteNode* node, int position) {
  return FakeTensor(node->outputs->data[position]);
}
template <typename T>
const T* GetTensorData(const TfLiteEvalTensor* tensor) {
  return static_cast<const T*>(tensor->data.raw);
}
template <typename T>
T* GetTensorData(TfLiteEvalTensor* tensor) {
  return static_cast<T*>(tensor->data.raw);
}

}  // namespace micro
}  // namespace tflite

#endif
