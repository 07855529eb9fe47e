/* A worker's connections: who is there, what they say, and the inference they make together. */
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

/* Room for a connection with a worker: the one it has, or a free one. */
static tflite_fuse_session* room_for(tflite_fuse_node* node, int16_t peer) {
  tflite_fuse_session* found = session_with(node, peer);
  for (uint16_t i = 1; i < node->session_count && found == NULL; ++i) {
    if (!node->sessions[i].open) {
      found = &node->sessions[i];
    }
  }
  return found;
}

/* What a guest may not have, before it is answered. */
static tflite_fuse_fault objection(tflite_fuse_node* node, int16_t peer, const tflite_fuse_message_head* hello) {
  const uint32_t wish = hello->item & ~(uint32_t)TFLITE_FUSE_KEYED;
  if (hello->kind != TFLITE_FUSE_HELLO || hello->bytes != TFLITE_FUSE_NONCE_BYTES) {
    return TFLITE_FUSE_LINK_ORDER;
  }
  if ((hello->item != wish) != (node->guard != NULL)) {
    return TFLITE_FUSE_LINK_KEY;
  }
  if (wish == TFLITE_FUSE_PEER) {
    const bool is_awaited = node->sessions[0].open && peer != TFLITE_FUSE_COORDINATOR && room_for(node, peer) != NULL;
    return is_awaited ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_STRANGER;
  }
  return peer == TFLITE_FUSE_COORDINATOR ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_STRANGER;
}

/* Whoever said hello is served, or told why not. The message is the guest's first and is checked but for its kind. Nobody is
 * disturbed before the guest has shown that it has the key, if there is one. */
static void admit(tflite_fuse_node* node, tflite_fuse_session guest, const tflite_fuse_message_head* hello) {
  const uint32_t wish = hello->item & ~(uint32_t)TFLITE_FUSE_KEYED;
  tflite_fuse_fault fault = objection(node, guest.peer, hello);
  tflite_fuse_session* place = &node->sessions[0];
  if (fault == TFLITE_FUSE_LINK_OK) {
    fault = tflite_fuse_session_welcome(node, &guest, wish);
  }
  if (fault != TFLITE_FUSE_LINK_OK) {
    tflite_fuse_session_refuse(node, &guest, own(fault));
    return;
  }
  if (wish == TFLITE_FUSE_RUN) {
    /* It was restarted, or somebody else takes over. */
    tflite_fuse_session_refuse(node, place, own(TFLITE_FUSE_LINK_BUSY));
    close_all(node);
    node->inference = 0;
  } else if (wish == TFLITE_FUSE_PEER) {
    place = room_for(node, guest.peer);
    tflite_fuse_session_close(node, place);
  } else {
    tflite_fuse_session_close(node, &guest);
    return;
  }
  tflite_fuse_session_move(node, &guest, place);
}

/* Somebody opened a stream. The frame is free. */
static void greet(tflite_fuse_node* node, int stream) {
  tflite_fuse_message_head head;
  tflite_fuse_session guest = {stream, 0, 0, 0, true, false};
  start_reading(node);
  tflite_fuse_fault fault = tflite_fuse_session_read(node, &guest, &head, TFLITE_FUSE_HANDSHAKE_MS);
  if (fault == TFLITE_FUSE_LINK_OK) {
    guest.peer = head.sender;
    fault = tflite_fuse_session_check(node, &guest, &head);
  }
  if (fault == TFLITE_FUSE_LINK_OK) {
    admit(node, guest, &head);
  } else {
    tflite_fuse_session_refuse(node, &guest, own(fault == TFLITE_FUSE_LINK_MORE ? TFLITE_FUSE_LINK_LATE : fault));
  }
}

/* Lets in who is waiting, if no message is half read. */
static void let_in(tflite_fuse_node* node, uint32_t milliseconds) {
  if (node->parser.held == node->parser.used) {
    const int stream = node->transport->open(node->transport->user, NULL, 0, milliseconds);
    if (stream >= 0) {
      greet(node, stream);
    }
  }
}

