/* A worker of a split as firmware of an emulated board: its fragment in flash, its buffer, a serial line to the coordinator.
 *
 * The generated fragment.h defines `fragment`, `fragment_end` and `buffer`. */
#ifdef MEASURE_STACK
#include "report.h"
#endif
#include "uart.h"

#include "fragment.h"

#ifdef MEASURE_STACK
/* Of worker, link and line, packets of 48 bytes included. */
enum {
  LINK = sizeof(tflite_fuse_worker) + sizeof(tflite_fuse_node) + sizeof(tflite_fuse_session) + sizeof(tflite_fuse_transport),
  STATE = LINK + sizeof(tflite_fuse_uart) + sizeof(tflite_fuse_serial) + TFLITE_FUSE_SERIAL_BYTES(48)
};

/* Tells the most bytes of stack that worker, link and line took, and how many inferences that includes. */
static void serve_and_measure(tflite_fuse_node* node) {
  static uint32_t most, inferences;
  paint_stack();
  (void)tflite_fuse_node_serve(node, 20);
  const uint32_t used = stack_used();
  if (used > most || node->inferences > inferences) {
    most = used > most ? used : most;
    inferences = node->inferences;
    write_line("stack ", most, inferences, STATE);
  }
}
#endif

int main(void) {
  static _Alignas(4) uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
  static tflite_fuse_session session;
  static tflite_fuse_worker worker;
  static tflite_fuse_node node;
  static _Alignas(4) uint8_t packets[TFLITE_FUSE_SERIAL_BYTES(240)];
  static tflite_fuse_serial serial;
  static tflite_fuse_transport transport;
  const tflite_fuse_uart line = uart_of(0);
  prepare_to_sleep();
  const tflite_fuse_status status = tflite_fuse_worker_open(&worker, fragment, (size_t)(fragment_end - fragment),
                                                            buffer, sizeof(buffer));
  if (status != TFLITE_FUSE_OK) {
    device_write(tflite_fuse_worker_message(status));
    return 1;
  }
  (void)tflite_fuse_serial_open(&serial, &line, packets, sizeof(packets), &transport);
  tflite_fuse_node_open(&node, &worker, &transport, frame, &session, 1);
  for (;;) {
#ifdef MEASURE_STACK
    serve_and_measure(&node);
#else
    (void)tflite_fuse_node_serve(&node, 1000);
#endif
  }
}
