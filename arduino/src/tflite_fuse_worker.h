/* One of several microcontrollers that run a model together: executes its fragment of the plan.
 *
 * `tflite-fuse split` writes a fragment for each worker (schemas/fragment.fbs): what it computes, receives and sends, in
 * order, and where everything lies in one buffer. A worker reads it in place, from flash, and knows no network. It says
 * what comes next; whoever drives it moves the messages:
 *
 *     static _Alignas(16) uint8_t buffer[BUFFER_BYTES];
 *     tflite_fuse_worker worker;
 *     tflite_fuse_status status = tflite_fuse_worker_open(&worker, fragment, fragment_bytes, buffer, sizeof(buffer));
 *     ...
 *     tflite_fuse_worker_begin(&worker);
 *     for (;;) {
 *       const tflite_fuse_event event = tflite_fuse_worker_next(&worker);
 *       switch (event.kind) {
 *         case TFLITE_FUSE_SEND:     // a message to event.peer
 *           tflite_fuse_worker_payload(&worker, payload);
 *           send(event.peer, event.sequence, payload, event.bytes);
 *           status = tflite_fuse_worker_sent(&worker);
 *           break;
 *         case TFLITE_FUSE_RECEIVE:  // the message from event.peer with this sequence number and size
 *           receive(event.peer, event.sequence, payload, event.bytes);
 *           status = tflite_fuse_worker_received(&worker, payload, event.bytes);
 *           break;
 *         case TFLITE_FUSE_COMPUTE:  // a block, or copies
 *           status = tflite_fuse_worker_compute(&worker);
 *           break;
 *         case TFLITE_FUSE_FINISHED: // the inference is done
 *           return;
 *       }
 *     }
 *
 * Every device goes through its messages in the order of the whole plan. So devices that wait for each other, one message
 * at a time, never wait in a circle, and the messages of one sender to one receiver arrive in the order they are asked
 * for. The payload is copied, so a damaged message never reaches the buffer, and one frame's memory is enough.
 *
 * Nothing is allocated, nothing is global. `begin` may be called at any time: it drops the inference that is under way.
 */
#ifndef TFLITE_FUSE_WORKER_H_
#define TFLITE_FUSE_WORKER_H_

#include "tflite_fuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device that hands in the inputs and gets the outputs, as a peer. Workers count from 0. */
#define TFLITE_FUSE_COORDINATOR (-1)

/* Bytes of a message's payload at most; every message but the last of a transfer has so many. */
#define TFLITE_FUSE_PAYLOAD_BYTES 1400

typedef enum {
  TFLITE_FUSE_SEND = 1,
  TFLITE_FUSE_RECEIVE = 2,
  TFLITE_FUSE_COMPUTE = 3,
  TFLITE_FUSE_FINISHED = 4
} tflite_fuse_event_kind;

/* What comes next. */
typedef struct {
  tflite_fuse_event_kind kind;
  int16_t peer;      /* SEND, RECEIVE: the other device */
  uint16_t bytes;    /* SEND, RECEIVE: of the payload, 1 ... TFLITE_FUSE_PAYLOAD_BYTES */
  uint32_t sequence; /* SEND, RECEIVE: number of the message among those from its sender to its receiver in one inference */
  uint32_t step;     /* number of the step in the fragment, for people */
} tflite_fuse_event;

/* A worker. Fields are the library's own; it refers to the fragment and the buffer it was opened with. Opened, it has
 * nothing to do until `begin`. */
typedef struct {
  const uint8_t* fragment;
  uint8_t* buffer;
  uint32_t step;
  uint32_t done; /* bytes of the step's transfer in messages before */
} tflite_fuse_worker;

/* Who a fragment is for, and which plan it is of. */
typedef struct {
  uint64_t plan;         /* all devices of a plan have the same number here, those of another plan another one */
  int16_t device;        /* this one's number; TFLITE_FUSE_COORDINATOR if it is the coordinator's */
  uint16_t workers;      /* how many there are beside the coordinator */
  uint32_t buffer_bytes; /* of the buffer it needs */
} tflite_fuse_identity;

/* Checks a fragment once and for all: after TFLITE_FUSE_OK no call reads or writes outside fragment, buffer and payload,
 * whatever the fragment holds.
 *
 * fragment: aligned to 16. buffer: aligned to 16, at least as large as the plan says. Both must outlive the worker. */
tflite_fuse_status tflite_fuse_worker_open(tflite_fuse_worker* worker, const void* fragment, size_t fragment_bytes,
                                           void* buffer, size_t buffer_bytes);

/* After TFLITE_FUSE_NO_OPERATOR, and only then: the number of that operator in the model. */
uint32_t tflite_fuse_worker_operator(const tflite_fuse_worker* worker);

/* Does nothing, but a program that calls it has the kernels of layers that are cut by their input channels, 0.9 KiB of
 * Thumb code. Where a linker takes from a library only what is asked for, it leaves them out of others: such a fragment
 * is refused there, as one with a stage of unknown kind. */
void tflite_fuse_worker_bring_sums(void);

/* One sentence for people. */
const char* tflite_fuse_worker_message(tflite_fuse_status status);

/* Of an open worker. */
tflite_fuse_identity tflite_fuse_worker_identity(const tflite_fuse_worker* worker);

/* The next inference, from its first step on. */
void tflite_fuse_worker_begin(tflite_fuse_worker* worker);

/* What comes next. */
tflite_fuse_event tflite_fuse_worker_next(const tflite_fuse_worker* worker);

/* SEND: copies the message's payload out, as often as it is asked for. */
tflite_fuse_status tflite_fuse_worker_payload(const tflite_fuse_worker* worker, void* payload);

/* SEND: the message is on its way. */
tflite_fuse_status tflite_fuse_worker_sent(tflite_fuse_worker* worker);

/* RECEIVE: the message is here. Of another size it is refused, and the worker goes on waiting. */
tflite_fuse_status tflite_fuse_worker_received(tflite_fuse_worker* worker, const void* payload, size_t bytes);

/* COMPUTE: runs a block at most, and copies what is to be copied before and behind it. */
tflite_fuse_status tflite_fuse_worker_compute(tflite_fuse_worker* worker);

/* A coordinator's inputs and outputs lie in its buffer: where, or NULL if there is none with that number. Inputs are written
 * behind `begin`, outputs read when the inference is finished. */
void* tflite_fuse_worker_input(const tflite_fuse_worker* worker, uint32_t number, uint32_t* bytes);
const void* tflite_fuse_worker_output(const tflite_fuse_worker* worker, uint32_t number, uint32_t* bytes);

#ifdef __cplusplus
}
#endif

#endif
