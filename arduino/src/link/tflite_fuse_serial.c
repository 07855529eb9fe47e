/* Carries a connection over a serial line: packets, each repeated until it is confirmed. */
#include "tflite_fuse_serial.h"

#include <string.h>

#include "../executor/tflite_fuse_checks.h"

enum { MARK = 0xA0, HEAD_BYTES = 8, CHECKSUM_AT = 4, MOST_BYTES = 252, LEAST_BYTES = 4 };
enum { OPEN = 1, DATA = 2, TAKEN = 3, AGAIN = 4, CLOSE = 5 };
enum { NONE = 0, DIALLED = 1, CALLED = 2, ACCEPTED = 3 }; /* origin of the connection */

/* At 9,600 bits per second a byte takes one millisecond. */
enum { ANSWER_MS = 100, BYTE_MS = 2, LONGEST_MS = 1600, GAP_MS = 50, STALLED_MS = 1000 };

static uint32_t now(const tflite_fuse_serial* serial) { return serial->uart->microseconds(serial->uart->user); }

static uint32_t elapsed_ms(const tflite_fuse_serial* serial, uint32_t start) { return (now(serial) - start) / 1000; }

static void wait(const tflite_fuse_serial* serial) {
  if (serial->uart->idle != NULL) {
    serial->uart->idle(serial->uart->user);
  }
}

static uint32_t checksum_of(const uint8_t* packet) {
  return tflite_fuse_checksum(packet, HEAD_BYTES + (size_t)packet[1], packet + CHECKSUM_AT, packet, 0);
}

/* ---- Out ---- */

static void write_packet(tflite_fuse_serial* serial, uint8_t kind, uint8_t connection, uint8_t number,
                         const void* payload, uint8_t bytes) {
  uint8_t* packet = serial->outgoing;
  const uint8_t head[CHECKSUM_AT] = {(uint8_t)(MARK + kind), bytes, connection, number};
  memcpy(packet, head, sizeof(head));
  if (bytes != 0) {
    memcpy(packet + HEAD_BYTES, payload, bytes);
  }
  const uint32_t checksum = checksum_of(packet);
  for (int i = 0; i < 4; ++i) {
    packet[CHECKSUM_AT + i] = (uint8_t)(checksum >> 8 * i);
  }
  const size_t size = HEAD_BYTES + (size_t)bytes;
  uint32_t start = now(serial);
  for (size_t done = 0; done < size && elapsed_ms(serial, start) < STALLED_MS;) {
    const int count = serial->uart->write(serial->uart->user, packet + done, size - done);
    if (count < 0) {
      serial->state = NONE;
      return;
    }
    if (count > 0) {
      done += (size_t)count;
      start = now(serial);
    } else {
      wait(serial);
    }
  }
}

/* ---- In ---- */

static void take_open(tflite_fuse_serial* serial, const uint8_t* packet) {
  const bool is_same =
      serial->state >= CALLED && packet[2] == serial->connection && serial->received == 0 && serial->sent == 0;
  if (packet[1] != 1 || packet[HEAD_BYTES] < LEAST_BYTES || serial->state == DIALLED) {
    return; /* an end that dials can only receive its own echo */
  }
  if (!is_same) {
    serial->stream = (serial->stream + 1) & INT16_MAX;
    serial->state = CALLED;
    serial->connection = packet[2];
    serial->peer_room = packet[HEAD_BYTES];
    serial->sent = serial->received = serial->from = serial->to = 0;
    serial->dropped = false;
  }
  write_packet(serial, TAKEN, serial->connection, 0, &serial->room, 1);
}

static void take_data(tflite_fuse_serial* serial, const uint8_t* packet) {
  const uint8_t number = packet[3], bytes = packet[1];
  if (number == (uint8_t)(serial->received + 1) && bytes != 0) {
    if (serial->from != serial->to) {
      serial->dropped = true;
      return;
    }
    memcpy(serial->data, packet + HEAD_BYTES, bytes);
    serial->from = 0;
    serial->to = bytes;
    serial->received = number;
  }
  if (number == serial->received) {
    write_packet(serial, TAKEN, serial->connection, number, NULL, 0);
  }
}

static void take_answer(tflite_fuse_serial* serial, const uint8_t* packet) {
  if (serial->peer_room == 0 && packet[1] == 1 && packet[HEAD_BYTES] >= LEAST_BYTES) {
    serial->peer_room = packet[HEAD_BYTES];
  }
  serial->answered = packet[3] == serial->sent && serial->peer_room != 0;
}

