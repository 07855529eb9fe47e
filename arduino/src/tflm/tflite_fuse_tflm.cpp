// The operator TFLITE_FUSE for TensorFlow Lite Micro. Compiled to nothing without its headers.
//
// Inputs: the block's inputs, then one int8 constant with weights and tables. Outputs: the block's outputs, then one
// int8 tensor without a reader, the block's scratch memory. A block that keeps a state has a uint8 variable before the
// constant: every interpreter has its own, and Reset fills it with zeros. Before that may come the variable of the
// model's last block with one: the others read in it whether a step succeeded, so a block without a state may have one
// of four bytes. The file is not trusted: Prepare refuses tensors that do not fit, with a message.
#if defined(__has_include)
#if __has_include("tensorflow/lite/micro/micro_mutable_op_resolver.h")

#include "../tflite_fuse_tflm.h"

#include <cstring>
#include <type_traits>

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"

#if __has_include("tensorflow/lite/micro/micro_context.h")
#include "tensorflow/lite/micro/micro_context.h"
#define TFLITE_FUSE_HAS_MICRO_CONTEXT
#endif

#if __has_include("tensorflow/lite/micro/micro_log.h")
#include "tensorflow/lite/micro/micro_log.h"
#define TFLITE_FUSE_LOG(context, ...) MicroPrintf("TFLITE_FUSE: " __VA_ARGS__)
#else
#define TFLITE_FUSE_LOG(context, ...) TF_LITE_KERNEL_LOG(context, "TFLITE_FUSE: " __VA_ARGS__)
#endif

