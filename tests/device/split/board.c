/* A worker of a split as firmware of an emulated board: its fragment in flash, its buffer, a serial line to the coordinator.
 *
 * The generated fragment.h defines `fragment`, `fragment_end` and `buffer`. */
#ifdef MEASURE_STACK
#include "report.h"
#endif
#include "device.h"
#include "link/tflite_fuse_serial.h"

#include "fragment.h"

/* QEMU's mps2 machines: a serial line of one byte each way. */
typedef struct {
  volatile uint32_t data, state, control, interrupt, divider;
} uart;

enum { SENDING_FULL = 1, RECEIVED = 2, SEND_RECEIVE_AND_TELL = 11, RECEIVED_TOLD = 2, FASTEST = 16 };

static uart* const line = (uart*)0x40004000;
static volatile uint32_t* const tick = (volatile uint32_t*)0xE000E010; /* control, reload, value */
static volatile uint32_t* const enable_interrupts = (volatile uint32_t*)0xE000E100;
static volatile uint32_t* const forget_interrupts = (volatile uint32_t*)0xE000E280;
static volatile uint32_t* const forget_tick = (volatile uint32_t*)0xE000ED04;

/* Interrupts are never taken: what is pending ends the core's sleep, every 10 ms or when a byte came. */
static void prepare_to_sleep(void) {
  __asm__ volatile("cpsid i");
  *enable_interrupts = 1;
  tick[1] = 250000;
  tick[2] = 0;
  tick[0] = 7;
}

/* So that several boards on few cores of a computer do not keep each other from running. */
static void sleep(void* user) {
  (void)user;
  __asm__ volatile("dsb\n\twfi");
  line->interrupt = RECEIVED_TOLD;
  *forget_interrupts = 1;
  *forget_tick = UINT32_C(1) << 25;
}

static uint32_t microseconds(void* user) {
  (void)user;
  return (uint32_t)(device_instructions() / 1000); /* nanoseconds: the emulator's clock is the wall's here */
}

static int read_line(void* user, void* data, size_t bytes) {
  size_t count = 0;
  (void)user;
  while (count < bytes && (line->state & RECEIVED) != 0) {
    ((uint8_t*)data)[count++] = (uint8_t)line->data;
  }
  return (int)count;
}

static int write_bytes_of_line(void* user, const void* data, size_t bytes) {
  size_t count = 0;
  (void)user;
  while (count < bytes && (line->state & SENDING_FULL) == 0) {
    line->data = ((const uint8_t*)data)[count++];
  }
  return (int)count;
}

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
  const tflite_fuse_uart uart = {NULL, read_line, write_bytes_of_line, microseconds, sleep, NULL};
  line->divider = FASTEST;
  line->control = SEND_RECEIVE_AND_TELL;
  prepare_to_sleep();
  const tflite_fuse_status status = tflite_fuse_worker_open(&worker, fragment, (size_t)(fragment_end - fragment),
                                                            buffer, sizeof(buffer));
  if (status != TFLITE_FUSE_OK) {
    device_write(tflite_fuse_worker_message(status));
    return 1;
  }
  (void)tflite_fuse_serial_open(&serial, &uart, packets, sizeof(packets), &transport);
  tflite_fuse_node_open(&node, &worker, &transport, frame, &session, 1);
  for (;;) {
#ifdef MEASURE_STACK
    serve_and_measure(&node);
#else
    (void)tflite_fuse_node_serve(&node, 1000);
#endif
  }
}
