/* A worker of a split as firmware of an emulated board: its fragment in flash, its buffer, a serial line to the coordinator.
 *
 * The generated fragment.h defines `fragment`, `fragment_end` and `buffer`. */
#include "device.h"
#include "tflite_fuse_link.h"

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
static bool is_open;

/* Interrupts are never taken: what is pending ends the core's sleep, every 10 ms or when a byte came. */
static void prepare_to_sleep(void) {
  __asm__ volatile("cpsid i");
  *enable_interrupts = 1;
  tick[1] = 250000;
  tick[2] = 0;
  tick[0] = 7;
}

/* So that several boards on few cores of a computer do not keep each other from running. */
static void sleep(void) {
  __asm__ volatile("dsb\n\twfi");
  line->interrupt = RECEIVED_TOLD;
  *forget_interrupts = 1;
  *forget_tick = UINT32_C(1) << 25;
}

static uint32_t microseconds(void* user) {
  (void)user;
  return (uint32_t)(device_instructions() / 1000); /* nanoseconds: the emulator's clock is the wall's here */
}

static bool is_late(uint32_t start, uint32_t milliseconds) {
  return microseconds(NULL) - start >= milliseconds * UINT32_C(1000);
}

/* A line is there from the beginning: it counts as opened when something arrives. */
static int open_line(void* user, const char* address, size_t address_bytes, uint32_t milliseconds) {
  const uint32_t start = microseconds(user);
  (void)address_bytes;
  if (address != NULL) return TFLITE_FUSE_NO_STREAM;
  do {
    if (!is_open && (line->state & RECEIVED) != 0) {
      is_open = true;
      return 0;
    }
    sleep();
  } while (!is_late(start, milliseconds));
  return TFLITE_FUSE_NO_STREAM;
}

static int send_bytes(void* user, int stream, const void* data, size_t bytes, uint32_t milliseconds) {
  const uint32_t start = microseconds(user);
  (void)stream;
  for (size_t i = 0; i < bytes; ++i) {
    while ((line->state & SENDING_FULL) != 0) {
      if (is_late(start, milliseconds)) return -1;
    }
    line->data = ((const uint8_t*)data)[i];
  }
  return 0;
}

static int receive_bytes(void* user, int stream, void* data, size_t bytes, uint32_t milliseconds) {
  const uint32_t start = microseconds(user);
  size_t count = 0;
  (void)stream;
  while ((line->state & RECEIVED) == 0) {
    if (is_late(start, milliseconds)) return 0;
    sleep();
  }
  while (count < bytes && (line->state & RECEIVED) != 0) {
    ((uint8_t*)data)[count++] = (uint8_t)line->data;
  }
  return (int)count;
}

static void close_line(void* user, int stream) {
  (void)user;
  (void)stream;
  is_open = false;
}

int main(void) {
  static _Alignas(4) uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
  static tflite_fuse_session session;
  static tflite_fuse_worker worker;
  static tflite_fuse_node node;
  const tflite_fuse_transport transport = {.open = open_line,
                                           .send = send_bytes,
                                           .receive = receive_bytes,
                                           .close = close_line,
                                           .microseconds = microseconds,
                                           .is_line = true};
  line->divider = FASTEST;
  line->control = SEND_RECEIVE_AND_TELL;
  prepare_to_sleep();
  const tflite_fuse_status status = tflite_fuse_worker_open(&worker, fragment, (size_t)(fragment_end - fragment),
                                                            buffer, sizeof(buffer));
  if (status != TFLITE_FUSE_OK) {
    device_write(tflite_fuse_worker_message(status));
    return 1;
  }
  tflite_fuse_node_open(&node, &worker, &transport, frame, &session, 1);
  for (;;) {
    (void)tflite_fuse_node_serve(&node, 1000);
  }
}
