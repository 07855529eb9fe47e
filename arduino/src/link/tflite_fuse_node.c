/* Serves a worker's connections: handshakes, the coordinator, other workers, and inferences with them. */
#include <string.h>

#include "tflite_fuse_session.h"

enum { SLICE_MS = 20 };

/* ---- All connections ---- */

void tflite_fuse_node_open(tflite_fuse_node* node, tflite_fuse_worker* worker, const tflite_fuse_transport* transport,
                           uint8_t* frame, tflite_fuse_session* sessions, uint16_t session_count) {
  memset(node, 0, sizeof(*node));
  memset(sessions, 0, sizeof(*sessions) * session_count);
  node->worker = worker;
  node->transport = transport;
  node->sessions = sessions;
  node->session_count = session_count;
  node->identity = tflite_fuse_worker_identity(worker);
  node->parser.frame = frame;
  node->parser.room = TFLITE_FUSE_FRAME_BYTES;
}

static void close_all(tflite_fuse_node* node) {
  for (uint16_t i = 0; i < node->session_count; ++i) {
    tflite_fuse_session_close(node, &node->sessions[i]);
  }
  start_reading(node);
}

static uint32_t peers_open(const tflite_fuse_node* node) {
  uint32_t count = 0;
  for (uint16_t i = 1; i < node->session_count; ++i) {
    count += node->sessions[i].open;
  }
  return count;
}

static tflite_fuse_session* session_with(tflite_fuse_node* node, int16_t peer) {
  for (uint16_t i = 0; i < node->session_count; ++i) {
    if (node->sessions[i].open && node->sessions[i].peer == peer) {
      return &node->sessions[i];
    }
  }
  return NULL;
}

/* Returns a session for a worker: its open one, or a free one. */
static tflite_fuse_session* session_for(tflite_fuse_node* node, int16_t peer) {
  tflite_fuse_session* session = session_with(node, peer);
  for (uint16_t i = 1; i < node->session_count && session == NULL; ++i) {
    if (!node->sessions[i].open) {
      session = &node->sessions[i];
    }
  }
  return session;
}

/* ---- Guests: connections whose handshake is incomplete ---- */

/* Returns whether a device's connection is allowed now. Other workers connect only before the first inference. */
static bool is_awaited(tflite_fuse_node* node, int16_t peer, uint32_t wish) {
  if (wish != TFLITE_FUSE_PEER) {
    return peer == TFLITE_FUSE_COORDINATOR;
  }
  return node->sessions[0].open && node->inference == 0 && peer != TFLITE_FUSE_COORDINATOR &&
         session_for(node, peer) != NULL;
}

/* Returns the fault of a guest's HELLO. */
static tflite_fuse_fault hello_fault(const tflite_fuse_node* node, const tflite_fuse_message_head* hello) {
  const uint32_t wish = hello->item & ~(uint32_t)TFLITE_FUSE_KEYED;
  if (hello->kind != TFLITE_FUSE_HELLO || hello->bytes != TFLITE_FUSE_NONCE_BYTES) {
    return TFLITE_FUSE_LINK_ORDER;
  }
  if ((hello->item != wish) != (node->guard != NULL)) {
    return TFLITE_FUSE_LINK_KEY;
  }
  return wish >= TFLITE_FUSE_RUN && wish <= TFLITE_FUSE_STATUS ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_STRANGER;
}

/* Reads a guest's handshake and replies to HELLO. Returns LINK_OK if it is complete, LINK_MORE if bytes are missing. */
static tflite_fuse_fault read_handshake(tflite_fuse_node* node, tflite_fuse_guest* guest, uint32_t milliseconds) {
  tflite_fuse_session* session = &guest->session;
  tflite_fuse_message_head head;
  tflite_fuse_fault fault = tflite_fuse_session_read(node, session, &head, milliseconds);
  if (fault == TFLITE_FUSE_LINK_OK && guest->wish == 0) {
    session->peer = head.sender;
  }
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = tflite_fuse_session_check(node, session, &head);
  }
  if (fault != TFLITE_FUSE_LINK_OK) {
    return fault;
  }
  if (guest->wish != 0) {
    const bool is_same = head.kind == TFLITE_FUSE_HELLO && head.item == guest->wish && head.bytes == 0;
    return is_same ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_ORDER;
  }
  fault = hello_fault(node, &head);
  if (fault == TFLITE_FUSE_LINK_OK) {
    guest->wish = (uint16_t)(head.item & ~(uint32_t)TFLITE_FUSE_KEYED);
    fault = is_awaited(node, session->peer, guest->wish) ? tflite_fuse_session_welcome(node, session)
                                                         : TFLITE_FUSE_LINK_STRANGER;
  }
  return fault == TFLITE_FUSE_LINK_OK && session->is_signed ? TFLITE_FUSE_LINK_MORE : fault;
}

