/* A transport over a serial line (a UART, USB's serial port): the connection a bare line is not.
 *
 *     static uint8_t memory[TFLITE_FUSE_SERIAL_BYTES(48)];    // aligned to 4; packets of 48 bytes come in
 *     tflite_fuse_serial serial;
 *     tflite_fuse_serial_open(&serial, &uart, memory, sizeof(memory), &transport);
 *
 * What is sent goes as packets, one at a time, each sent again until the other end says that it took it. So garbage between
 * packets is skipped, lost, damaged or doubled bytes cost time and nothing else, nobody sends faster than the other end takes,
 * and a board that was restarted is noticed. A packet, little endian:
 *     0 u8 0xA0 + kind     1 u8 bytes of payload, at most 252     2 u8 connection     3 u8 number in this direction
 *     4 u32 CRC-32 of all, itself taken as 0                      8 payload
 * The next packet is found wherever it begins: eight bytes that are a header, and a checksum that fits.
 *
 *     1 OPEN    number 0; payload: a byte, how much one packet may carry to the sender. Who opens picks the connection's number.
 *     2 DATA    numbers 1, 2 ... 255, 0, 1 ...
 *     3 TAKEN   the number that was taken; for OPEN the same payload the other way round
 *     4 AGAIN   a packet was damaged, or there was no room for it and now there is
 *     5 CLOSE   the connection is over, or unknown
 *
 * Choose packets so that a whole one, eight bytes more than its payload, fits what the board's driver keeps of what comes:
 * a worker that computes takes nothing. */
#ifndef TFLITE_FUSE_LINK_SERIAL_H_
#define TFLITE_FUSE_LINK_SERIAL_H_

#include "../tflite_fuse_link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The line itself. None of these waits; a negative number says that the line is gone. */
typedef struct {
  void* user;
  /* How many bytes came, `bytes` at most. */
  int (*read)(void* user, void* data, size_t bytes);
  /* How many of the bytes were taken, 0 if there is no room now. */
  int (*write)(void* user, const void* data, size_t bytes);
  /* A clock that runs for ever and wraps around. */
  uint32_t (*microseconds)(void* user);
  /* Called while there is nothing to do but wait, to sleep or to let others run. May be NULL. */
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
  uint32_t last; /* when something came */
  int stream;
  uint16_t held;     /* bytes of the packet that is being read */
  uint8_t from, to;  /* of the data that came and nobody asked for yet */
  uint8_t room, peer_room;
  uint8_t connection, sent, received;
  uint8_t state;
  bool answered, again, dropped;
} tflite_fuse_serial;

/* Makes the transport; 0 if the memory suffices. All must outlive it. memory: aligned to 4. Whoever opens with an address,
 * whatever it says, dials; a line has one connection at a time, and a new one ends the one before. */
int tflite_fuse_serial_open(tflite_fuse_serial* serial, const tflite_fuse_uart* uart, void* memory, size_t memory_bytes,
                            tflite_fuse_transport* transport);

#ifdef __cplusplus
}
#endif

#endif
