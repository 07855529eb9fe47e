// Feature steps in, probability out: a model that remembers the last steps and is called for each new one.
//
// A step is the loudness of eight bands, every 20 ms. Without hardware next_step() generates it; MICROPHONE_PDM
// (Arduino Nano 33 BLE Sense) and MICROPHONE_I2S (ESP32) select a microphone, whose sound bands.h analyses. The model
// was made for windows of 16 steps and returns the probability that a tone rises through the bands. As a stream it
// takes one step per call, keeps the earlier steps that it needs in its arena, and computes a seventh of the work. It
// needs no other library: all its operators are in one fused block. scripts/build_wake_word.py wrote model.h and
// model.c; for models of your own:
//
//     tflite-fuse rewrite model.tflite small.tflite                  (a model that keeps variables, as wake words do)
//     tflite-fuse rewrite window.tflite small.tflite --stream-time 1 (a model over a window of steps)
//     tflite-fuse export small.tflite folder --format c              (or: --format arduino, with TensorFlow Lite Micro)
#include <tflite_fuse_model.h>

#include "model.h"

const int BANDS = 8;
const int LIKELY = 200;  // of 256

// ---- The microphone ----

// #define MICROPHONE_PDM
// #define MICROPHONE_I2S

#if defined(MICROPHONE_PDM) || defined(MICROPHONE_I2S)
const int SAMPLE_RATE = 16000, SAMPLES = SAMPLE_RATE / 50;
#include "bands.h"
#if defined(MICROPHONE_PDM)
#include "microphone_pdm.h"
#else
#include "microphone_i2s.h"
#endif

bool next_step(int, int8_t* loudness) {
  static int16_t samples[SAMPLES];
  if (!read_samples(samples)) {
    return false;
  }
  measure_bands(samples, loudness);
  return true;
}
#else
bool start_microphone() { return true; }

// Tones that rise and fall in turn, two steps in each band, and silence between them.
bool next_step(int number, int8_t* loudness) {
  delay(20);
  const int at = number % 32;
  const bool rises = number / 32 % 2 == 0;
  for (int band = 0; band < BANDS; ++band) {
    const int from_low = rises ? band : BANDS - 1 - band;
    loudness[band] = at / 2 == from_low ? 110 : -110;
  }
  return true;
}
#endif

// ---- The model ----

// The state of the model lies in the arena, too: zeros before the first step, then unchanged between steps.
alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
tflite_fuse_block blocks[MODEL_STEPS];
tflite_fuse_status loaded;
int step_number = 0;

void setup() {
  Serial.begin(115200);
  loaded = start_microphone() ? tflite_fuse_load(&model, blocks) : TFLITE_FUSE_SOURCE_FAILED;
}

void loop() {
  tflite_fuse_status status = loaded;
  if (loaded == TFLITE_FUSE_OK) {
    const bool heard = next_step(step_number, reinterpret_cast<int8_t*>(arena + MODEL_INPUT_0_OFFSET));
    status = heard ? tflite_fuse_run(&model, blocks, arena, sizeof(arena), nullptr) : TFLITE_FUSE_SOURCE_FAILED;
  }
  if (status != TFLITE_FUSE_OK) {
    Serial.println(tflite_fuse_message(status));  // after an error the state is that of the step before
    delay(1000);
    return;
  }
  const int probability = *reinterpret_cast<const int8_t*>(arena + MODEL_OUTPUT_0_OFFSET) + 128;
  if (probability >= LIKELY) {
    Serial.println("a rising tone");
    tflite_fuse_forget(&model, blocks, arena, sizeof(arena));  // once for each tone
  }
  ++step_number;
}
