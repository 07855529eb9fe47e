/* Makes inferences with the workers of a split, as one of the microcontrollers: `tflite-fuse cluster run` in C.
 *
 *     tflite_fuse_worker machine;    // opened with the coordinator's fragment
 *     static const tflite_fuse_contact contacts[] = {{0, "192.168.1.5:7000", NULL},
 *                                                    {1, "192.168.1.6:7000", "192.168.1.6:7000"}};
 *     static const tflite_fuse_dial dials[] = {{0, 1}};
 *     tflite_fuse_coordinator_open(&coordinator, &machine, &transport, frame, sessions, contacts, 2, dials, 1);
 *     ...
 *     memcpy(tflite_fuse_worker_input(&machine, 0, &bytes), image, bytes);
 *     const tflite_fuse_verdict end = tflite_fuse_coordinator_infer(&coordinator, 5000);
 *     if (end.fault == TFLITE_FUSE_LINK_OK) use(tflite_fuse_worker_output(&machine, 0, &bytes));
 *
 * Operators that no fused block holds run at no microcontroller: tflite_fuse_worker_open refuses such a fragment. An inference
 * that fails ends all connections and names who is to blame; the next one begins with new connections, so that a worker that
 * was restarted is found again. Nothing is allocated, nothing is global. */
#ifndef TFLITE_FUSE_COORDINATOR_H_
#define TFLITE_FUSE_COORDINATOR_H_

#include "tflite_fuse_link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A worker that takes part. */
typedef struct {
  int16_t worker;
  const char* address; /* as the transport understands it */
  const char* listens; /* where other workers find it, if any looks for it */
} tflite_fuse_contact;

/* Workers that talk to each other: who opens the connection, to whom. */
typedef struct {
  int16_t from, to;
} tflite_fuse_dial;

/* How an inference ended, and whose fault it is: a worker's number, or TFLITE_FUSE_COORDINATOR. */
typedef struct {
  tflite_fuse_fault fault;
  int16_t worker;
} tflite_fuse_verdict;

/* Fields are the library's own. */
typedef struct {
  tflite_fuse_node node;
  const tflite_fuse_contact* contacts;
  const tflite_fuse_dial* dials;
  uint16_t dial_count;
  bool is_connected;
} tflite_fuse_coordinator;

/* machine: open, of the coordinator's fragment. frame: TFLITE_FUSE_FRAME_BYTES, aligned to 4. sessions: one for each contact.
 * All must outlive the coordinator. */
void tflite_fuse_coordinator_open(tflite_fuse_coordinator* coordinator, tflite_fuse_worker* machine,
                                  const tflite_fuse_transport* transport, uint8_t* frame, tflite_fuse_session* sessions,
                                  const tflite_fuse_contact* contacts, uint16_t contact_count,
                                  const tflite_fuse_dial* dials, uint16_t dial_count);

/* From the inputs, which lie where tflite_fuse_worker_input says, to the outputs; connects first where nothing is connected.
 * milliseconds: an inference may take, and as long again to connect. */
tflite_fuse_verdict tflite_fuse_coordinator_infer(tflite_fuse_coordinator* coordinator, uint32_t milliseconds);

/* Ends all connections; the workers wait for the next ones. */
void tflite_fuse_coordinator_close(tflite_fuse_coordinator* coordinator);

/* What is to be said of who is to blame, behind "worker 3 ". */
const char* tflite_fuse_link_message(tflite_fuse_fault fault);

#ifdef __cplusplus
}
#endif

#endif
