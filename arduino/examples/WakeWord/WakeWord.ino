// Feature steps in, probability out: a model that remembers the last steps and is called for each new one.
//
// next_step() stands for a microphone and what makes features of its sound: the loudness of eight bands, one step every
// 20 ms. The model was made for windows of 16 steps and answers whether a tone rises through the bands; as a stream it
// takes one step a call, keeps what it needs of the earlier ones in its arena, and computes a seventh. It needs no other
// library: all its operators are in one fused block. model.h and model.c were made by scripts/build_wake_word.py; models
// of your own:
//
//     tflite-fuse rewrite model.tflite small.tflite                    (a model that keeps variables, as wake words do)
//     tflite-fuse rewrite window.tflite small.tflite --stream-time 1   (a model over a window of steps)
//     tflite-fuse export small.tflite folder --format c                (or: --format arduino, with TensorFlow Lite Micro)
#include <tflite_fuse_model.h>

#include "model.h"

const int BANDS = 8;
const int LIKELY = 200;  // of 256

// ---- The microphone ----

// Tones that rise and fall in turn, two steps in each band, and silence between them.
void next_step(int number, int8_t* loudness) {
  const int at = number % 32;
  const bool rises = number / 32 % 2 == 0;
  for (int band = 0; band < BANDS; ++band) {
    const int from_low = rises ? band : BANDS - 1 - band;
    loudness[band] = at / 2 == from_low ? 110 : -110;
  }
}

// ---- The model ----

// What the model remembers lies in the arena, too: zeros before the first step, then left alone.
alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
tflite_fuse_block blocks[MODEL_STEPS];
tflite_fuse_status loaded;
int step_number = 0;

void setup() {
  Serial.begin(115200);
  loaded = tflite_fuse_load(&model, blocks);
}

void loop() {
  tflite_fuse_status status = loaded;
  if (loaded == TFLITE_FUSE_OK) {
    next_step(step_number, reinterpret_cast<int8_t*>(arena + MODEL_INPUT_0_OFFSET));
    status = tflite_fuse_run(&model, blocks, arena, sizeof(arena), nullptr);
  }
  if (status != TFLITE_FUSE_OK) {
    Serial.println(tflite_fuse_message(status));  // after an error in a step nothing of it is remembered
    delay(1000);
    return;
  }
  const int probability = *reinterpret_cast<const int8_t*>(arena + MODEL_OUTPUT_0_OFFSET) + 128;
  if (probability >= LIKELY) {
    Serial.println("a rising tone");
    tflite_fuse_forget(&model, blocks, arena, sizeof(arena));  // once for each tone
  }
  ++step_number;
  delay(20);
}
