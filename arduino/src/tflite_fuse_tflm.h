// The operator TFLITE_FUSE for TensorFlow Lite Micro (TFLM) on a device.
//
//     tflite::MicroMutableOpResolver<2> resolver;
//     resolver.AddSoftmax();
//     tflite_fuse_register(resolver);
//
// Compiles against every TFLM since 2021: those that register TfLiteRegistration, TfLiteRegistration_V1,
// TFLMRegistration, or const TFLMRegistration, and those whose types moved into the namespace tflite::micro. Which one
// it is follows from the headers themselves. On Arduino include your TFLM library's own header before this one.
#ifndef TFLITE_FUSE_TFLM_H_
#define TFLITE_FUSE_TFLM_H_

#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tflite_fuse.h"
#include "tflite_fuse_outside.h"

// Name of the operator in model files.
#define TFLITE_FUSE_CUSTOM_CODE "TFLITE_FUSE"

namespace tflite {
namespace micro {
// Names are looked up from in here outwards, so that TFLM's types are found in whichever namespace this TFLM has them.
namespace fused {

template <typename Status, typename Resolver, typename Registration>
Registration* RegistrationOf(Status (Resolver::*add_custom)(const char*, Registration*));

// What this TFLM registers a custom operator with: a pointer to its registration struct, const or not.
typedef decltype(RegistrationOf(&MicroMutableOpResolver<1>::AddCustom)) RegistrationPointer;

RegistrationPointer GetRegistration();

}  // namespace fused
}  // namespace micro
}  // namespace tflite

// Registers the operator. Takes one place of the resolver; returns its AddCustom's status (kTfLiteOk = 0).
template <typename Resolver>
inline auto tflite_fuse_register(Resolver& resolver)
    -> decltype(resolver.AddCustom(TFLITE_FUSE_CUSTOM_CODE, tflite::micro::fused::GetRegistration())) {
  return resolver.AddCustom(TFLITE_FUSE_CUSTOM_CODE, tflite::micro::fused::GetRegistration());
}

// Inputs outside the arena for all interpreters that were given none with SetMicroExternalContext: for a TFLM that has
// no such method, or where it serves something else. Must outlive every Invoke; NULL takes it back.
void tflite_fuse_set_outside(const tflite_fuse_outside* outside);

#endif
