/* One connection: messages out and in, each checked for its place among the others. */
#include "tflite_fuse_session.h"

#include <string.h>

void tflite_fuse_session_close(tflite_fuse_node* node, tflite_fuse_session* session) {
  if (session->open) {
    session->open = false;
    node->transport->close(node->transport->user, session->stream);
  }
}

tflite_fuse_fault tflite_fuse_session_send(tflite_fuse_node* node, tflite_fuse_session* session, uint8_t kind,
                                           uint32_t inference, uint32_t item, uint16_t bytes, uint32_t milliseconds) {
  const tflite_fuse_message_head head = {node->identity.plan, inference, session->sent++, item,
                                         node->identity.device, bytes,    kind};
  const size_t size = tflite_fuse_frame_write(node->parser.frame, &head);
  node->parser.held = 0; /* the frame holds one message, whichever way it goes */
  node->parser.used = 0;
  const tflite_fuse_transport* to = node->transport;
  const int sent = to->send(to->user, session->stream, node->parser.frame, size, milliseconds);
  return sent < 0 ? TFLITE_FUSE_LINK_LOST : TFLITE_FUSE_LINK_OK;
}

tflite_fuse_fault tflite_fuse_session_check(const tflite_fuse_node* node, tflite_fuse_session* session,
                                    const tflite_fuse_message_head* head) {
  if (head->sequence != session->received++) {
    return TFLITE_FUSE_LINK_ORDER;
  }
  if (head->sender != session->peer) {
    return TFLITE_FUSE_LINK_STRANGER;
  }
  return head->plan == node->identity.plan ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_PLAN;
}

tflite_fuse_fault tflite_fuse_session_read(tflite_fuse_node* node, tflite_fuse_session* session,
                                           tflite_fuse_message_head* head, uint32_t milliseconds) {
  tflite_fuse_parser* parser = &node->parser;
  tflite_fuse_fault fault = tflite_fuse_parser_next(parser, head);
  const uint32_t start = now(node);
  while (fault == TFLITE_FUSE_LINK_MORE) {
    const uint32_t passed = milliseconds_since(node, start);
    if (passed > milliseconds) {
      return TFLITE_FUSE_LINK_MORE;
    }
    const int size = node->transport->receive(node->transport->user, session->stream, parser->frame + parser->held,
                                              tflite_fuse_parser_wants(parser), milliseconds - passed);
    if (size < 0) {
      return TFLITE_FUSE_LINK_LOST;
    }
    if (size == 0) {
      return TFLITE_FUSE_LINK_MORE;
    }
    parser->held = (uint16_t)(parser->held + size);
    fault = tflite_fuse_parser_next(parser, head);
  }
  return fault;
}

tflite_fuse_fault tflite_fuse_session_receive(tflite_fuse_node* node, tflite_fuse_session* session,
                                         tflite_fuse_message_head* head, uint32_t milliseconds) {
  tflite_fuse_fault fault = tflite_fuse_session_read(node, session, head, milliseconds);
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = tflite_fuse_session_check(node, session, head);
  }
  return fault == TFLITE_FUSE_LINK_MORE ? TFLITE_FUSE_LINK_LATE : fault;
}

void tflite_fuse_session_refuse(tflite_fuse_node* node, tflite_fuse_session* session, outcome why) {
  if (session->open) {
    const uint32_t item = (uint32_t)why.fault | (uint32_t)why.device << 16;
    (void)tflite_fuse_session_send(node, session, TFLITE_FUSE_ERROR, 0, item, 0, TFLITE_FUSE_HANDSHAKE_MS);
    tflite_fuse_session_close(node, session);
  }
}

tflite_fuse_fault tflite_fuse_session_send_nonce(tflite_fuse_node* node, tflite_fuse_session* session, uint8_t kind,
                                                 uint32_t item) {
  memset(payload_of(node), 0, TFLITE_FUSE_NONCE_BYTES);
  if (node->transport->random != NULL) {
    (void)node->transport->random(node->transport->user, payload_of(node), TFLITE_FUSE_NONCE_BYTES);
  }
  return tflite_fuse_session_send(node, session, kind, 0, item, TFLITE_FUSE_NONCE_BYTES, TFLITE_FUSE_HANDSHAKE_MS);
}

tflite_fuse_fault tflite_fuse_session_hello(tflite_fuse_node* node, tflite_fuse_session* session, uint32_t wish,
                                            tflite_fuse_message_head* answer) {
  tflite_fuse_fault fault = tflite_fuse_session_send_nonce(node, session, TFLITE_FUSE_HELLO, wish);
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = tflite_fuse_session_receive(node, session, answer, TFLITE_FUSE_HANDSHAKE_MS);
  }
  if (fault == TFLITE_FUSE_LINK_OK && answer->kind != TFLITE_FUSE_WELCOME) {
    fault = answer->kind == TFLITE_FUSE_ERROR ? TFLITE_FUSE_LINK_STRANGER : TFLITE_FUSE_LINK_ORDER;
  }
  return fault;
}