/* Connects to a worker whose address is the payload in the frame. */
static outcome dial(tflite_fuse_node* node, const tflite_fuse_message_head* order) {
  const int16_t peer = (int16_t)order->item;
  tflite_fuse_session* place = room_for(node, peer);
  if (place == NULL || peer < 0 || order->item > INT16_MAX) {
    return own(TFLITE_FUSE_LINK_ORDER);
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
  start_reading(node);
  while (node->sessions[0].open && peers_open(node) < count) {
    if (milliseconds_since(node, start) > TFLITE_FUSE_HANDSHAKE_MS) {
      return own(TFLITE_FUSE_LINK_LATE);
    }
    let_in(node, SLICE_MS);
  }
  tflite_fuse_session* coordinator = &node->sessions[0];
  const tflite_fuse_fault fault =
      tflite_fuse_session_send(node, coordinator, TFLITE_FUSE_READY, 0, 0, 0, TFLITE_FUSE_HANDSHAKE_MS);
  return of_session(coordinator, fault);
}

/* ---- An inference ---- */

/* The message the worker waits for. Meanwhile others may be let in; a new coordinator ends this. */
static outcome receive_data(tflite_fuse_node* node, const tflite_fuse_event* event, uint32_t start, uint32_t patience) {
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
      if (milliseconds_since(node, start) > patience) {
        return of_session(session, TFLITE_FUSE_LINK_LATE);
      }
      let_in(node, 0);
      if (!session->open || session->stream != stream || node->inference == 0) {
        return own(TFLITE_FUSE_LINK_BUSY);
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
    return own(TFLITE_FUSE_LINK_COMPUTE);
  }
  return of_session(session, fault);
}

static outcome send_data(tflite_fuse_node* node, const tflite_fuse_event* event, uint32_t patience) {
  tflite_fuse_session* session = session_with(node, event->peer);
  if (session == NULL) {
    return (outcome){TFLITE_FUSE_LINK_LOST, (uint16_t)event->peer};
  }
  if (tflite_fuse_worker_payload(node->worker, payload_of(node)) != TFLITE_FUSE_OK) {
    return own(TFLITE_FUSE_LINK_COMPUTE);
  }
  const tflite_fuse_fault fault = tflite_fuse_session_send(node, session, TFLITE_FUSE_DATA, node->inference,
                                                           event->sequence, event->bytes, patience);
  (void)tflite_fuse_worker_sent(node->worker);
  return of_session(session, fault);
}

static outcome compute(tflite_fuse_node* node, const tflite_fuse_event* event, uint32_t patience) {
  const uint32_t start = now(node);
  if (tflite_fuse_worker_compute(node->worker) != TFLITE_FUSE_OK) {
    return own(TFLITE_FUSE_LINK_COMPUTE);
  }
  if (node->is_quiet) {
    return own(TFLITE_FUSE_LINK_OK);
  }
  const uint32_t took = now(node) - start;
  for (int i = 0; i < 4; ++i) {
    payload_of(node)[i] = (uint8_t)(took >> 8 * i);
  }
  tflite_fuse_session* coordinator = &node->sessions[0];
  const tflite_fuse_fault fault =
      tflite_fuse_session_send(node, coordinator, TFLITE_FUSE_STEP, node->inference, event->step, 4, patience);
  return of_session(coordinator, fault);
}

static outcome infer(tflite_fuse_node* node, uint32_t patience) {
  const uint32_t start = now(node);
  tflite_fuse_worker_begin(node->worker);
  start_reading(node);
  for (;;) {
    const tflite_fuse_event event = tflite_fuse_worker_next(node->worker);
    const uint32_t passed = milliseconds_since(node, start);
    outcome found = own(TFLITE_FUSE_LINK_LATE);
    if (event.kind == TFLITE_FUSE_FINISHED) {
      ++node->inferences;
      return own(TFLITE_FUSE_LINK_OK);
    }
    if (passed <= patience) {
      found = event.kind == TFLITE_FUSE_SEND      ? send_data(node, &event, patience - passed)
              : event.kind == TFLITE_FUSE_RECEIVE ? receive_data(node, &event, start, patience)
                                                  : compute(node, &event, patience - passed);
    }
    if (found.fault != TFLITE_FUSE_LINK_OK) {
      return found;
    }
  }
}

static outcome obey(tflite_fuse_node* node, const tflite_fuse_message_head* head) {
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
  return own(TFLITE_FUSE_LINK_ORDER);
}

tflite_fuse_fault tflite_fuse_node_serve(tflite_fuse_node* node, uint32_t milliseconds) {
  const uint32_t start = now(node);
  tflite_fuse_session* coordinator = &node->sessions[0];
  do {
    if (!coordinator->open) {
      let_in(node, milliseconds < SLICE_MS ? milliseconds : SLICE_MS);
      continue;
    }
    tflite_fuse_message_head head;
    const int stream = coordinator->stream;
    outcome found = of_session(coordinator, tflite_fuse_session_read(node, coordinator, &head, SLICE_MS));
    if (found.fault == TFLITE_FUSE_LINK_MORE) {
      let_in(node, 0);
      continue;
    }
    if (found.fault == TFLITE_FUSE_LINK_OK) {
      found = of_session(coordinator, tflite_fuse_session_check(node, coordinator, &head));
    }
    if (found.fault == TFLITE_FUSE_LINK_OK) {
      found = obey(node, &head);
    }
    if (found.fault == TFLITE_FUSE_LINK_BUSY || (coordinator->open && coordinator->stream != stream)) {
      return TFLITE_FUSE_LINK_BUSY; /* by now another one is served */
    }
    if (found.fault != TFLITE_FUSE_LINK_OK) {
      tflite_fuse_session_refuse(node, coordinator, found);
      close_all(node);
    }
    return found.fault;
  } while (milliseconds_since(node, start) < milliseconds);
  return TFLITE_FUSE_LINK_OK;
}
