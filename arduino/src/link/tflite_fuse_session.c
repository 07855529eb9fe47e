/* Runs one connection: sends and receives messages, each checked for its number. */
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
  tflite_fuse_message_head head = {node->identity.plan, inference, session->sent++, item,
                                   node->identity.device, bytes,    kind};
  if (session->is_signed) {
    head.bytes = (uint16_t)(bytes + TFLITE_FUSE_SIGNATURE_BYTES);
    if (!node->guard->sign(node, session, &head)) {
      return TFLITE_FUSE_LINK_KEY;
    }
  }
  const size_t size = tflite_fuse_frame_write(node->parser.frame, &head);
  node->parser.held = 0; /* the frame holds one message, outgoing or incoming */
  node->parser.used = 0;
  const tflite_fuse_transport* to = node->transport;
  const int sent = to->send(to->user, session->stream, node->parser.frame, size, milliseconds);
  return sent < 0 ? TFLITE_FUSE_LINK_LOST : TFLITE_FUSE_LINK_OK;
}

tflite_fuse_fault tflite_fuse_session_check(tflite_fuse_node* node, tflite_fuse_session* session,
                                            tflite_fuse_message_head* head) {
  if (head->sequence != session->received++) {
    return TFLITE_FUSE_LINK_ORDER;
  }
  if (head->sender != session->peer) {
    return TFLITE_FUSE_LINK_STRANGER;
  }
  if (session->is_signed) {
    if (!node->guard->is_sound(node, session, head)) {
      return TFLITE_FUSE_LINK_KEY;
    }
    head->bytes = (uint16_t)(head->bytes - TFLITE_FUSE_SIGNATURE_BYTES);
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
    const size_t wants = tflite_fuse_parser_wants(parser);
    if (wants > (size_t)(parser->room - parser->held)) {
      return TFLITE_FUSE_LINK_ORDER; /* longer than any message allowed now */
    }
    const int size = node->transport->receive(node->transport->user, session->stream, parser->frame + parser->held,
                                              wants, milliseconds - passed);
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

/* ---- Handshake ---- */

/* Draws 16 bytes that were never used before. Without a key the protocol does not depend on them. */
static bool draw_nonce(const tflite_fuse_node* node, uint8_t* nonce) {
  const tflite_fuse_transport* from = node->transport;
  memset(nonce, 0, TFLITE_FUSE_NONCE_BYTES);
  const bool drawn = from->random != NULL && from->random(from->user, nonce, TFLITE_FUSE_NONCE_BYTES) == 0;
  return drawn || node->guard == NULL;
}

static tflite_fuse_fault send_nonce(tflite_fuse_node* node, tflite_fuse_session* session, uint8_t kind, uint32_t item,
                                    const uint8_t* nonce) {
  memcpy(payload_of(node), nonce, TFLITE_FUSE_NONCE_BYTES);
  return tflite_fuse_session_send(node, session, kind, 0, item, TFLITE_FUSE_NONCE_BYTES, TFLITE_FUSE_HANDSHAKE_MS);
}

/* Returns the fault of the reply to HELLO. */
static tflite_fuse_fault fault_of(const tflite_fuse_message_head* answer) {
  if (answer->kind == TFLITE_FUSE_ERROR) {
    const uint32_t why = answer->item & 0xFFFF;
    return why == TFLITE_FUSE_LINK_KEY || why == TFLITE_FUSE_LINK_PLAN ? (tflite_fuse_fault)why
                                                                        : TFLITE_FUSE_LINK_STRANGER;
  }
  return answer->kind == TFLITE_FUSE_WELCOME && answer->bytes >= TFLITE_FUSE_NONCE_BYTES ? TFLITE_FUSE_LINK_OK
                                                                                          : TFLITE_FUSE_LINK_ORDER;
}

tflite_fuse_fault tflite_fuse_session_hello(tflite_fuse_node* node, tflite_fuse_session* session, uint32_t wish,
                                            tflite_fuse_message_head* answer) {
  uint8_t nonces[2 * TFLITE_FUSE_NONCE_BYTES];
  const uint32_t item = node->guard == NULL ? wish : wish | TFLITE_FUSE_KEYED;
  if (!draw_nonce(node, nonces)) {
    return TFLITE_FUSE_LINK_KEY;
  }
  tflite_fuse_fault fault = send_nonce(node, session, TFLITE_FUSE_HELLO, item, nonces);
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = tflite_fuse_session_read(node, session, answer, TFLITE_FUSE_HANDSHAKE_MS);
  }
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = fault_of(answer);
  }
  if (fault == TFLITE_FUSE_LINK_OK && node->guard != NULL) {
    memcpy(nonces + TFLITE_FUSE_NONCE_BYTES, payload_of(node), TFLITE_FUSE_NONCE_BYTES);
    fault = node->guard->agree(node, session, nonces, true) ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_KEY;
  }
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = tflite_fuse_session_check(node, session, answer);
  }
  if (fault == TFLITE_FUSE_LINK_OK && answer->bytes != TFLITE_FUSE_NONCE_BYTES) {
    fault = TFLITE_FUSE_LINK_KEY; /* signed, but this device has no key */
  }
  if (fault == TFLITE_FUSE_LINK_OK && session->is_signed) {
    fault = tflite_fuse_session_send(node, session, TFLITE_FUSE_HELLO, 0, wish, 0, TFLITE_FUSE_HANDSHAKE_MS);
  }
  return fault == TFLITE_FUSE_LINK_MORE ? TFLITE_FUSE_LINK_LATE : fault;
}

tflite_fuse_fault tflite_fuse_session_welcome(tflite_fuse_node* node, tflite_fuse_session* session) {
  uint8_t nonces[2 * TFLITE_FUSE_NONCE_BYTES];
  memcpy(nonces, payload_of(node), TFLITE_FUSE_NONCE_BYTES);
  if (!draw_nonce(node, nonces + TFLITE_FUSE_NONCE_BYTES) ||
      (node->guard != NULL && !node->guard->agree(node, session, nonces, false))) {
    return TFLITE_FUSE_LINK_KEY;
  }
  return send_nonce(node, session, TFLITE_FUSE_WELCOME, node->inferences, nonces + TFLITE_FUSE_NONCE_BYTES);
}

void tflite_fuse_session_move(tflite_fuse_node* node, const tflite_fuse_session* from, tflite_fuse_session* to) {
  if (from->is_signed) {
    node->guard->move(node, from, to);
  }
  *to = *from;
}
