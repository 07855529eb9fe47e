// Plays TensorFlow Lite Micro for one operator TFLITE_FUSE: reads a scenario from stdin, prints log, statuses, outputs.
//
//     persistent BYTES          what AllocatePersistentBuffer can give
//     options HEX | -           custom options
//     tensor TYPE RANK EXTENT... (const HEX | arena BYTES HEX | variable BYTES | none)      in the order of their indices
//     inputs COUNT INDEX...
//     outputs COUNT INDEX...
//     external HEX              an input outside the arena, handed over with the external context
//     source CHANNELS WIDTH HEX another one, handed out pixel by pixel
//     registered                hand those over with tflite_fuse_set_outside instead
//     foreign                   the external context is something else
//     failing                   the source reports an error
//     runs COUNT
//     interpreters COUNT        run in turn, each with variables of its own
//     counting                  run R of interpreter I is given R + 16 I more in every byte of the arena
//     reset RUN                 of the first interpreter, before that run: variables are filled with zeros
// Every tensor has memory of exact size from the allocator; those in the arena get theirs behind Prepare.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tflite_fuse_tflm.h"

namespace {

typedef std::vector<uint8_t> Bytes;

// In a block of its own, so that a sanitizer sees each access outside of it. Never freed.
uint8_t* Exactly(const Bytes& bytes) {
  uint8_t* memory = static_cast<uint8_t*>(std::malloc(bytes.size()));
  if (!bytes.empty()) {
    std::memcpy(memory, bytes.data(), bytes.size());
  }
  return memory;
}

Bytes FromHex(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; hex != "-" && i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct Image {
  Bytes bytes;
  int channels;
  int width;
  bool failing;
};

int ReadImage(void* user, int y, int x, int count, void* destination, size_t capacity) {
  const Image* image = static_cast<const Image*>(user);
  const size_t first = (static_cast<size_t>(y) * image->width + x) * image->channels;
  std::memcpy(destination, image->bytes.data() + first, capacity);
  return image->failing || capacity != static_cast<size_t>(count) * image->channels ? -5 : 0;
}

size_t persistent = 1000;
void* external_context = nullptr;

}  // namespace

namespace tflite {
namespace micro {
namespace driver {
std::vector<TfLiteEvalTensor> tensors;
}
}  // namespace micro
}  // namespace tflite

FAKE_CLASSES_BEGIN
void* FakeAllocatePersistent(size_t bytes) {
  if (bytes > persistent) {
    return nullptr;
  }
  persistent -= bytes;
  return std::malloc(bytes);
}
#if FAKE_GENERATION >= 6
TfLiteEvalTensor* FakeTensor(int index) { return &driver::tensors.at(index); }
#else
TfLiteEvalTensor* FakeTensor(int index) { return &micro::driver::tensors.at(index); }
#endif
void* FakeExternalContext() { return external_context; }
FAKE_CLASSES_END

namespace tflite {
namespace micro {
namespace driver {

#if FAKE_GENERATION < 6
void Report(TfLiteContext*, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}
void* Allocate(TfLiteContext*, size_t bytes) { return FakeAllocatePersistent(bytes); }
TfLiteEvalTensor* Tensor(const TfLiteContext*, int index) { return FakeTensor(index); }
#endif

TfLiteIntArray ReadIndices() {
  TfLiteIntArray indices;
  std::cin >> indices.size;
  for (int i = 0; i < indices.size; ++i) {
    std::cin >> indices.data[i];
  }
  return indices;
}

int Play() {
  MicroContext micro_context;
  TfLiteContext context;
  std::memset(&context, 0, sizeof(context));
  context.impl_ = &micro_context;
#if FAKE_GENERATION < 6
  context.ReportError = Report;
  context.AllocatePersistentBuffer = Allocate;
  context.GetEvalTensor = Tensor;
#endif
  TfLiteNode node;
  std::memset(&node, 0, sizeof(node));
  TfLiteIntArray inputs = {0, {}}, outputs = {0, {}};
  std::vector<std::pair<size_t, Bytes>> later;
  std::vector<const void*> externals;
  std::vector<size_t> external_bytes;
  std::vector<Image> images;
  std::vector<tflite_fuse_source> sources;
  bool registered = false, foreign = false;
  std::vector<std::pair<size_t, size_t>> variables;
  int runs = 1, interpreters = 1, reset = -1;
  bool counting = false;
  std::string word, text;
  images.reserve(16);
  while (std::cin >> word) {
    if (word == "persistent") {
      std::cin >> persistent;
    } else if (word == "options") {
      std::cin >> text;
      const Bytes options = FromHex(text);
      node.custom_initial_data = text == "-" ? nullptr : Exactly(options);
      node.custom_initial_data_size = static_cast<int>(options.size());
    } else if (word == "tensor") {
      TfLiteEvalTensor tensor;
      int type;
      std::cin >> type;
      tensor.type = static_cast<TfLiteType>(type);
      tensor.dims = new TfLiteIntArray(ReadIndices());
      tensor.data.raw = nullptr;
      std::cin >> word;
      if (word == "const") {
        std::cin >> text;
        tensor.data.raw = Exactly(FromHex(text));
      } else if (word == "arena") {
        size_t bytes;
        std::cin >> bytes >> text;
        Bytes content = FromHex(text);
        content.resize(bytes, 0xA5);
        later.push_back(std::make_pair(tensors.size(), content));
      } else if (word == "variable") {
        size_t bytes;
        std::cin >> bytes;
        variables.push_back(std::make_pair(tensors.size(), bytes));
      }
      tensors.push_back(tensor);
    } else if (word == "inputs") {
      inputs = ReadIndices();
    } else if (word == "outputs") {
      outputs = ReadIndices();
    } else if (word == "external") {
      std::cin >> text;
      const Bytes bytes = FromHex(text);
      externals.push_back(Exactly(bytes));
      external_bytes.push_back(bytes.size());
    } else if (word == "source") {
      Image image;
      std::cin >> image.channels >> image.width >> text;
      image.bytes = FromHex(text);
      image.failing = false;
      images.push_back(image);
      const int32_t width = image.width, channels = image.channels;
      const int32_t height = static_cast<int32_t>(image.bytes.size()) / (width * channels);
      const tflite_fuse_source source = {ReadImage, &images.back(), height, width, channels, TFLITE_FUSE_INT8};
      sources.push_back(source);
    } else if (word == "shape") {
      int type;
      tflite_fuse_source& last = sources.back();
      std::cin >> last.height >> last.width >> last.channels >> type;
      last.type = static_cast<tflite_fuse_type>(type);
    } else if (word == "registered") {
      registered = true;
    } else if (word == "foreign") {
      foreign = true;
    } else if (word == "failing") {
      images.back().failing = true;
    } else if (word == "runs") {
      std::cin >> runs;
    } else if (word == "interpreters") {
      std::cin >> interpreters;
    } else if (word == "reset") {
      std::cin >> reset;
    } else if (word == "counting") {
      counting = true;
    }
  }
  node.inputs = &inputs;
  node.outputs = &outputs;

  const tflite_fuse_outside outside = {
      TFLITE_FUSE_OUTSIDE_MARK_2,           static_cast<int32_t>(externals.size()), externals.data(), external_bytes.data(),
      static_cast<int32_t>(sources.size()), sources.data(), nullptr, 0};
  int something = 42;
  if (foreign) {
    external_context = &something;
  } else if (!registered && !(externals.empty() && sources.empty())) {
    external_context = const_cast<tflite_fuse_outside*>(&outside);
  }
  if (registered) {
    tflite_fuse_set_outside(&outside);
  }

  MicroMutableOpResolver<1> resolver;
  std::printf("register %d\n", static_cast<int>(tflite_fuse_register(resolver)));
  std::printf("register again %d\n", static_cast<int>(tflite_fuse_register(resolver)));
  const FakeRegistration* registration = resolver.FindOp("TFLITE_FUSE");
  std::vector<void*> blocks;
  std::vector<std::vector<uint8_t*>> remembered(interpreters);
  int prepared = 0;
  for (int each = 0; each < interpreters && prepared == 0; ++each) {
    blocks.push_back(
        registration->init(&context, static_cast<const char*>(node.custom_initial_data), node.custom_initial_data_size));
    for (size_t i = 0; i < variables.size(); ++i) {
      remembered[each].push_back(Exactly(Bytes(variables[i].second, 0)));
    }
    node.user_data = blocks.back();
    prepared = registration->prepare(&context, &node);
    std::printf("prepare %d\n", prepared);
  }
  for (int turn = 0; turn < runs * interpreters && prepared == 0; ++turn) {
    const int run = turn / interpreters, each = turn % interpreters;
    node.user_data = blocks[each];
    for (size_t i = 0; i < later.size(); ++i) {
      Bytes content = later[i].second;
      for (size_t byte = 0; counting && byte < content.size(); ++byte) {
        content[byte] = static_cast<uint8_t>(content[byte] + run + 16 * each);
      }
      tensors[later[i].first].data.raw = Exactly(content);
    }
    for (size_t i = 0; i < variables.size(); ++i) {
      tensors[variables[i].first].data.raw = remembered[each][i];
      if (run == reset && each == 0) {
        std::memset(remembered[each][i], 0, variables[i].second);
      }
    }
    const int status = registration->invoke(&context, &node);
    std::printf("invoke %d\n", status);
    for (int i = 0; status == 0 && i + 1 < outputs.size; ++i) {
      const TfLiteEvalTensor& tensor = tensors[outputs.data[i]];
      std::printf("output ");
      int bytes = tensor.type == kTfLiteFloat32 || tensor.type == kTfLiteInt32 ? 4 : 1;
      for (int axis = 0; axis < tensor.dims->size; ++axis) {
        bytes *= tensor.dims->data[axis];
      }
      for (int byte = 0; byte < bytes; ++byte) {
        std::printf("%02x", static_cast<const uint8_t*>(tensor.data.raw)[byte]);
      }
      std::printf("\n");
    }
  }
  std::printf("persistent left %d\n", static_cast<int>(persistent));
  return 0;
}

}  // namespace driver
}  // namespace micro
}  // namespace tflite

int main() { return tflite::micro::driver::Play(); }
