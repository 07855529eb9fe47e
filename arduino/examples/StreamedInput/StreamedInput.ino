// Which way do the stripes run? A picture of 64 x 64 pixels that is never in memory, streamed into a model row by row.
//
// read_rows() gives the model pixels from top to bottom, out of a buffer of one row, and the model runs while they
// arrive. Without hardware next_row() draws stripes; CAMERA_OV2640 (ESP32-CAM) and CAMERA_OV7670 (Arduino Nano 33 BLE)
// choose a camera. The model needs no other library: all its operators are in one fused block. model.h and model.c were
// made by scripts/build_example.py; models of your own:
//
//     tflite-fuse rewrite model.tflite small.tflite --input streamed
//     tflite-fuse export small.tflite folder --format c          (or: --format arduino, with TensorFlow Lite Micro)
#include <tflite_fuse_model.h>

#include "model.h"

const int SIZE = 64;
const char* const NAMES[] = {"|", "-", "/", "\\"};

// ---- The camera ----

// #define CAMERA_OV2640
// #define CAMERA_OV7670

struct Picture {
  int direction;  // of the stripes that were drawn, -1 if a camera sees them
  int rows_read;
  int8_t row[SIZE];
};

#if defined(CAMERA_OV2640)
#include "camera_ov2640.h"
#elif defined(CAMERA_OV7670)
#include "camera_ov7670.h"
#else
bool start_camera() { return true; }

// Fills `row` with the next row of the picture, the first one if `rows_read` is 0. Returns false if the sensor fails.
bool next_row(Picture& picture) {
  static const int8_t right[] = {1, 0, 1, 1}, down[] = {0, 1, 1, -1};
  if (picture.rows_read == 0) {
    picture.direction = (picture.direction + 1) % 4;
  }
  for (int x = 0; x < SIZE; ++x) {
    const int phase = x * right[picture.direction] + picture.rows_read * down[picture.direction];
    picture.row[x] = (phase & 8) ? 100 : -100;
  }
  ++picture.rows_read;
  return true;
}
#endif

// Called by the model: copies `count` pixels of row y from column x on. Rows come from top to bottom, each pixel once.
int read_rows(void* user, int y, int x, int count, void* destination, size_t capacity) {
  Picture& picture = *static_cast<Picture*>(user);
  if (y >= SIZE || x + count > SIZE || static_cast<size_t>(count) > capacity) {
    return 1;  // not in this picture
  }
  if (y == 0 && x == 0) {
    picture.rows_read = 0;  // a new picture
  }
  while (picture.rows_read <= y) {
    if (!next_row(picture)) {
      return 1;  // ends the inference with TFLITE_FUSE_SOURCE_FAILED; the next one works
    }
  }
  memcpy(destination, picture.row + x, count);
  return 0;
}

// ---- The model ----

Picture picture;
const tflite_fuse_source sources[] = {{read_rows, &picture, SIZE, SIZE, 1, TFLITE_FUSE_INT8}};
const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 0, nullptr, nullptr, 1, sources, nullptr, 0};

alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
tflite_fuse_block blocks[MODEL_STEPS];
tflite_fuse_status loaded;

void setup() {
  Serial.begin(115200);
  loaded = start_camera() ? tflite_fuse_load(&model, blocks) : TFLITE_FUSE_SOURCE_FAILED;
}

void loop() {
  tflite_fuse_status status = loaded;
  if (loaded == TFLITE_FUSE_OK) {
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
  if (picture.direction >= 0) {
    Serial.print("stripes run ");
    Serial.print(NAMES[picture.direction]);
    Serial.print(", ");
  }
  Serial.print("the model says ");
  Serial.println(NAMES[strongest]);
}
