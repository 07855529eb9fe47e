/* Serial lines of QEMU's mps2 machines, of one byte each way, and sleep until one of them has something. */
#ifndef UART_H_
#define UART_H_

#include "device.h"
#include "link/tflite_fuse_serial.h"

typedef struct {
  volatile uint32_t data, state, control, interrupt, divider;
} uart;

enum { SENDING_FULL = 1, RECEIVED = 2, SEND_RECEIVE_AND_TELL = 11, RECEIVED_TOLD = 2, FASTEST = 16, LINES = 3 };

static uart* const lines[LINES] = {(uart*)0x40004000, (uart*)0x40005000, (uart*)0x40006000};
static volatile uint32_t* const tick = (volatile uint32_t*)0xE000E010; /* control, reload, value */
static volatile uint32_t* const enable_interrupts = (volatile uint32_t*)0xE000E100;
static volatile uint32_t* const forget_interrupts = (volatile uint32_t*)0xE000E280;
static volatile uint32_t* const forget_tick = (volatile uint32_t*)0xE000ED04;
static const uint32_t received = 0x15; /* interrupts 0, 2 and 4 */

/* Interrupts are never taken: what is pending ends the core's sleep, every 10 ms or when a byte came. */
static void prepare_to_sleep(void) {
  __asm__ volatile("cpsid i");
  *enable_interrupts = received;
  tick[1] = 250000;
  tick[2] = 0;
  tick[0] = 7;
}

/* So that several boards on few cores of a computer do not keep each other from running. */
static void sleep(void* user) {
  (void)user;
  __asm__ volatile("dsb\n\twfi");
  for (int i = 0; i < LINES; ++i) lines[i]->interrupt = RECEIVED_TOLD;
  *forget_interrupts = received;
  *forget_tick = UINT32_C(1) << 25;
}

static uint32_t microseconds(void* user) {
  (void)user;
  return (uint32_t)(device_instructions() / 1000); /* nanoseconds: the emulator's clock is the wall's here */
}

static int read_line(void* user, void* data, size_t bytes) {
  uart* line = user;
  size_t count = 0;
  while (count < bytes && (line->state & RECEIVED) != 0) {
    ((uint8_t*)data)[count++] = (uint8_t)line->data;
  }
  return (int)count;
}

static int write_out(void* user, const void* data, size_t bytes) {
  uart* line = user;
  size_t count = 0;
  while (count < bytes && (line->state & SENDING_FULL) == 0) {
    line->data = ((const uint8_t*)data)[count++];
  }
  return (int)count;
}

static tflite_fuse_uart uart_of(int number) {
  lines[number]->divider = FASTEST;
  lines[number]->control = SEND_RECEIVE_AND_TELL;
  return (tflite_fuse_uart){lines[number], read_line, write_out, microseconds, sleep, NULL};
}

#endif
