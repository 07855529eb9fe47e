// Declares the operator TFLITE_FUSE for TensorFlow Lite Micro (TFLM) on a device.
//
//     tflite::MicroMutableOpResolver<2> resolver;
//     resolver.AddSoftmax();
//     tflite_fuse_register(resolver);
//
// Compiles against every TFLM since 2021: those that register TfLiteRegistration, TfLiteRegistration_V1,
// TFLMRegistration, or const TFLMRegistration, and those whose types moved into the namespace tflite::micro; detected
// from TFLM's headers. On Arduino include your TFLM library's own header before this one.
#ifndef TFLITE_FUSE_TFLM_H_
#define TFLITE_FUSE_TFLM_H_

#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tflite_fuse.h"
#include "tflite_fuse_outside.h"

// Name of the operator in model files.
#define TFLITE_FUSE_CUSTOM_CODE "TFLITE_FUSE"

namespace tflite {
namespace micro {
// Name look-up starts in this namespace, so TFLM's types are found in tflite::micro or tflite.
namespace fused {

template <typename Status, typename Resolver, typename Registration>
Registration* RegistrationOf(Status (Resolver::*add_custom)(const char*, Registration*));

// This TFLM's argument for a custom operator: a pointer to its registration struct, const or not.
typedef decltype(RegistrationOf(&MicroMutableOpResolver<1>::AddCustom)) RegistrationPointer;

RegistrationPointer GetRegistration();

}  // namespace fused
}  // namespace micro
}  // namespace tflite

// Registers the operator in one place of the resolver; returns the status of AddCustom (kTfLiteOk = 0).
template <typename Resolver>
inline auto tflite_fuse_register(Resolver& resolver)
    -> decltype(resolver.AddCustom(TFLITE_FUSE_CUSTOM_CODE, tflite::micro::fused::GetRegistration())) {
  return resolver.AddCustom(TFLITE_FUSE_CUSTOM_CODE, tflite::micro::fused::GetRegistration());
}

// Sets the inputs outside the arena for all interpreters without their own by SetMicroExternalContext: for a TFLM
// without that method, or if it is used for something else. Must outlive every Invoke; NULL removes it.
void tflite_fuse_set_outside(const tflite_fuse_outside* outside);

#endif
