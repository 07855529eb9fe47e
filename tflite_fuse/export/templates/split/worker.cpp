// $name, a worker of $title, on $board, over $way. Written by tflite-fuse; export again rather than change it.
#include <Arduino.h>
$include
#include "fragment.h"
#include "network.h"
#include "tflite_fuse_arduino.h"
$key
$using$transport
alignas(16) static uint8_t buffer[BUFFER_BYTES];
alignas(4) static uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
static tflite_fuse_session sessions[$sessions];
static tflite_fuse_worker worker;
static tflite_fuse_node node;
$lock$join
void setup() {
  Serial.begin(115200);
$begin$sums  const tflite_fuse_status status =
      tflite_fuse_worker_open(&worker, fragment, FRAGMENT_BYTES, buffer, sizeof(buffer));
  while (status != TFLITE_FUSE_OK) {
    Serial.println(tflite_fuse_worker_message(status));
    delay(5000);
  }
  tflite_fuse_node_open(&node, &worker, $which.transport(), frame, sessions, $sessions);
$locked}

// Serves the coordinator$others.
void loop() {
$serve}
