namespace tflite {
namespace micro {

$arrays
static MicroInterpreter* interpreter = nullptr;

template <typename Interpreter$allocator>
static Interpreter* Build(const Model* model, const ModelOps& ops, std::true_type) {
$plain  return &built;
}

#ifdef MODEL_HAS_ERROR_REPORTER
// Interpreters until 2022 require an error reporter.
template <typename Interpreter$allocator>
static Interpreter* Build(const Model* model, const ModelOps& ops, std::false_type) {
  static MicroErrorReporter reporter;
$reported  return &built;
}
#endif

static void PrintArena() {
  char line[80];
  const unsigned long used = static_cast<unsigned long>(interpreter->arena_used_bytes());
  snprintf(line, sizeof(line), "arena: %lu bytes used, %lu free (MODEL_ARENA_BYTES)", used,
           static_cast<unsigned long>($bytes) - used);
  $print_line
}

// Returns the error in words, or nullptr. TensorFlow Lite Micro prints details of an error before.
static const char* SetUp() {
  const Model* model = GetModel(model_data);
  if (model->version() != TFLITE_SCHEMA_VERSION) {
    return "the model's schema is not the one of this TensorFlow Lite Micro";
  }
  static ModelOps ops;
  if (RegisterModelOps(ops) != kTfLiteOk) {
    return "an operator could not be registered";
  }
$hand_over  interpreter = Build<MicroInterpreter>(
      model, ops, std::is_constructible<MicroInterpreter, const Model*, const ModelOps&, uint8_t*, size_t>());
  if (interpreter->AllocateTensors() != kTfLiteOk) {
    return "AllocateTensors failed; if memory is missing, raise MODEL_ARENA_BYTES in model_data.h";
  }
  PrintArena();
  return nullptr;
}

static void FillInputs() {
$fill}

static void PrintOutputs() {
$print}

}  // namespace micro
}  // namespace tflite