static void take(tflite_fuse_serial* serial) {
  const uint8_t* packet = serial->incoming;
  const uint8_t kind = (uint8_t)(packet[0] - MARK);
  if (kind == OPEN) {
    take_open(serial, packet);
  } else if (serial->state == NONE || packet[2] != serial->connection) {
    if (kind == DATA) { /* the sender does not know that this end was restarted */
      write_packet(serial, CLOSE, packet[2], packet[3], NULL, 0);
    }
  } else if (kind == DATA) {
    take_data(serial, packet);
  } else if (kind == TAKEN) {
    take_answer(serial, packet);
  } else if (kind == AGAIN) {
    serial->again = true;
  } else {
    serial->state = NONE;
  }
}

static bool is_head(const tflite_fuse_serial* serial) {
  const uint8_t kind = (uint8_t)(serial->incoming[0] - MARK);
  return kind >= OPEN && kind <= CLOSE && (serial->held < 2 || serial->incoming[1] <= serial->room);
}

static bool is_sound(const uint8_t* packet) {
  uint32_t checksum = 0;
  for (int i = 0; i < 4; ++i) {
    checksum |= (uint32_t)packet[CHECKSUM_AT + i] << 8 * i;
  }
  return checksum == checksum_of(packet);
}

static void drop(tflite_fuse_serial* serial, size_t bytes) {
  serial->held = (uint16_t)(serial->held - bytes);
  memmove(serial->incoming, serial->incoming + bytes, serial->held);
}

/* Skips a byte, and all following ones at which no packet begins. */
static void skip(tflite_fuse_serial* serial) {
  do {
    drop(serial, 1);
  } while (serial->held > 0 && !is_head(serial));
}

/* Processes complete packets. Returns whether a damaged one was found. */
static bool take_whole(tflite_fuse_serial* serial) {
  bool was_damaged = false;
  if (serial->held > 0 && !is_head(serial)) {
    skip(serial);
  }
  while (serial->held >= HEAD_BYTES && serial->held >= HEAD_BYTES + (size_t)serial->incoming[1]) {
    if (is_sound(serial->incoming)) {
      const size_t tail_bytes = HEAD_BYTES + (size_t)serial->incoming[1] - 1;
      take(serial);
      drop(serial, tail_bytes);
    } else {
      was_damaged = true;
    }
    skip(serial); /* a packet may begin inside a damaged one */
  }
  return was_damaged;
}

/* Reads available bytes, up to the end of a packet. Returns false if there are no more. */
static bool read_on(tflite_fuse_serial* serial) {
  const size_t size = serial->held < HEAD_BYTES ? HEAD_BYTES : HEAD_BYTES + (size_t)serial->incoming[1];
  const int count = serial->uart->read(serial->uart->user, serial->incoming + serial->held, size - serial->held);
  if (count < 0) {
    serial->state = NONE;
    return false;
  }
  bool was_damaged = false;
  if (count > 0) {
    serial->held = (uint16_t)(serial->held + count);
    serial->last = now(serial);
  } else if (serial->held > 0 && elapsed_ms(serial, serial->last) >= GAP_MS) {
    skip(serial); /* the end of the packet did not arrive */
    was_damaged = true;
  }
  was_damaged |= take_whole(serial);
  if (was_damaged && serial->state != NONE) {
    write_packet(serial, AGAIN, serial->connection, serial->received, NULL, 0);
  }
  return count > 0;
}

static bool is_connected(const tflite_fuse_serial* serial, int stream) {
  return stream == serial->stream && serial->state != NONE && serial->state != CALLED;
}

/* ---- The transport ---- */

/* Sends a packet until it is confirmed. */
static bool deliver(tflite_fuse_serial* serial, uint8_t kind, const void* data, uint8_t bytes, uint32_t start,
                    uint32_t milliseconds) {
  const int stream = serial->stream;
  uint32_t limit = ANSWER_MS + BYTE_MS * (uint32_t)bytes;
  serial->answered = false;
  while (elapsed_ms(serial, start) <= milliseconds) {
    const uint32_t sent_at = now(serial);
    serial->again = false;
    write_packet(serial, kind, serial->connection, serial->sent, data, bytes);
    while (!serial->again && elapsed_ms(serial, sent_at) < limit && elapsed_ms(serial, start) <= milliseconds) {
      const bool has_read = read_on(serial);
      if (!is_connected(serial, stream)) {
        return false;
      }
      if (serial->answered) {
        return true;
      }
      if (!has_read) {
        wait(serial);
      }
    }
    if (!serial->again) {
      limit = 2 * limit < LONGEST_MS ? 2 * limit : LONGEST_MS;
    }
  }
  return false;
}

