/* Executes the fragment of one of several microcontrollers that run a model together.
 *
 * `tflite-fuse split` writes a fragment for each worker (schemas/fragment.fbs): its computations and messages in order,
 * and their places in one buffer. A worker reads it in place, from flash, and uses no network itself. It returns the
 * next event; its caller moves the messages:
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
 * Every device handles its messages in the order of the whole plan. So there is no deadlock if each waits for one
 * message at a time, and the messages of one sender to one receiver arrive in the expected order. The payload is
 * copied, so a damaged message never reaches the buffer, and one frame's memory is enough.
 *
 * Nothing is allocated, nothing is global. `begin` may be called at any time: it drops the current inference.
 */
#ifndef TFLITE_FUSE_WORKER_H_
#define TFLITE_FUSE_WORKER_H_

#include "tflite_fuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device that has the inputs and collects the outputs, as a peer. Workers count from 0. */
#define TFLITE_FUSE_COORDINATOR (-1)

/* Most bytes of a message's payload; every message but the last of a transfer has that many. */
#define TFLITE_FUSE_PAYLOAD_BYTES 1400

typedef enum {
  TFLITE_FUSE_SEND = 1,
  TFLITE_FUSE_RECEIVE = 2,
  TFLITE_FUSE_COMPUTE = 3,
  TFLITE_FUSE_FINISHED = 4
} tflite_fuse_event_kind;

/* The next event. */
typedef struct {
  tflite_fuse_event_kind kind;
  int16_t peer;      /* SEND, RECEIVE: the other device */
  uint16_t bytes;    /* SEND, RECEIVE: bytes of the payload, 1 ... TFLITE_FUSE_PAYLOAD_BYTES */
  uint32_t sequence; /* SEND, RECEIVE: number of the message from its sender to its receiver in this inference */
  uint32_t step;     /* number of the step in the fragment, for people */
} tflite_fuse_event;

/* A worker. Fields are the library's own; it refers to the fragment and the buffer it was opened with. Opened, it has
 * nothing to do until `begin`. */
typedef struct {
  const uint8_t* fragment;
  uint8_t* buffer;
  uint32_t step;
  uint32_t done; /* bytes of the step's transfer in earlier messages */
} tflite_fuse_worker;

/* The device and plan of a fragment. */
typedef struct {
  uint64_t plan;         /* number of the plan, the same for all its devices */
  int16_t device;        /* this one's number; TFLITE_FUSE_COORDINATOR if it is the coordinator's */
  uint16_t workers;      /* number of workers, without the coordinator */
  uint32_t buffer_bytes; /* bytes of the buffer that it needs */
} tflite_fuse_identity;

/* Checks a fragment once: after TFLITE_FUSE_OK no call accesses memory outside fragment, buffer and payload, for any
 * content of the fragment.
 *
 * fragment: aligned to 16. buffer: aligned to 16, of at least the plan's size. Both must outlive the worker. */
tflite_fuse_status tflite_fuse_worker_open(tflite_fuse_worker* worker, const void* fragment, size_t fragment_bytes,
                                           void* buffer, size_t buffer_bytes);

/* Returns the number of the operator in the model, only after TFLITE_FUSE_NO_OPERATOR. */
uint32_t tflite_fuse_worker_operator(const tflite_fuse_worker* worker);

/* Does nothing, but makes a linker include the kernels of layers that are cut by their input channels, 0.9 KiB of Thumb
 * code. Other programs lack them if their linker takes only used objects from a library, and refuse such a fragment as
 * one with a stage of unknown kind. */
void tflite_fuse_worker_bring_sums(void);

/* Returns one sentence for people. */
const char* tflite_fuse_worker_message(tflite_fuse_status status);

/* Returns the identity of an open worker. */
tflite_fuse_identity tflite_fuse_worker_identity(const tflite_fuse_worker* worker);

/* Begins the next inference at its first step. */
void tflite_fuse_worker_begin(tflite_fuse_worker* worker);

/* Returns the next event. */
tflite_fuse_event tflite_fuse_worker_next(const tflite_fuse_worker* worker);

/* SEND: copies the message's payload out; may be called repeatedly. */
tflite_fuse_status tflite_fuse_worker_payload(const tflite_fuse_worker* worker, void* payload);

/* SEND: reports that the message was sent. */
tflite_fuse_status tflite_fuse_worker_sent(tflite_fuse_worker* worker);

/* RECEIVE: hands over the received message. One of another size is refused, and the worker continues to wait. */
tflite_fuse_status tflite_fuse_worker_received(tflite_fuse_worker* worker, const void* payload, size_t bytes);

/* COMPUTE: runs at most one block, and performs the copies before and behind it. */
tflite_fuse_status tflite_fuse_worker_compute(tflite_fuse_worker* worker);

/* Return the place of a coordinator's input or output in its buffer, or NULL if there is none with that number. Inputs
 * are written after `begin`, outputs read when the inference is finished. */
void* tflite_fuse_worker_input(const tflite_fuse_worker* worker, uint32_t number, uint32_t* bytes);
const void* tflite_fuse_worker_output(const tflite_fuse_worker* worker, uint32_t number, uint32_t* bytes);

#ifdef __cplusplus
}
#endif

#endif
