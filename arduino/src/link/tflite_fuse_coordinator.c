/* Runs the coordinator's part of an inference: connects to all workers, then executes its own steps and
 * messages in order. */
#include "../tflite_fuse_coordinator.h"

#include <string.h>

#include "tflite_fuse_session.h"

enum { LATER_MS = 500 }; /* a worker waits longer than the coordinator, so the coordinator reports first */

static tflite_fuse_verdict verdict(tflite_fuse_fault fault, int16_t worker) {
  return (tflite_fuse_verdict){fault, worker};
}

static tflite_fuse_verdict no_fault(void) { return verdict(TFLITE_FUSE_LINK_OK, TFLITE_FUSE_COORDINATOR); }

static void put_u32(uint8_t* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) {
    at[i] = (uint8_t)(value >> 8 * i);
  }
}

static tflite_fuse_session* session_with(tflite_fuse_coordinator* coordinator, int16_t worker) {
  for (uint16_t i = 0; i < coordinator->node.session_count; ++i) {
    if (coordinator->contacts[i].worker == worker) {
      return &coordinator->node.sessions[i];
    }
  }
  return NULL;
}

void tflite_fuse_coordinator_close(tflite_fuse_coordinator* coordinator) {
  for (uint16_t i = 0; i < coordinator->node.session_count; ++i) {
    tflite_fuse_session_close(&coordinator->node, &coordinator->node.sessions[i]);
  }
  start_reading(&coordinator->node);
  coordinator->is_connected = false;
}

void tflite_fuse_coordinator_open(tflite_fuse_coordinator* coordinator, tflite_fuse_worker* machine,
                                  const tflite_fuse_transport* transport, uint8_t* frame, tflite_fuse_session* sessions,
                                  const tflite_fuse_contact* contacts, uint16_t contact_count,
                                  const tflite_fuse_dial* dials, uint16_t dial_count) {
  tflite_fuse_node_open(&coordinator->node, machine, transport, frame, sessions, contact_count);
  coordinator->contacts = contacts;
  coordinator->dials = dials;
  coordinator->dial_count = dial_count;
  coordinator->is_connected = false;
}

/* ---- Messages ---- */

static tflite_fuse_verdict send_message(tflite_fuse_coordinator* coordinator, tflite_fuse_session* session,
                                        uint8_t kind, uint32_t item, uint16_t bytes, uint32_t milliseconds) {
  const uint32_t inference = kind == TFLITE_FUSE_START || kind == TFLITE_FUSE_DATA ? coordinator->node.inference : 0;
  const tflite_fuse_fault fault =
      tflite_fuse_session_send(&coordinator->node, session, kind, inference, item, bytes, milliseconds);
  return verdict(fault, session->peer);
}

/* Returns the fault and the device at fault that a worker reports. */
static tflite_fuse_verdict reported_fault(const tflite_fuse_session* session, const tflite_fuse_message_head* head) {
  const uint32_t fault = head->item & 0xFFFF, device = head->item >> 16;
  if (fault < TFLITE_FUSE_LINK_LOST || fault > TFLITE_FUSE_LINK_COMPUTE) {
    return verdict(TFLITE_FUSE_LINK_DAMAGED, session->peer);
  }
  return verdict((tflite_fuse_fault)fault, device == TFLITE_FUSE_OWN_FAULT ? session->peer : (int16_t)(uint16_t)device);
}

/* Receives the next message of a worker, which must be of this kind. */
static tflite_fuse_verdict receive_kind(tflite_fuse_coordinator* coordinator, tflite_fuse_session* session,
                                        uint8_t kind, tflite_fuse_message_head* head, uint32_t milliseconds) {
  const tflite_fuse_fault fault = tflite_fuse_session_receive(&coordinator->node, session, head, milliseconds);
  if (fault == TFLITE_FUSE_LINK_OK && head->kind == TFLITE_FUSE_ERROR) {
    return reported_fault(session, head);
  }
  return verdict(fault == TFLITE_FUSE_LINK_OK && head->kind != kind ? TFLITE_FUSE_LINK_ORDER : fault, session->peer);
}

/* ---- Connections ---- */