/* Moves a guest with a complete handshake to a session of the node. */
static void admit(tflite_fuse_node* node, tflite_fuse_guest* guest) {
  tflite_fuse_session* place = &node->sessions[0];
  if (guest->wish == TFLITE_FUSE_STATUS) {
    tflite_fuse_session_close(node, &guest->session);
    return;
  }
  if (guest->wish == TFLITE_FUSE_RUN) {
    /* The coordinator was restarted, or another one takes over. */
    tflite_fuse_session_refuse(node, place, own_fault(TFLITE_FUSE_LINK_BUSY));
    close_all(node);
    node->inference = 0;
  } else {
    place = session_for(node, guest->session.peer);
    tflite_fuse_session_close(node, place);
  }
  tflite_fuse_session_move(node, &guest->session, place);
  guest->session.open = false;
}

/* Processes received bytes of a guest's handshake. Sessions are not affected before it is complete, which requires the
 * key if there is one. A guest receives at most two messages of 64 bytes, which a buffering transport sends without
 * waiting. */
static void serve_guest(tflite_fuse_node* node, tflite_fuse_guest* guest, uint32_t milliseconds) {
  _Alignas(4) uint8_t frame[TFLITE_FUSE_GREETING_BYTES + TFLITE_FUSE_SIGNATURE_BYTES];
  const tflite_fuse_parser parser = node->parser; /* may contain a part of a session's message */
  node->parser = (tflite_fuse_parser){frame, guest->held, 0, TFLITE_FUSE_GREETING_BYTES};
  memcpy(frame, guest->bytes, guest->held);
  tflite_fuse_fault fault = read_handshake(node, guest, milliseconds);
  if (fault == TFLITE_FUSE_LINK_OK && !is_awaited(node, guest->session.peer, guest->wish)) {
    fault = TFLITE_FUSE_LINK_STRANGER; /* the state may have changed since HELLO */
  }
  if (fault == TFLITE_FUSE_LINK_MORE && milliseconds_since(node, guest->start) > TFLITE_FUSE_HANDSHAKE_MS) {
    fault = TFLITE_FUSE_LINK_LATE;
  }
  if (fault != TFLITE_FUSE_LINK_OK && fault != TFLITE_FUSE_LINK_MORE) {
    tflite_fuse_session_refuse(node, &guest->session, own_fault(fault));
  }
  guest->held = node->parser.used == 0 ? node->parser.held : 0;
  memcpy(guest->bytes, frame, guest->held);
  node->parser = parser;
  if (fault == TFLITE_FUSE_LINK_OK) {
    admit(node, guest);
  }
}

/* Returns a place for a new guest: a free one, or the oldest guest's, which is closed. */
static tflite_fuse_guest* place_for_guest(tflite_fuse_node* node) {
  tflite_fuse_guest* oldest = &node->guests[0];
  for (uint16_t i = 1; i < TFLITE_FUSE_GUESTS && oldest->session.open; ++i) {
    tflite_fuse_guest* guest = &node->guests[i];
    if (!guest->session.open || now(node) - guest->start > now(node) - oldest->start) {
      oldest = guest;
    }
  }
  tflite_fuse_session_close(node, &oldest->session);
  return oldest;
}

/* Continues all handshakes and begins that of a newly opened stream. milliseconds: limit for all together. */
static void serve_guests(tflite_fuse_node* node, uint32_t milliseconds) {
  uint32_t waiting = 1;
  for (uint16_t i = 0; i < TFLITE_FUSE_GUESTS; ++i) {
    waiting += node->guests[i].session.open;
  }
  const uint32_t share = milliseconds / waiting;
  for (uint16_t i = 0; i < TFLITE_FUSE_GUESTS; ++i) {
    if (node->guests[i].session.open) {
      serve_guest(node, &node->guests[i], share);
    }
  }
  const int stream = node->transport->open(node->transport->user, NULL, 0, share);
  if (stream >= 0) { /* one per call, so earlier guests were read since they connected */
    tflite_fuse_guest* guest = place_for_guest(node);
    *guest = (tflite_fuse_guest){.session = {stream, 0, 0, 0, true, false}, .start = now(node)};
    serve_guest(node, guest, 0);
  }
}

