// Which way do the stripes run? A picture of 64 x 64 pixels that is never in memory, streamed into a model row by row.
//
// read_camera() stands for a camera: it draws stripes, one row at a time, into a buffer of one row. The model asks it
// for pixels from top to bottom and runs while they arrive. It needs no other library: all its operators are in one
// fused block. model.h and model.c were made by scripts/build_example.py; models of your own:
//
//     tflite-fuse rewrite model.tflite small.tflite --input streamed
//     tflite-fuse export small.tflite folder --format c          (or: --format arduino, with TensorFlow Lite Micro)
#include <tflite_fuse_model.h>

#include "model.h"

const int SIZE = 64;
const char* const NAMES[] = {"|", "-", "/", "\\"};

// ---- The camera ----

struct Camera {
  int direction;  // of the stripes it sees
  int rows_read;
  int8_t row[SIZE];
};

// One more row from the sensor. Returns false if it fails.
bool next_row(Camera& camera) {
  static const int8_t right[] = {1, 0, 1, 1}, down[] = {0, 1, 1, -1};
  for (int x = 0; x < SIZE; ++x) {
    const int phase = x * right[camera.direction] + camera.rows_read * down[camera.direction];
    camera.row[x] = (phase & 8) ? 100 : -100;
  }
  ++camera.rows_read;
  return true;
}

// What the model calls: copies `count` pixels of row y from column x on. Rows come from top to bottom, each pixel once.
int read_camera(void* user, int y, int x, int count, void* destination, size_t capacity) {
  Camera& camera = *static_cast<Camera*>(user);
  if (y >= SIZE || x + count > SIZE || static_cast<size_t>(count) > capacity) {
    return 1;  // not what this camera has
  }
  if (y == 0 && x == 0) {
    camera.rows_read = 0;  // a new picture
  }
  while (camera.rows_read <= y) {
    if (!next_row(camera)) {
      return 1;  // ends the inference with TFLITE_FUSE_SOURCE_FAILED; the next one works
    }
  }
  memcpy(destination, camera.row + x, count);
  return 0;
}

// ---- The model ----

Camera camera;
const tflite_fuse_source sources[] = {{read_camera, &camera, SIZE, SIZE, 1, TFLITE_FUSE_INT8}};
const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 0, nullptr, nullptr, 1, sources};

alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
tflite_fuse_block blocks[MODEL_STEPS];
tflite_fuse_status loaded;

void setup() {
  Serial.begin(115200);
  loaded = tflite_fuse_load(&model, blocks);
}

void loop() {
  tflite_fuse_status status = loaded;
  if (loaded == TFLITE_FUSE_OK) {
    camera.direction = (camera.direction + 1) % 4;
    status = tflite_fuse_run(&model, blocks, arena, sizeof(arena), &outside);
  }
  delay(1000);
  if (status != TFLITE_FUSE_OK) {
    Serial.println(tflite_fuse_message(status));
    return;
  }
  const int8_t* strength = reinterpret_cast<const int8_t*>(arena + MODEL_OUTPUT_0_OFFSET);
  int strongest = 0;
  for (int i = 1; i < 4; ++i) {
    if (strength[i] > strength[strongest]) {
      strongest = i;
    }
  }
  Serial.print("stripes run ");
  Serial.print(NAMES[camera.direction]);
  Serial.print(", the model says ");
  Serial.println(NAMES[strongest]);
}
