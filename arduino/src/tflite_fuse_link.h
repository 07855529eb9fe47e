/* Joins a worker of a split (tflite_fuse_worker.h) to the coordinator and to other workers, over any stream of bytes.
 *
 *     static uint8_t frame[TFLITE_FUSE_FRAME_BYTES];          // aligned to 4
 *     static tflite_fuse_session sessions[3];                 // the coordinator, and two other workers at most
 *     tflite_fuse_node node;
 *     tflite_fuse_node_open(&node, &worker, &transport, frame, sessions, 3);
 *     for (;;) tflite_fuse_node_serve(&node, 1000);           // an event within a second, or a whole inference
 *
 * A transport is four functions: open, send, receive, close, with time limits, and a clock. Any fault (a damaged
 * message, another plan, a lost device) ends the inference and all connections; the node reports it to the coordinator
 * if that can still be reached, and waits for the next connection. Nothing is allocated, nothing is global.
 *
 * A message is a header of 32 bytes and up to 1,400 of payload, little endian:
 *     0 u16 0xF75E     2 u8 version    3 u8 kind    4 u16 bytes of payload    6 u16 sender, 0xFFFF for the coordinator
 *     8 u64 plan      16 u32 inference             20 u32 number on this connection, in this direction, from 0
 *    24 u32 item      28 u32 CRC-32 of header, these four bytes as zeros, and payload
 */
#ifndef TFLITE_FUSE_LINK_H_
#define TFLITE_FUSE_LINK_H_

#include <stdbool.h>

#include "tflite_fuse_worker.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TFLITE_FUSE_LINK_VERSION 1
#define TFLITE_FUSE_HEADER_BYTES 32
#define TFLITE_FUSE_SIGNATURE_BYTES 16 /* with a key: behind the payload, and counted with it */
#define TFLITE_FUSE_NONCE_BYTES 16
#define TFLITE_FUSE_FRAME_BYTES (TFLITE_FUSE_HEADER_BYTES + TFLITE_FUSE_PAYLOAD_BYTES + TFLITE_FUSE_SIGNATURE_BYTES)

/* ---- Messages ---- */

typedef enum {
  TFLITE_FUSE_HELLO = 1,   /* opens a connection; item: its wish, payload: a nonce of 16 bytes */
  TFLITE_FUSE_WELCOME = 2, /* reply to HELLO; item: inferences done, payload: a nonce of 16 bytes */
  TFLITE_FUSE_PEERS = 3,   /* from the coordinator; item: a worker to connect to, payload: its address */
  TFLITE_FUSE_READY = 4,   /* from the coordinator; returned when item connections to workers exist */
  TFLITE_FUSE_START = 5,   /* from the coordinator: an inference; item: 0, or QUIET; payload: u32 limit in ms */
  TFLITE_FUSE_DATA = 6,    /* values; item: number of the sender's message to the receiver in this inference */
  TFLITE_FUSE_STEP = 7,    /* to the coordinator; item: a computed step, payload: u32 microseconds */
  TFLITE_FUSE_ERROR = 8    /* the sender ends the connection; item: fault | device at fault << 16, 0xFFFE for itself */
} tflite_fuse_message_kind;

/* START's item: no STEP messages are sent. */
#define TFLITE_FUSE_QUIET 1

/* Purpose of a connection. An opener with a key adds TFLITE_FUSE_KEYED. */
typedef enum {
  TFLITE_FUSE_RUN = 1,
  TFLITE_FUSE_PEER = 2,
  TFLITE_FUSE_STATUS = 3,
  TFLITE_FUSE_KEYED = 256
} tflite_fuse_wish;

/* Why a connection ends. The numbers are sent in messages. */
typedef enum {
  TFLITE_FUSE_LINK_OK = 0,
  TFLITE_FUSE_LINK_LOST = 1,
  TFLITE_FUSE_LINK_LATE = 2,
  TFLITE_FUSE_LINK_DAMAGED = 3,
  TFLITE_FUSE_LINK_OTHER = 4,
  TFLITE_FUSE_LINK_PLAN = 5,
  TFLITE_FUSE_LINK_ORDER = 6,
  TFLITE_FUSE_LINK_KEY = 7,
  TFLITE_FUSE_LINK_BUSY = 8,
  TFLITE_FUSE_LINK_STRANGER = 9,
  TFLITE_FUSE_LINK_COMPUTE = 10,
  TFLITE_FUSE_LINK_MORE = 256 /* no fault: bytes are missing */
} tflite_fuse_fault;

typedef struct {
  uint64_t plan;
  uint32_t inference;
  uint32_t sequence;
  uint32_t item;
  int16_t sender;
  uint16_t bytes; /* of the payload, which follows the header */
  uint8_t kind;
} tflite_fuse_message_head;

/* Completes a frame whose payload is already behind the header. frame: aligned to 4. Returns the frame's bytes. */
size_t tflite_fuse_frame_write(uint8_t* frame, const tflite_fuse_message_head* head);