namespace tflite {
namespace micro {
namespace fused {
namespace {

const tflite_fuse_outside* outside_of_all = nullptr;

const char kNotServed[] =
    "the block reads memory outside the arena, and none of that size was given with SetMicroExternalContext or "
    "tflite_fuse_set_outside";

const char kConstant[] = "a tensor that is written or converted where it lies is a constant";

const char kWrongCount[] = "the constants or the scratch tensor is missing, or there are too many tensors";

// ---- Differences between generations of TFLM ----

void* AllocatePersistent(TfLiteContext* context, size_t bytes) {
#ifdef TFLITE_FUSE_HAS_MICRO_CONTEXT
  return MicroContextAllocatePersistentBuffer(context, bytes);
#else
  return context->AllocatePersistentBuffer(context, bytes);
#endif
}

const tflite_fuse_outside* FindOutside(TfLiteContext* context) {
#ifdef TFLITE_FUSE_HAS_MICRO_CONTEXT
  const tflite_fuse_outside* outside =
      static_cast<const tflite_fuse_outside*>(GetMicroContext(context)->external_context());
  if (outside != nullptr && outside->mark == TFLITE_FUSE_OUTSIDE_MARK_2) {
    return outside;
  }
#else
  (void)context;
#endif
  return outside_of_all;
}

// ---- Tensors ----

const TfLiteEvalTensor* InputAt(TfLiteContext* context, TfLiteNode* node, int position) {
  return node->inputs->data[position] < 0 ? nullptr : GetEvalInput(context, node, position);
}

TfLiteEvalTensor* OutputAt(TfLiteContext* context, TfLiteNode* node, int position) {
  return node->outputs->data[position] < 0 ? nullptr : GetEvalOutput(context, node, position);
}

// Returns the elements of a tensor of this type, or -1 if its type or extents are wrong.
int32_t ElementsOf(const TfLiteEvalTensor* tensor, TfLiteType type) {
  if (tensor == nullptr || tensor->type != type || tensor->dims == nullptr) {
    return -1;
  }
  int32_t bytes = 1;
  for (int axis = 0; axis < tensor->dims->size; ++axis) {
    const int extent = tensor->dims->data[axis];
    if (extent < 0 || (extent > 0 && bytes > INT32_MAX / extent)) {
      return -1;
    }
    bytes *= extent;
  }
  return bytes;
}

int32_t Int8Bytes(const TfLiteEvalTensor* tensor) { return ElementsOf(tensor, kTfLiteInt8); }

// During Prepare only constants have an address; tensors in the arena, and variables, get theirs later.
bool IsConstant(const TfLiteEvalTensor* tensor) { return tensor->data.data != nullptr; }

bool HasMemory(const TfLiteEvalTensor* tensor) {
  return tensor != nullptr && (tensor->data.data != nullptr || ElementsOf(tensor, tensor->type) == 0);
}

// ---- The operator ----

// Returns the number of inputs behind those of the block: optional state of the last block, its own state or counter,
// constants.
int OwnInputs(const tflite_fuse_block* block, const TfLiteNode* node) {
  const int own = node->inputs->size - tflite_fuse_operand_count(block, TFLITE_FUSE_INPUT);
  const int least = tflite_fuse_state_bytes(block) == 0 ? 1 : 2;
  return own == least + 1 ? own : least;
}

bool IsState(const TfLiteEvalTensor* tensor, int32_t bytes) {
  return ElementsOf(tensor, kTfLiteUInt8) >= bytes && !IsConstant(tensor);
}

TfLiteStatus Refuse(TfLiteContext* context, const char* reason) {
  TFLITE_FUSE_LOG(context, "%s", reason);
  (void)context;
  return kTfLiteError;
}

void* Init(TfLiteContext* context, const char*, size_t) {
  void* block = AllocatePersistent(context, sizeof(tflite_fuse_block));
  if (block != nullptr) {
    std::memset(block, 0, sizeof(tflite_fuse_block));
  }
  return block;
}

TfLiteStatus CheckCount(TfLiteContext* context, const char* kind, int32_t expected, int actual) {
  if (expected != actual) {
    TFLITE_FUSE_LOG(context, "the options list %d %s tensors, but the operator has %d", static_cast<int>(expected),
                    kind, actual);
    (void)context;
    return kTfLiteError;
  }
  return kTfLiteOk;
}

TfLiteStatus CheckOperand(TfLiteContext* context, const tflite_fuse_block* block, tflite_fuse_operand kind, int number,
                          const TfLiteEvalTensor* tensor) {
  const int32_t expected = tflite_fuse_operand_bytes(block, kind, number);
  const int type = tflite_fuse_operand_type(block, kind, number);
  const bool is_unsigned = type == TFLITE_FUSE_UINT8;
  const bool is_float = type == TFLITE_FUSE_FLOAT32;
  // A block writes an int32 as four channels of int8.
  const bool is_int32 = type == TFLITE_FUSE_INT8 && kind == TFLITE_FUSE_OUTPUT && tensor != nullptr &&
                        tensor->type == kTfLiteInt32;
  const int32_t size = is_float || is_int32 ? 4 : 1;
  const TfLiteType expected_type = is_int32      ? kTfLiteInt32
                                   : is_float    ? kTfLiteFloat32
                                   : is_unsigned ? kTfLiteUInt8
                                                 : kTfLiteInt8;
  if (expected % size != 0 || ElementsOf(tensor, expected_type) != expected / size) {
    TFLITE_FUSE_LOG(context, "%s %d must be %s of %d bytes", kind == TFLITE_FUSE_INPUT ? "input" : "output", number,
                    is_float ? "float32" : is_unsigned ? "uint8" : "int8", static_cast<int>(expected));
    (void)context;
    return kTfLiteError;
  }
  if ((kind == TFLITE_FUSE_OUTPUT || is_unsigned) && IsConstant(tensor)) {
    return Refuse(context, kConstant);
  }
  return kTfLiteOk;
}

TfLiteStatus CheckOperands(TfLiteContext* context, TfLiteNode* node, const tflite_fuse_block* block) {
  const int inputs = node->inputs->size - OwnInputs(block, node);
  const int outputs = node->outputs->size - 1;
  TfLiteStatus status = CheckCount(context, "input", tflite_fuse_operand_count(block, TFLITE_FUSE_INPUT), inputs);
  for (int number = 0; status == kTfLiteOk && number < inputs; ++number) {
    status = CheckOperand(context, block, TFLITE_FUSE_INPUT, number, InputAt(context, node, number));
  }
  if (status == kTfLiteOk) {
    status = CheckCount(context, "output", tflite_fuse_operand_count(block, TFLITE_FUSE_OUTPUT), outputs);
  }
  for (int number = 0; status == kTfLiteOk && number < outputs; ++number) {
    status = CheckOperand(context, block, TFLITE_FUSE_OUTPUT, number, OutputAt(context, node, number));
  }
  return status;
}

// The runtime plans no place in the arena for a tensor that has an address already.
TfLiteStatus BindToSecondMemory(TfLiteContext* context, TfLiteNode* node, const tflite_fuse_block* block,
                                const tflite_fuse_outside* outside) {
  if (!tflite_fuse_memory_holds(outside, block)) {
    return Refuse(context, "the second memory is too small for the model, or not aligned to 16");
  }
  for (int number = 0; number < node->inputs->size - OwnInputs(block, node); ++number) {
    void* place = tflite_fuse_second_memory(outside, block, TFLITE_FUSE_INPUT, number);
    if (place != nullptr) {
      const_cast<TfLiteEvalTensor*>(InputAt(context, node, number))->data.data = place;
    }
  }
  for (int number = 0; number < node->outputs->size - 1; ++number) {
    void* place = tflite_fuse_second_memory(outside, block, TFLITE_FUSE_OUTPUT, number);
    if (place != nullptr) {
      OutputAt(context, node, number)->data.data = place;
    }
  }
  return kTfLiteOk;
}

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  tflite_fuse_block* block = static_cast<tflite_fuse_block*>(node->user_data);
  if (block == nullptr) {
    return Refuse(context, "no memory for the operator's state");
  }
  if (node->inputs->size < 1 || node->outputs->size < 1 || node->inputs->size > TFLITE_FUSE_MAX_OPERANDS + 3 ||
      node->outputs->size > TFLITE_FUSE_MAX_OPERANDS + 1) {
    return Refuse(context, kWrongCount);
  }
  const TfLiteEvalTensor* constants = InputAt(context, node, node->inputs->size - 1);
  const int32_t constant_bytes = Int8Bytes(constants);
  if (constant_bytes < 0 || GetTensorData<int8_t>(constants) == nullptr) {
    return Refuse(context, "the last input must be a constant int8 tensor");
  }
  const size_t options_bytes =
      node->custom_initial_data_size < 0 ? 0 : static_cast<size_t>(node->custom_initial_data_size);
  const tflite_fuse_status status =
      tflite_fuse_prepare(block, node->custom_initial_data, options_bytes, GetTensorData<int8_t>(constants),
                          static_cast<size_t>(constant_bytes));
  if (status != TFLITE_FUSE_OK) {
    return Refuse(context, tflite_fuse_message(status));
  }
  const TfLiteEvalTensor* scratch = OutputAt(context, node, node->outputs->size - 1);
  if (Int8Bytes(scratch) < tflite_fuse_scratch_bytes(block) || IsConstant(scratch)) {
    return Refuse(context, "the last output must be an int8 tensor as large as the block's scratch memory");
  }
  const int own = OwnInputs(block, node);
  if (node->inputs->size - own > TFLITE_FUSE_MAX_OPERANDS) {  // Invoke keeps them on the stack
    return Refuse(context, kWrongCount);
  }
  const bool is_counted = own == 3 || tflite_fuse_state_bytes(block) == 0;
  const int32_t counter_bytes = is_counted ? static_cast<int32_t>(sizeof(uint32_t)) : 0;
  if (own >= 2 && (node->inputs->size < 2 || !IsState(InputAt(context, node, node->inputs->size - 2),
                                                      tflite_fuse_state_bytes(block) + counter_bytes))) {
    const int32_t count = tflite_fuse_operand_count(block, TFLITE_FUSE_INPUT);
    if (tflite_fuse_state_bytes(block) == 0) {
      return CheckCount(context, "input", count, count + 1);
    }
    return Refuse(context, "the input before the last must be a uint8 variable as large as the block's state");
  }
  if (own == 3 && !IsState(InputAt(context, node, node->inputs->size - 3), counter_bytes)) {
    return Refuse(context, "the input before the block's state must be a uint8 variable, the state of the last block");
  }
  // Inputs outside the arena may be set after AllocateTensors: Invoke checks again.
  const tflite_fuse_outside* outside = FindOutside(context);
  if (outside != nullptr && !tflite_fuse_outside_serves(outside, block)) {
    return Refuse(context, kNotServed);
  }
  const TfLiteStatus checked = CheckOperands(context, node, block);
  return checked == kTfLiteOk ? BindToSecondMemory(context, node, block, outside) : checked;
}

TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  tflite_fuse_block* block = static_cast<tflite_fuse_block*>(node->user_data);
  const int own = OwnInputs(block, node);
  const int input_count = node->inputs->size - own;
  const int output_count = node->outputs->size - 1;
  const int8_t* inputs[TFLITE_FUSE_MAX_OPERANDS];
  int8_t* outputs[TFLITE_FUSE_MAX_OPERANDS + 1];  // the last one is scratch
  for (int i = 0; i < input_count; ++i) {
    const TfLiteEvalTensor* tensor = InputAt(context, node, i);
    if (!HasMemory(tensor)) {
      return Refuse(context, "one of the tensors has no memory");
    }
    inputs[i] = static_cast<const int8_t*>(tensor->data.data);
  }
  for (int i = 0; i <= output_count; ++i) {
    TfLiteEvalTensor* tensor = OutputAt(context, node, i);
    if (!HasMemory(tensor)) {
      return Refuse(context, "one of the tensors has no memory");
    }
    outputs[i] = static_cast<int8_t*>(tensor->data.data);
  }
  const tflite_fuse_outside* outside = FindOutside(context);
  if (!tflite_fuse_outside_serves(outside, block)) {
    return Refuse(context, kNotServed);
  }
  tflite_fuse_io io;
  io.inputs = inputs;
  io.outputs = outputs;
  io.externals = outside == nullptr ? nullptr : outside->externals;
  io.sources = outside == nullptr ? nullptr : outside->sources;
  io.scratch = outputs[output_count];
  io.state = nullptr;
  if (own >= 2) {
    io.state = InputAt(context, node, node->inputs->size - 2)->data.data;
  }
  const TfLiteEvalTensor* last = own == 3 ? InputAt(context, node, input_count) : nullptr;
  if (last != nullptr && !HasMemory(last)) {
    return Refuse(context, "one of the tensors has no memory");
  }
  uint32_t* number = last == nullptr ? nullptr : static_cast<uint32_t*>(last->data.data);
  const tflite_fuse_status status =
      own == 1 ? tflite_fuse_invoke(block, &io) : tflite_fuse_follow(block, &io, number);
  return status == TFLITE_FUSE_OK ? kTfLiteOk : Refuse(context, tflite_fuse_message(status));
}

// Resolvers copy a registration and only read it, even if they take a pointer to a non-const one.
typedef std::remove_const<std::remove_pointer<RegistrationPointer>::type>::type Registration;
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
const Registration registration = {Init, nullptr, Prepare, Invoke};
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

}  // namespace

RegistrationPointer GetRegistration() { return const_cast<RegistrationPointer>(&registration); }

}  // namespace fused
}  // namespace micro
}  // namespace tflite

void tflite_fuse_set_outside(const tflite_fuse_outside* outside) { tflite::micro::fused::outside_of_all = outside; }

#endif
#endif