static tflite_fuse_verdict open_session(tflite_fuse_coordinator* coordinator, uint16_t number, uint32_t milliseconds) {
  tflite_fuse_node* node = &coordinator->node;
  const tflite_fuse_contact* contact = &coordinator->contacts[number];
  tflite_fuse_session* session = &node->sessions[number];
  const int stream =
      node->transport->open(node->transport->user, contact->address, strlen(contact->address), milliseconds);
  if (stream < 0) {
    return verdict(TFLITE_FUSE_LINK_LOST, contact->worker);
  }
  *session = (tflite_fuse_session){.stream = stream, .peer = contact->worker, .open = true};
  tflite_fuse_message_head answer;
  start_reading(node);
  return verdict(tflite_fuse_session_hello(node, session, TFLITE_FUSE_RUN, &answer), contact->worker);
}

/* Returns the number of connections of a worker with others. */
static uint32_t connections_of(const tflite_fuse_coordinator* coordinator, int16_t worker) {
  uint32_t count = 0;
  for (uint16_t i = 0; i < coordinator->dial_count; ++i) {
    count += coordinator->dials[i].from == worker || coordinator->dials[i].to == worker;
  }
  return count;
}

static const char* address_of(const tflite_fuse_coordinator* coordinator, int16_t worker) {
  for (uint16_t i = 0; i < coordinator->node.session_count; ++i) {
    if (coordinator->contacts[i].worker == worker) {
      return coordinator->contacts[i].listens;
    }
  }
  return NULL;
}

static tflite_fuse_verdict send_peer_address(tflite_fuse_coordinator* coordinator, const tflite_fuse_dial* dial,
                                             uint32_t milliseconds) {
  tflite_fuse_session* session = session_with(coordinator, dial->from);
  const char* address = address_of(coordinator, dial->to);
  const size_t bytes = address == NULL ? 0 : strlen(address);
  if (session == NULL || bytes == 0 || bytes > TFLITE_FUSE_PAYLOAD_BYTES) {
    return verdict(TFLITE_FUSE_LINK_STRANGER, dial->from);
  }
  memcpy(payload_of(&coordinator->node), address, bytes);
  return send_message(coordinator, session, TFLITE_FUSE_PEERS, (uint32_t)dial->to, (uint16_t)bytes, milliseconds);
}

/* Waits until each worker has all its connections to other workers, or, if `own_only`, its completed connection to
 * this device. */
static tflite_fuse_verdict wait_for_workers(tflite_fuse_coordinator* coordinator, bool own_only,
                                            uint32_t milliseconds) {
  tflite_fuse_node* node = &coordinator->node;
  tflite_fuse_verdict result = no_fault();
  tflite_fuse_message_head head;
  for (int is_answer = 0; is_answer < 2; ++is_answer) {
    for (uint16_t i = 0; i < node->session_count && result.fault == TFLITE_FUSE_LINK_OK; ++i) {
      tflite_fuse_session* session = &node->sessions[i];
      const uint32_t count = connections_of(coordinator, session->peer);
      if (count != 0) {
        result = is_answer
                     ? receive_kind(coordinator, session, TFLITE_FUSE_READY, &head, milliseconds)
                     : send_message(coordinator, session, TFLITE_FUSE_READY, own_only ? 0 : count, 0, milliseconds);
      }
    }
  }
  return result;
}

/* Connects to all workers, then lets them connect to each other. */
static tflite_fuse_verdict connect_all(tflite_fuse_coordinator* coordinator, uint32_t milliseconds) {
  tflite_fuse_node* node = &coordinator->node;
  tflite_fuse_verdict result = no_fault();
  for (uint16_t i = 0; i < node->session_count && result.fault == TFLITE_FUSE_LINK_OK; ++i) {
    result = open_session(coordinator, i, milliseconds);
  }
  if (result.fault == TFLITE_FUSE_LINK_OK) {
    /* A worker refuses others before its handshake with the coordinator is complete. */
    result = wait_for_workers(coordinator, true, milliseconds);
  }
  for (uint16_t i = 0; i < coordinator->dial_count && result.fault == TFLITE_FUSE_LINK_OK; ++i) {
    result = send_peer_address(coordinator, &coordinator->dials[i], milliseconds);
  }
  if (result.fault == TFLITE_FUSE_LINK_OK) {
    result = wait_for_workers(coordinator, false, milliseconds);
  }
  coordinator->is_connected = result.fault == TFLITE_FUSE_LINK_OK;
  node->inference = 0;
  return result;
}

/* ---- An inference ---- */