static int open_line(void* user, const char* address, size_t address_bytes, uint32_t milliseconds) {
  tflite_fuse_serial* serial = user;
  const uint32_t start = now(serial);
  (void)address_bytes;
  if (address != NULL && serial->state >= CALLED) {
    return TFLITE_FUSE_NO_STREAM; /* without a connection there is no stream */
  }
  if (address != NULL) {
    serial->stream = (serial->stream + 1) & INT16_MAX;
    serial->state = DIALLED;
    /* A new number, so that packets of earlier connections are ignored. */
    serial->connection = (uint8_t)(serial->connection + 1 + (start >> 4) % UINT8_MAX);
    serial->sent = serial->received = serial->from = serial->to = serial->peer_room = 0;
    serial->dropped = false;
    if (deliver(serial, OPEN, &serial->room, 1, start, milliseconds)) {
      return serial->stream;
    }
    serial->state = NONE;
    return TFLITE_FUSE_NO_STREAM;
  }
  for (;;) {
    const bool has_read = read_on(serial);
    if (serial->state == CALLED) {
      serial->state = ACCEPTED;
      return serial->stream;
    }
    if (elapsed_ms(serial, start) >= milliseconds) {
      return TFLITE_FUSE_NO_STREAM;
    }
    if (!has_read) {
      wait(serial);
    }
  }
}

static int send_all(void* user, int stream, const void* data, size_t bytes, uint32_t milliseconds) {
  tflite_fuse_serial* serial = user;
  const uint32_t start = now(serial);
  const uint8_t* rest = data;
  while (bytes > 0) {
    const uint8_t most = serial->peer_room < serial->room ? serial->peer_room : serial->room;
    const uint8_t count = (uint8_t)(bytes < most ? bytes : most);
    if (!is_connected(serial, stream)) {
      return -1;
    }
    ++serial->sent;
    if (!deliver(serial, DATA, rest, count, start, milliseconds)) {
      return -1;
    }
    rest += count;
    bytes -= count;
  }
  return 0;
}

static int receive_some(void* user, int stream, void* data, size_t bytes, uint32_t milliseconds) {
  tflite_fuse_serial* serial = user;
  const uint32_t start = now(serial);
  while (stream == serial->stream && serial->from == serial->to) {
    const bool has_read = read_on(serial);
    if (stream != serial->stream || serial->from != serial->to) {
      break;
    }
    if (!is_connected(serial, stream)) {
      return -1;
    }
    if (elapsed_ms(serial, start) >= milliseconds) {
      return 0;
    }
    if (!has_read) {
      wait(serial);
    }
  }
  if (stream != serial->stream) {
    return -1;
  }
  const size_t available = (size_t)(serial->to - serial->from), count = available < bytes ? available : bytes;
  memcpy(data, serial->data + serial->from, count);
  serial->from = (uint8_t)(serial->from + count);
  if (serial->from == serial->to && serial->dropped) {
    serial->dropped = false;
    write_packet(serial, AGAIN, serial->connection, serial->received, NULL, 0);
  }
  return (int)count;
}

static void close_line(void* user, int stream) {
  tflite_fuse_serial* serial = user;
  if (is_connected(serial, stream)) {
    write_packet(serial, CLOSE, serial->connection, serial->sent, NULL, 0);
    serial->state = NONE;
    serial->from = serial->to = 0;
  }
}

static uint32_t microseconds(void* user) { return now(user); }

static int random_bytes(void* user, void* data, size_t bytes) {
  const tflite_fuse_serial* serial = user;
  return serial->uart->random(serial->uart->user, data, bytes);
}

int tflite_fuse_serial_open(tflite_fuse_serial* serial, const tflite_fuse_uart* uart, void* memory, size_t memory_bytes,
                            tflite_fuse_transport* transport) {
  if (memory_bytes < TFLITE_FUSE_SERIAL_BYTES(LEAST_BYTES)) {
    return -1;
  }
  const size_t fits = (memory_bytes - TFLITE_FUSE_SERIAL_BYTES(0)) / 3;
  const size_t room = fits < MOST_BYTES ? fits / 4 * 4 : MOST_BYTES;
  memset(serial, 0, sizeof(*serial));
  serial->uart = uart;
  serial->room = (uint8_t)room;
  serial->incoming = memory;
  serial->outgoing = serial->incoming + HEAD_BYTES + room;
  serial->data = serial->outgoing + HEAD_BYTES + room;
  *transport = (tflite_fuse_transport){serial,     open_line,    send_all,
                                       receive_some, close_line, microseconds,
                                       uart->random == NULL ? NULL : random_bytes};
  return 0;
}
