/* Signs messages and checks the signatures of received ones, by HMAC-SHA256 under a secret per connection. */
#include "../tflite_fuse_key.h"

#include <string.h>

#include "tflite_fuse_session.h"

enum { CHECKSUM_AT = 28, LABEL_BYTES = 16, NONCES_BYTES = 2 * TFLITE_FUSE_NONCE_BYTES };

static tflite_fuse_key* lock_of(const tflite_fuse_node* node) { return (tflite_fuse_key*)(void*)node->guard; }

/* Returns the secret of one of the node's sessions, or of a guest's. */
static uint8_t* secret_of(const tflite_fuse_node* node, const tflite_fuse_session* session) {
  for (uint16_t i = 0; i < TFLITE_FUSE_GUESTS; ++i) {
    if (&node->guests[i].session == session) {
      return lock_of(node)->of_guests[i];
    }
  }
  return lock_of(node)->secrets[session - node->sessions];
}

/* Computes the signature of a frame's header, with checksum 0, and its payload. */
static bool signature_of(const tflite_fuse_node* node, const tflite_fuse_session* session, size_t payload_bytes,
                         uint8_t* result) {
  const tflite_fuse_key* lock = lock_of(node);
  uint8_t* frame = node->parser.frame;
  memset(frame + CHECKSUM_AT, 0, TFLITE_FUSE_HEADER_BYTES - CHECKSUM_AT);
  return lock->mac(lock->user, secret_of(node, session), TFLITE_FUSE_SECRET_BYTES, frame,
                   TFLITE_FUSE_HEADER_BYTES + payload_bytes, result) == 0;
}

static bool sign(tflite_fuse_node* node, const tflite_fuse_session* session, const tflite_fuse_message_head* head) {
  const size_t bytes = (size_t)head->bytes - TFLITE_FUSE_SIGNATURE_BYTES;
  uint8_t signature[TFLITE_FUSE_SECRET_BYTES];
  (void)tflite_fuse_frame_write(node->parser.frame, head);
  if (!signature_of(node, session, bytes, signature)) {
    return false;
  }
  memcpy(payload_of(node) + bytes, signature, TFLITE_FUSE_SIGNATURE_BYTES);
  return true;
}

static bool is_sound(tflite_fuse_node* node, const tflite_fuse_session* session, const tflite_fuse_message_head* head) {
  uint8_t signature[TFLITE_FUSE_SECRET_BYTES];
  if (head->bytes < TFLITE_FUSE_SIGNATURE_BYTES) {
    return false;
  }
  const size_t bytes = (size_t)head->bytes - TFLITE_FUSE_SIGNATURE_BYTES;
  if (!signature_of(node, session, bytes, signature)) {
    return false;
  }
  const uint8_t* received = payload_of(node) + bytes;
  uint8_t differs = 0;
  for (int i = 0; i < TFLITE_FUSE_SIGNATURE_BYTES; ++i) { /* in constant time */
    differs |= (uint8_t)(received[i] ^ signature[i]);
  }
  return differs == 0;
}

static uint8_t* put(uint8_t* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    *at++ = (uint8_t)(value >> 8 * i);
  }
  return at;
}

static bool agree(tflite_fuse_node* node, tflite_fuse_session* session, const uint8_t* nonces, bool opened) {
  const tflite_fuse_key* lock = lock_of(node);
  const int16_t own = node->identity.device, other = session->peer;
  uint8_t text[LABEL_BYTES + NONCES_BYTES + 12];
  memcpy(text, "tflite-fuse link", LABEL_BYTES);
  memcpy(text + LABEL_BYTES, nonces, NONCES_BYTES);
  uint8_t* at = put(text + LABEL_BYTES + NONCES_BYTES, node->identity.plan, 8);
  at = put(at, (uint16_t)(opened ? own : other), 2);
  (void)put(at, (uint16_t)(opened ? other : own), 2);
  session->is_signed =
      lock->mac(lock->user, lock->key, lock->key_bytes, text, sizeof(text), secret_of(node, session)) == 0;
  return session->is_signed;
}

static void move(tflite_fuse_node* node, const tflite_fuse_session* from, const tflite_fuse_session* to) {
  memcpy(secret_of(node, to), secret_of(node, from), TFLITE_FUSE_SECRET_BYTES);
}

tflite_fuse_fault tflite_fuse_key_open(tflite_fuse_key* lock, tflite_fuse_node* node, tflite_fuse_mac mac, void* user,
                                       const uint8_t* key, size_t key_bytes,
                                       uint8_t (*secrets)[TFLITE_FUSE_SECRET_BYTES]) {
  const tflite_fuse_transport* from = node->transport;
  uint8_t trial[TFLITE_FUSE_NONCE_BYTES], result[TFLITE_FUSE_SECRET_BYTES];
  memset(lock, 0, sizeof(*lock));
  lock->guard = (tflite_fuse_guard){sign, is_sound, agree, move};
  lock->mac = mac;
  lock->user = user;
  lock->key = key;
  lock->key_bytes = key_bytes;
  lock->secrets = secrets;
  if (key_bytes < TFLITE_FUSE_KEY_LEAST_BYTES || key_bytes > TFLITE_FUSE_KEY_MOST_BYTES || from->random == NULL ||
      from->random(from->user, trial, TFLITE_FUSE_NONCE_BYTES) != 0 ||
      mac(user, key, key_bytes, trial, TFLITE_FUSE_NONCE_BYTES, result) != 0) {
    return TFLITE_FUSE_LINK_KEY;
  }
  node->guard = &lock->guard;
  return TFLITE_FUSE_LINK_OK;
}