/* ---- Connections of a coordinator ---- */

/* Connects to a worker whose address is the payload in the frame. */
static outcome dial(tflite_fuse_node* node, const tflite_fuse_message_head* order) {
  const int16_t peer = (int16_t)order->item;
  tflite_fuse_session* place = session_for(node, peer);
  if (place == NULL || peer < 0 || order->item > INT16_MAX) {
    return own_fault(TFLITE_FUSE_LINK_ORDER);
  }
  tflite_fuse_session_close(node, place);
  const char* address = (const char*)payload_of(node);
  const int stream = node->transport->open(node->transport->user, address, order->bytes, TFLITE_FUSE_HANDSHAKE_MS);
  if (stream < 0) {
    return (outcome){TFLITE_FUSE_LINK_LOST, (uint16_t)peer};
  }
  *place = (tflite_fuse_session){stream, peer, 0, 0, true, false};
  tflite_fuse_message_head head;
  start_reading(node);
  return of_session(place, tflite_fuse_session_hello(node, place, TFLITE_FUSE_PEER, &head));
}

static outcome wait_for_peers(tflite_fuse_node* node, uint32_t count) {
  const uint32_t start = now(node);
  tflite_fuse_session* coordinator = &node->sessions[0];
  const int stream = coordinator->stream;
  start_reading(node);
  while (peers_open(node) < count) {
    if (milliseconds_since(node, start) > TFLITE_FUSE_HANDSHAKE_MS) {
      return own_fault(TFLITE_FUSE_LINK_LATE);
    }
    serve_guests(node, SLICE_MS);
    if (coordinator->stream != stream) {
      return own_fault(TFLITE_FUSE_LINK_BUSY);
    }
  }
  const tflite_fuse_fault fault =
      tflite_fuse_session_send(node, coordinator, TFLITE_FUSE_READY, 0, 0, 0, TFLITE_FUSE_HANDSHAKE_MS);
  return of_session(coordinator, fault);
}

/* ---- An inference ---- */

/* Receives the message that the worker waits for. Guests are admitted meanwhile; a new coordinator ends the wait. */
static outcome receive_data(tflite_fuse_node* node, const tflite_fuse_event* event, uint32_t start, uint32_t limit) {
  tflite_fuse_session* session = session_with(node, event->peer);
  tflite_fuse_message_head head;
  tflite_fuse_fault fault = TFLITE_FUSE_LINK_MORE;
  if (session == NULL) {
    return (outcome){TFLITE_FUSE_LINK_LOST, (uint16_t)event->peer};
  }
  const int stream = session->stream;
  while (fault == TFLITE_FUSE_LINK_MORE) {
    fault = tflite_fuse_session_read(node, session, &head, SLICE_MS);
    if (fault == TFLITE_FUSE_LINK_MORE) {
      if (milliseconds_since(node, start) > limit) {
        return of_session(session, TFLITE_FUSE_LINK_LATE);
      }
      serve_guests(node, 0);
      if (!session->open || session->stream != stream || node->inference == 0) {
        return own_fault(TFLITE_FUSE_LINK_BUSY);
      }
    }
  }
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = tflite_fuse_session_check(node, session, &head);
  }
  if (fault == TFLITE_FUSE_LINK_OK && (head.kind != TFLITE_FUSE_DATA || head.inference != node->inference ||
                                        head.item != event->sequence || head.bytes != event->bytes)) {
    fault = TFLITE_FUSE_LINK_ORDER;
  }
  if (fault == TFLITE_FUSE_LINK_OK &&
      tflite_fuse_worker_received(node->worker, payload_of(node), head.bytes) != TFLITE_FUSE_OK) {
    return own_fault(TFLITE_FUSE_LINK_COMPUTE);
  }
  return of_session(session, fault);
}

static outcome send_data(tflite_fuse_node* node, const tflite_fuse_event* event, uint32_t limit) {
  tflite_fuse_session* session = session_with(node, event->peer);
  if (session == NULL) {
    return (outcome){TFLITE_FUSE_LINK_LOST, (uint16_t)event->peer};
  }
  if (tflite_fuse_worker_payload(node->worker, payload_of(node)) != TFLITE_FUSE_OK) {
    return own_fault(TFLITE_FUSE_LINK_COMPUTE);
  }
  const tflite_fuse_fault fault = tflite_fuse_session_send(node, session, TFLITE_FUSE_DATA, node->inference,
                                                           event->sequence, event->bytes, limit);
  (void)tflite_fuse_worker_sent(node->worker);
  return of_session(session, fault);
}