/* Finds messages in a stream of bytes, however it is cut up. Put at most `wants` bytes at frame + held, then add them
 * to held:
 *
 *     size = receive(parser.frame + parser.held, tflite_fuse_parser_wants(&parser));
 *     parser.held += size;
 *     while ((fault = tflite_fuse_parser_next(&parser, &head)) != TFLITE_FUSE_LINK_MORE) ... */
typedef struct {
  uint8_t* frame; /* TFLITE_FUSE_FRAME_BYTES, aligned to 4; a message's payload is at frame + 32 */
  uint16_t held;
  uint16_t used; /* bytes of the last message found */
  uint16_t room; /* bytes of the frame; the library's own */
} tflite_fuse_parser;

/* Returns how many bytes to read next: never beyond the end of a message. At least 1 after LINK_MORE. */
size_t tflite_fuse_parser_wants(const tflite_fuse_parser* parser);

/* Returns LINK_OK for the next message, which is in the frame until the next call; LINK_MORE; or a fault for each byte
 * at which no message can begin (that byte is skipped). */
tflite_fuse_fault tflite_fuse_parser_next(tflite_fuse_parser* parser, tflite_fuse_message_head* head);

/* ---- Transports ---- */

/* Streams are numbered by the transport, from 0. All return a negative number if the stream is lost. */
typedef struct {
  void* user;
  /* Returns with an address ("host:port", not terminated) a stream to the device that listens there; without (NULL) one
   * that another device opened. TFLITE_FUSE_NO_STREAM if there is none in time. */
  int (*open)(void* user, const char* address, size_t address_bytes, uint32_t milliseconds);
  /* Sends all bytes, or the stream is lost. */
  int (*send)(void* user, int stream, const void* data, size_t bytes, uint32_t milliseconds);
  /* Returns the number of bytes received, at most `bytes`; 0: none in time. */
  int (*receive)(void* user, int stream, void* data, size_t bytes, uint32_t milliseconds);
  void (*close)(void* user, int stream);
  /* Returns a clock that never stops and wraps around. */
  uint32_t (*microseconds)(void* user);
  /* Writes unpredictable bytes; returns 0 on success. NULL without such a source: then there can be no key. */
  int (*random)(void* user, void* data, size_t bytes);
} tflite_fuse_transport;

#define TFLITE_FUSE_NO_STREAM (-1)

/* ---- A worker among others ---- */

/* A connection. Fields are the library's own. */
typedef struct {
  int stream;
  int16_t peer;
  uint32_t sent, received;
  bool open;
  bool is_signed;
} tflite_fuse_session;

/* Most connections with an incomplete handshake: a further one ends the oldest. A serial line has one at a time. */
#ifndef TFLITE_FUSE_GUESTS
#if defined(ESP_PLATFORM) || defined(__linux__) || defined(__APPLE__)
#define TFLITE_FUSE_GUESTS 4
#else
#define TFLITE_FUSE_GUESTS 2
#endif
#endif

#define TFLITE_FUSE_GREETING_BYTES (TFLITE_FUSE_HEADER_BYTES + TFLITE_FUSE_NONCE_BYTES)

/* A connection whose handshake is incomplete. Fields are the library's own. */
typedef struct {
  tflite_fuse_session session;
  uint32_t start; /* time when the stream was opened */
  uint16_t wish;  /* of its HELLO; 0 before that */
  uint16_t held;  /* bytes of the message being read */
  uint8_t bytes[TFLITE_FUSE_GREETING_BYTES];
} tflite_fuse_guest;

/* Signs and checks messages (tflite_fuse_key.h). */
typedef struct tflite_fuse_guard tflite_fuse_guard;

/* Fields are the library's own. */
typedef struct {
  tflite_fuse_worker* worker;
  const tflite_fuse_transport* transport;
  tflite_fuse_session* sessions; /* the coordinator's first */
  tflite_fuse_guest guests[TFLITE_FUSE_GUESTS];
  tflite_fuse_parser parser;
  tflite_fuse_identity identity;
  uint32_t inference;  /* number of the last one on this connection */
  uint32_t inferences; /* number of inferences done */
  tflite_fuse_guard* guard; /* NULL without a key */
  uint16_t session_count;
  bool is_quiet;
} tflite_fuse_node;

/* Without a key (tflite_fuse_key.h) every device that reaches the node can use it: a board's documentation must say so.
 *
 * A connection is served once its handshake is complete. Handshakes are read as their bytes come: a silent connection
 * delays nothing, and is closed after two seconds, or when TFLITE_FUSE_GUESTS newer ones came.
 *
 * worker: open. frame: TFLITE_FUSE_FRAME_BYTES, aligned to 4. sessions: one for the coordinator and one for each peer
 * worker. All must outlive the node. */
void tflite_fuse_node_open(tflite_fuse_node* node, tflite_fuse_worker* worker, const tflite_fuse_transport* transport,
                           uint8_t* frame, tflite_fuse_session* sessions, uint16_t session_count);

/* Waits at most so long for a connection, a message or a whole inference, and handles it. Returns the fault that ended
 * the coordinator's connection, else LINK_OK. */
tflite_fuse_fault tflite_fuse_node_serve(tflite_fuse_node* node, uint32_t milliseconds);

#ifdef __cplusplus
}
#endif

#endif
