/* Declares one connection of a node: sending, receiving and checking messages. Private to the library. */
#ifndef TFLITE_FUSE_LINK_SESSION_H_
#define TFLITE_FUSE_LINK_SESSION_H_

#include "../tflite_fuse_key.h"

enum { TFLITE_FUSE_HANDSHAKE_MS = 2000, TFLITE_FUSE_OWN_FAULT = 0xFFFE };

/* A fault and the device at fault. */
typedef struct {
  tflite_fuse_fault fault;
  uint16_t device;
} outcome;

static inline outcome own_fault(tflite_fuse_fault fault) { return (outcome){fault, TFLITE_FUSE_OWN_FAULT}; }

static inline outcome of_session(const tflite_fuse_session* session, tflite_fuse_fault fault) {
  return (outcome){fault, fault == TFLITE_FUSE_LINK_OK ? (uint16_t)TFLITE_FUSE_OWN_FAULT : (uint16_t)session->peer};
}

static inline uint32_t now(const tflite_fuse_node* node) {
  return node->transport->microseconds(node->transport->user);
}

static inline uint32_t milliseconds_since(const tflite_fuse_node* node, uint32_t start) {
  return (now(node) - start) / 1000;
}

static inline uint8_t* payload_of(tflite_fuse_node* node) { return node->parser.frame + TFLITE_FUSE_HEADER_BYTES; }

static inline void start_reading(tflite_fuse_node* node) {
  node->parser.held = 0;
  node->parser.used = 0;
}

void tflite_fuse_session_close(tflite_fuse_node* node, tflite_fuse_session* session);

/* Sends the payload that is in the frame behind the header. */
tflite_fuse_fault tflite_fuse_session_send(tflite_fuse_node* node, tflite_fuse_session* session, uint8_t kind,
                                           uint32_t inference, uint32_t item, uint16_t bytes, uint32_t milliseconds);

/* Continues to read a message; LINK_MORE if it is not complete in time. */
tflite_fuse_fault tflite_fuse_session_read(tflite_fuse_node* node, tflite_fuse_session* session,
                                           tflite_fuse_message_head* head, uint32_t milliseconds);

/* Checks a message's number on its connection, and its signature, which head->bytes no longer includes afterwards. */
tflite_fuse_fault tflite_fuse_session_check(tflite_fuse_node* node, tflite_fuse_session* session,
                                            tflite_fuse_message_head* head);

/* Opens a connection over an open stream: HELLO, WELCOME and, with a key, HELLO again. */
tflite_fuse_fault tflite_fuse_session_hello(tflite_fuse_node* node, tflite_fuse_session* session, uint32_t wish,
                                            tflite_fuse_message_head* answer);

/* Replies to the HELLO in the frame. With a key the session is signed from now on, and the other end must send HELLO
 * again. */
tflite_fuse_fault tflite_fuse_session_welcome(tflite_fuse_node* node, tflite_fuse_session* session);

/* Moves a session to the place of another one. */
void tflite_fuse_session_move(tflite_fuse_node* node, const tflite_fuse_session* from, tflite_fuse_session* to);

/* Receives a whole message and checks it. */
tflite_fuse_fault tflite_fuse_session_receive(tflite_fuse_node* node, tflite_fuse_session* session,
                                              tflite_fuse_message_head* head, uint32_t milliseconds);

/* Sends the reason and closes. */
void tflite_fuse_session_refuse(tflite_fuse_node* node, tflite_fuse_session* session, outcome reason);

#endif
