// The coordinator of $title, on $board. Written by tflite-fuse; yours to change.
#include <Arduino.h>
$include
#include "fragment.h"
#include "network.h"
#include "link/tflite_fuse_several.h"
#include "tflite_fuse_arduino.h"
#include "tflite_fuse_coordinator.h"
$key
$using$transport
static const tflite_fuse_transport* const ways[] = {$ways};
static const tflite_fuse_contact contacts[] = {
$contacts};
static const char* const names[] = {$names};
$dials
enum { WORKERS = $workers, MILLISECONDS = 10000 };

alignas(16) static uint8_t buffer[BUFFER_BYTES];
alignas(4) static uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
static tflite_fuse_session sessions[WORKERS];
static tflite_fuse_worker machine;
static tflite_fuse_several several;
static tflite_fuse_transport transport;
static tflite_fuse_coordinator coordinator;
$lock$join
void setup() {
  Serial.begin(115200);
$begin  const tflite_fuse_status status =
      tflite_fuse_worker_open(&machine, fragment, FRAGMENT_BYTES, buffer, sizeof(buffer));
  while (status != TFLITE_FUSE_OK) {
    Serial.println(tflite_fuse_worker_message(status));
    delay(5000);
  }
  tflite_fuse_several_open(&several, ways, $way_count, &transport);
  tflite_fuse_coordinator_open(&coordinator, &machine, &transport, frame, sessions, contacts, WORKERS, $dial_list);
$locked}

static void FillInputs() {
  uint32_t bytes;
  for (uint32_t i = 0; void* input = tflite_fuse_worker_input(&machine, i, &bytes); ++i) {
    memset(input, 0, bytes);  // Your data goes here.
  }
}

static void PrintOutputs() {
  uint32_t bytes;
  for (uint32_t i = 0; const void* output = tflite_fuse_worker_output(&machine, i, &bytes); ++i) {
    for (uint32_t b = 0; b < bytes && b < 16; ++b) {
      Serial.print(b == 0 ? "output: " : " ");
      Serial.print(static_cast<int>(static_cast<const int8_t*>(output)[b]));
    }
    Serial.println("");
  }
}

void loop() {
  FillInputs();
  const unsigned long start = millis();
  const tflite_fuse_verdict end = tflite_fuse_coordinator_infer(&coordinator, MILLISECONDS);
  if (end.fault == TFLITE_FUSE_LINK_OK) {
    Serial.print("milliseconds: ");
    Serial.println(millis() - start);
    PrintOutputs();
  } else {
    Serial.print(end.worker < 0 ? "the coordinator" : names[end.worker]);
    Serial.print(" ");
    Serial.println(tflite_fuse_link_message(end.fault));
  }
  delay(1000);
}
