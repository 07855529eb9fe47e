/* Runs inferences with the workers of a split on a microcontroller: `tflite-fuse cluster run` in C.
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
 * Operators that no fused block holds run on no microcontroller: tflite_fuse_worker_open refuses such a fragment. A
 * failed inference ends all connections and names the device at fault; the next one opens new connections, so a
 * restarted worker is found again. Nothing is allocated, nothing is global. */
#ifndef TFLITE_FUSE_COORDINATOR_H_
#define TFLITE_FUSE_COORDINATOR_H_

#include "tflite_fuse_link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A worker that takes part. */
typedef struct {
  int16_t worker;
  const char* address; /* in the transport's form */
  const char* listens; /* its address for other workers; NULL if none connects to it */
} tflite_fuse_contact;

/* Workers with a connection to each other: the opener, and the other one. */
typedef struct {
  int16_t from, to;
} tflite_fuse_dial;

/* Result of an inference, and the device at fault: a worker's number, or TFLITE_FUSE_COORDINATOR. */
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

/* machine: open, of the coordinator's fragment. frame: TFLITE_FUSE_FRAME_BYTES, aligned to 4. sessions: one for each
 * contact. All must outlive the coordinator. */
void tflite_fuse_coordinator_open(tflite_fuse_coordinator* coordinator, tflite_fuse_worker* machine,
                                  const tflite_fuse_transport* transport, uint8_t* frame, tflite_fuse_session* sessions,
                                  const tflite_fuse_contact* contacts, uint16_t contact_count,
                                  const tflite_fuse_dial* dials, uint16_t dial_count);

/* Runs an inference on the inputs at tflite_fuse_worker_input; opens missing connections first. milliseconds: limit of
 * the inference, and of connecting before it. */
tflite_fuse_verdict tflite_fuse_coordinator_infer(tflite_fuse_coordinator* coordinator, uint32_t milliseconds);

/* Ends all connections; the workers wait for the next ones. */
void tflite_fuse_coordinator_close(tflite_fuse_coordinator* coordinator);

/* Returns the end of a sentence that begins with the device at fault, such as "worker 3 ". */
const char* tflite_fuse_link_message(tflite_fuse_fault fault);

#ifdef __cplusplus
}
#endif

#endif
