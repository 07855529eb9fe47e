/* Declares a transport over a serial line (a UART, USB's serial port), with a reliable connection.
 *
 *     static uint8_t memory[TFLITE_FUSE_SERIAL_BYTES(48)];    // aligned to 4; packets with up to 48 bytes of payload
 *     tflite_fuse_serial serial;
 *     tflite_fuse_serial_open(&serial, &uart, memory, sizeof(memory), &transport);
 *
 * Data is sent in packets, one at a time, each repeated until the other end confirms it. So garbage between packets is
 * skipped; lost, damaged or doubled bytes only cost time; the receiver limits the rate; and a restarted board is
 * detected. A packet, little endian:
 *
 *     0 u8 0xA0 + kind     1 u8 bytes of payload, at most 252     2 u8 connection     3 u8 number in this direction
 *     4 u32 CRC-32 of all bytes, with 0 here                      8 payload
 *
 * The next packet begins at the next eight bytes that are a header with a matching checksum.
 *
 *     1 OPEN    number 0; payload: a byte, the most payload of packets to the sender. The opener picks the number.
 *     2 DATA    numbers 1, 2 ... 255, 0, 1 ...
 *     3 TAKEN   confirms a number; for OPEN with the same payload in the other direction
 *     4 AGAIN   a packet was damaged, or there was no room for it before
 *     5 CLOSE   the connection is over, or unknown
 *
 * A whole packet, eight bytes more than its payload, must fit the receive buffer of the board's driver, because a
 * worker reads nothing while it computes. */
#ifndef TFLITE_FUSE_LINK_SERIAL_H_
#define TFLITE_FUSE_LINK_SERIAL_H_

#include "../tflite_fuse_link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The line itself. No function waits; a negative number means that the line is lost. */
typedef struct {
  void* user;
  /* Returns the number of bytes received, at most `bytes`. */
  int (*read)(void* user, void* data, size_t bytes);
  /* Returns the number of bytes written, 0 if there is no room now. */
  int (*write)(void* user, const void* data, size_t bytes);
  /* Returns a clock that never stops and wraps around. */
  uint32_t (*microseconds)(void* user);
  /* Called while waiting, to sleep or to let other tasks run. May be NULL. */
  void (*idle)(void* user);
  /* As in tflite_fuse_transport. */
  int (*random)(void* user, void* data, size_t bytes);
} tflite_fuse_uart;

/* Memory for packets of so many bytes of payload, 4 ... 252 in steps of 4. */
#define TFLITE_FUSE_SERIAL_BYTES(payload) (3 * (payload) + 16)

/* Fields are the library's own. */
typedef struct {
  const tflite_fuse_uart* uart;
  uint8_t *incoming, *outgoing, *data;
  uint32_t last; /* time of the last received byte */
  int stream;
  uint16_t held;     /* bytes of the packet being read */
  uint8_t from, to;  /* range of received data that was not read yet */
  uint8_t room, peer_room;
  uint8_t connection, sent, received;
  uint8_t state;
  bool answered, again, dropped;
} tflite_fuse_serial;

/* Makes the transport; returns 0 if the memory suffices. All arguments must outlive it. memory: aligned to 4. Opening
 * with any address dials; a line has one connection at a time, and a new one ends the one before. */
int tflite_fuse_serial_open(tflite_fuse_serial* serial, const tflite_fuse_uart* uart, void* memory, size_t memory_bytes,
                            tflite_fuse_transport* transport);

#ifdef __cplusplus
}
#endif

#endif