static tflite_fuse_verdict transfer(tflite_fuse_coordinator* coordinator, const tflite_fuse_event* event,
                                    uint32_t milliseconds) {
  tflite_fuse_node* node = &coordinator->node;
  tflite_fuse_session* session = session_with(coordinator, event->peer);
  tflite_fuse_message_head head;
  tflite_fuse_status status = TFLITE_FUSE_OK;
  tflite_fuse_verdict result;
  if (session == NULL) {
    return verdict(TFLITE_FUSE_LINK_STRANGER, event->peer);
  }
  if (event->kind == TFLITE_FUSE_SEND) {
    status = tflite_fuse_worker_payload(node->worker, payload_of(node));
    result = send_message(coordinator, session, TFLITE_FUSE_DATA, event->sequence, event->bytes, milliseconds);
    if (result.fault == TFLITE_FUSE_LINK_OK && status == TFLITE_FUSE_OK) {
      status = tflite_fuse_worker_sent(node->worker);
    }
  } else {
    result = receive_kind(coordinator, session, TFLITE_FUSE_DATA, &head, milliseconds);
    if (result.fault == TFLITE_FUSE_LINK_OK && (head.inference != node->inference || head.item != event->sequence ||
                                                 head.bytes != event->bytes)) {
      result.fault = TFLITE_FUSE_LINK_ORDER;
    }
    if (result.fault == TFLITE_FUSE_LINK_OK) {
      status = tflite_fuse_worker_received(node->worker, payload_of(node), head.bytes);
    }
  }
  return status == TFLITE_FUSE_OK ? result : verdict(TFLITE_FUSE_LINK_COMPUTE, TFLITE_FUSE_COORDINATOR);
}

static tflite_fuse_verdict run_inference(tflite_fuse_coordinator* coordinator, uint32_t limit) {
  tflite_fuse_node* node = &coordinator->node;
  const uint32_t start = now(node);
  tflite_fuse_verdict result = no_fault();
  ++node->inference;
  for (uint16_t i = 0; i < node->session_count && result.fault == TFLITE_FUSE_LINK_OK; ++i) {
    put_u32(payload_of(node), limit < UINT32_MAX - LATER_MS ? limit + LATER_MS : UINT32_MAX);
    result = send_message(coordinator, &node->sessions[i], TFLITE_FUSE_START, TFLITE_FUSE_QUIET, 4, limit);
  }
  tflite_fuse_worker_begin(node->worker);
  while (result.fault == TFLITE_FUSE_LINK_OK) {
    const tflite_fuse_event event = tflite_fuse_worker_next(node->worker);
    const uint32_t passed = milliseconds_since(node, start);
    if (event.kind == TFLITE_FUSE_FINISHED) {
      break;
    }
    if (event.kind == TFLITE_FUSE_COMPUTE) {
      const bool is_done = tflite_fuse_worker_compute(node->worker) == TFLITE_FUSE_OK;
      result.fault = is_done ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_COMPUTE;
      result.worker = TFLITE_FUSE_COORDINATOR;
    } else if (passed > limit) {
      result = verdict(TFLITE_FUSE_LINK_LATE, event.peer);
    } else {
      result = transfer(coordinator, &event, limit - passed);
    }
  }
  return result;
}

tflite_fuse_verdict tflite_fuse_coordinator_infer(tflite_fuse_coordinator* coordinator, uint32_t milliseconds) {
  tflite_fuse_verdict result = no_fault();
  if (!coordinator->is_connected) {
    result = connect_all(coordinator, milliseconds);
  }
  if (result.fault == TFLITE_FUSE_LINK_OK) {
    result = run_inference(coordinator, milliseconds);
  }
  if (result.fault != TFLITE_FUSE_LINK_OK) {
    tflite_fuse_coordinator_close(coordinator);
    return result;
  }
  return no_fault();
}

const char* tflite_fuse_link_message(tflite_fuse_fault fault) {
  static const char* const sentences[] = {"is well",
                                          "is lost: the connection broke",
                                          "is late: nothing came in time",
                                          "sent bytes that are no message",
                                          "speaks another version of the protocol",
                                          "has another plan",
                                          "sent a message that is not the one that comes now",
                                          "has another key, or none",
                                          "serves another coordinator now",
                                          "is not who it should be",
                                          "cannot compute its part"};
  return (size_t)fault < sizeof(sentences) / sizeof(sentences[0]) ? sentences[fault] : "waits";
}
