/* The coordinator of a split as firmware of an emulated board: a serial line to each worker, inputs in flash, outputs told.
 *
 *     output <hexadecimal bytes>                 for each inference
 *     failed <fault> <worker> 0
 *
 * The generated fragment.h defines `fragment`, `fragment_end`, `buffer`, `values` of all inferences, INFERENCES and the
 * `contacts` of WORKERS workers, the first of which is on the first line. */
#include "report.h"

#include "link/tflite_fuse_several.h"
#include "tflite_fuse_coordinator.h"
#include "uart.h"

#include "fragment.h"

enum { MILLISECONDS = 240000 };

int main(void) {
  static _Alignas(4) uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
  static _Alignas(4) uint8_t packets[WORKERS][TFLITE_FUSE_SERIAL_BYTES(240)];
  static tflite_fuse_session sessions[WORKERS];
  static tflite_fuse_uart uarts[WORKERS];
  static tflite_fuse_serial serials[WORKERS];
  static tflite_fuse_transport parts[WORKERS], transport;
  static const tflite_fuse_transport* ways[WORKERS];
  static tflite_fuse_several several;
  static tflite_fuse_worker machine;
  static tflite_fuse_coordinator coordinator;
  uint32_t bytes = 0;
  const tflite_fuse_status status = tflite_fuse_worker_open(&machine, fragment, (size_t)(fragment_end - fragment), buffer,
                                                            sizeof(buffer));
  if (status != TFLITE_FUSE_OK) {
    device_write(tflite_fuse_worker_message(status));
    return 1;
  }
  prepare_to_sleep();
  for (int i = 0; i < WORKERS; ++i) {
    uarts[i] = uart_of(i);
    (void)tflite_fuse_serial_open(&serials[i], &uarts[i], packets[i], sizeof(packets[i]), &parts[i]);
    ways[i] = &parts[i];
  }
  tflite_fuse_several_open(&several, ways, WORKERS, &transport);
  tflite_fuse_coordinator_open(&coordinator, &machine, &transport, frame, sessions, contacts, WORKERS, NULL, 0);
  for (uint32_t inference = 0; inference < INFERENCES; ++inference) {
    void* input = tflite_fuse_worker_input(&machine, 0, &bytes);
    memcpy(input, values + (size_t)inference * bytes, bytes);
    const tflite_fuse_verdict end = tflite_fuse_coordinator_infer(&coordinator, MILLISECONDS);
    if (end.fault != TFLITE_FUSE_LINK_OK) {
      write_line("failed ", (uint64_t)end.fault, (uint64_t)end.worker, 0);
      return 1;
    }
    const void* output = tflite_fuse_worker_output(&machine, 0, &bytes);
    write_bytes(output, bytes);
  }
  tflite_fuse_coordinator_close(&coordinator);
  return 0;
}
