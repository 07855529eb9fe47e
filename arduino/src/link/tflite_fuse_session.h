/* One connection of a node: what is sent, read and checked. Inside the library. */
#ifndef TFLITE_FUSE_LINK_SESSION_H_
#define TFLITE_FUSE_LINK_SESSION_H_

#include "../tflite_fuse_key.h"

enum { TFLITE_FUSE_HANDSHAKE_MS = 2000, TFLITE_FUSE_OWN_FAULT = 0xFFFE };

/* What ended something, and whose fault it is. */
typedef struct {
  tflite_fuse_fault fault;
  uint16_t device;
} outcome;

static inline outcome own(tflite_fuse_fault fault) { return (outcome){fault, TFLITE_FUSE_OWN_FAULT}; }

static inline outcome of_session(const tflite_fuse_session* session, tflite_fuse_fault fault) {
  return (outcome){fault, fault == TFLITE_FUSE_LINK_OK ? (uint16_t)TFLITE_FUSE_OWN_FAULT : (uint16_t)session->peer};
}

static inline uint32_t now(const tflite_fuse_node* node) { return node->transport->microseconds(node->transport->user); }

static inline uint32_t milliseconds_since(const tflite_fuse_node* node, uint32_t start) {
  return (now(node) - start) / 1000;
}

static inline uint8_t* payload_of(tflite_fuse_node* node) { return node->parser.frame + TFLITE_FUSE_HEADER_BYTES; }

static inline void start_reading(tflite_fuse_node* node) {
  node->parser.held = 0;
  node->parser.used = 0;
}

void tflite_fuse_session_close(tflite_fuse_node* node, tflite_fuse_session* session);

/* Sends what lies in the frame behind the header. */
tflite_fuse_fault tflite_fuse_session_send(tflite_fuse_node* node, tflite_fuse_session* session, uint8_t kind,
                                           uint32_t inference, uint32_t item, uint16_t bytes, uint32_t milliseconds);

/* Reads on: LINK_MORE if the message is not complete within the time. */
tflite_fuse_fault tflite_fuse_session_read(tflite_fuse_node* node, tflite_fuse_session* session,
                                           tflite_fuse_message_head* head, uint32_t milliseconds);

/* A message's place among the others of its connection, and its signature, which is no part of head->bytes from then on. */
tflite_fuse_fault tflite_fuse_session_check(tflite_fuse_node* node, tflite_fuse_session* session,
                                            tflite_fuse_message_head* head);

/* Opens a connection over a stream that is there: HELLO, WELCOME and, with a key, HELLO again. */
tflite_fuse_fault tflite_fuse_session_hello(tflite_fuse_node* node, tflite_fuse_session* session, uint32_t wish,
                                            tflite_fuse_message_head* answer);

/* Answers the HELLO that lies in the frame. With a key the session is signed from now on, and the other end has yet to
 * say HELLO again. */
tflite_fuse_fault tflite_fuse_session_welcome(tflite_fuse_node* node, tflite_fuse_session* session);

/* One session takes the place of another one. */
void tflite_fuse_session_move(tflite_fuse_node* node, const tflite_fuse_session* from, tflite_fuse_session* to);

/* A whole message, checked. */
tflite_fuse_fault tflite_fuse_session_receive(tflite_fuse_node* node, tflite_fuse_session* session,
                                              tflite_fuse_message_head* head, uint32_t milliseconds);

/* Says why, and closes. */
void tflite_fuse_session_refuse(tflite_fuse_node* node, tflite_fuse_session* session, outcome why);

#endif
