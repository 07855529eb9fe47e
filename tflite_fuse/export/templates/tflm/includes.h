#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <type_traits>

#include "tensorflow/lite/micro/micro_interpreter.h"
$variables#include "tensorflow/lite/schema/schema_generated.h"
#if defined(__has_include)
#if __has_include("tensorflow/lite/micro/micro_error_reporter.h")
#include "tensorflow/lite/micro/micro_error_reporter.h"
#define MODEL_HAS_ERROR_REPORTER
#endif
#endif

#include "model_data.h"
#include "model_ops.h"
$outside