static outcome compute(tflite_fuse_node* node, const tflite_fuse_event* event, uint32_t limit) {
  const uint32_t start = now(node);
  if (tflite_fuse_worker_compute(node->worker) != TFLITE_FUSE_OK) {
    return own_fault(TFLITE_FUSE_LINK_COMPUTE);
  }
  if (node->is_quiet) {
    return own_fault(TFLITE_FUSE_LINK_OK);
  }
  const uint32_t elapsed = now(node) - start;
  for (int i = 0; i < 4; ++i) {
    payload_of(node)[i] = (uint8_t)(elapsed >> 8 * i);
  }
  tflite_fuse_session* coordinator = &node->sessions[0];
  const tflite_fuse_fault fault =
      tflite_fuse_session_send(node, coordinator, TFLITE_FUSE_STEP, node->inference, event->step, 4, limit);
  return of_session(coordinator, fault);
}

static outcome infer(tflite_fuse_node* node, uint32_t limit) {
  const uint32_t start = now(node);
  tflite_fuse_worker_begin(node->worker);
  start_reading(node);
  for (;;) {
    const tflite_fuse_event event = tflite_fuse_worker_next(node->worker);
    const uint32_t passed = milliseconds_since(node, start);
    outcome result = own_fault(TFLITE_FUSE_LINK_LATE);
    if (event.kind == TFLITE_FUSE_FINISHED) {
      ++node->inferences;
      return own_fault(TFLITE_FUSE_LINK_OK);
    }
    if (passed <= limit) {
      result = event.kind == TFLITE_FUSE_SEND      ? send_data(node, &event, limit - passed)
               : event.kind == TFLITE_FUSE_RECEIVE ? receive_data(node, &event, start, limit)
                                                   : compute(node, &event, limit - passed);
    }
    if (result.fault != TFLITE_FUSE_LINK_OK) {
      return result;
    }
  }
}

static outcome handle_order(tflite_fuse_node* node, const tflite_fuse_message_head* head) {
  const uint8_t* payload = payload_of(node);
  if (head->kind == TFLITE_FUSE_PEERS && node->inference == 0) {
    return dial(node, head);
  }
  if (head->kind == TFLITE_FUSE_READY && node->inference == 0) {
    return wait_for_peers(node, head->item);
  }
  if (head->kind == TFLITE_FUSE_START && head->inference > node->inference && head->bytes == 4) {
    node->inference = head->inference;
    node->is_quiet = head->item == TFLITE_FUSE_QUIET;
    const uint32_t high = (uint32_t)payload[2] | (uint32_t)payload[3] << 8;
    return infer(node, (uint32_t)payload[0] | (uint32_t)payload[1] << 8 | high << 16);
  }
  return own_fault(TFLITE_FUSE_LINK_ORDER);
}

tflite_fuse_fault tflite_fuse_node_serve(tflite_fuse_node* node, uint32_t milliseconds) {
  const uint32_t start = now(node);
  tflite_fuse_session* coordinator = &node->sessions[0];
  do {
    if (!coordinator->open) {
      serve_guests(node, milliseconds < SLICE_MS ? milliseconds : SLICE_MS);
      continue;
    }
    tflite_fuse_message_head head;
    const int stream = coordinator->stream;
    outcome result = of_session(coordinator, tflite_fuse_session_read(node, coordinator, &head, SLICE_MS));
    if (result.fault == TFLITE_FUSE_LINK_MORE) {
      serve_guests(node, 0);
      continue;
    }
    if (result.fault == TFLITE_FUSE_LINK_OK) {
      result = of_session(coordinator, tflite_fuse_session_check(node, coordinator, &head));
    }
    if (result.fault == TFLITE_FUSE_LINK_OK) {
      result = handle_order(node, &head);
    }
    if (result.fault == TFLITE_FUSE_LINK_BUSY || (coordinator->open && coordinator->stream != stream)) {
      return TFLITE_FUSE_LINK_BUSY; /* another coordinator has taken over */
    }
    if (result.fault != TFLITE_FUSE_LINK_OK) {
      tflite_fuse_session_refuse(node, coordinator, result);
      close_all(node);
    }
    return result.fault;
  } while (milliseconds_since(node, start) < milliseconds);
  return TFLITE_FUSE_LINK_OK;
}
