/* Declares a key for the connections of tflite_fuse_link.h: devices without it are refused.
 *
 *     static const uint8_t key[] = {...};                      // 16 bytes or more, the same on all devices
 *     static uint8_t secrets[3][TFLITE_FUSE_SECRET_BYTES];     // one for each session
 *     tflite_fuse_key lock;
 *     if (tflite_fuse_key_open(&lock, &node, tflite_fuse_mbedtls_mac, NULL, key, sizeof(key), secrets) !=
 *         TFLITE_FUSE_LINK_OK) {
 *       // without random bytes there can be no key: do not start
 *     }
 *
 * Both ends of a connection draw a nonce. HMAC-SHA256 of these, of the plan and of both devices' numbers, under the
 * key, is the secret that signs every message from WELCOME on, including its number: recorded messages are useless,
 * both on this connection and on others. Nothing is encrypted. The library has no SHA-256 of its own: `mac` is the
 * application's, or mbed TLS's by link/tflite_fuse_mbedtls.h. */
#ifndef TFLITE_FUSE_KEY_H_
#define TFLITE_FUSE_KEY_H_

#include "tflite_fuse_link.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TFLITE_FUSE_KEY_LEAST_BYTES 16
#define TFLITE_FUSE_KEY_MOST_BYTES 1024
#define TFLITE_FUSE_SECRET_BYTES 32

/* Computes the HMAC-SHA256 of data under a key. Returns 0 on success. */
typedef int (*tflite_fuse_mac)(void* user, const uint8_t* key, size_t key_bytes, const uint8_t* data, size_t bytes,
                               uint8_t result[TFLITE_FUSE_SECRET_BYTES]);

struct tflite_fuse_guard {
  /* Puts the signature behind the payload in the frame. Returns whether that succeeded. */
  bool (*sign)(tflite_fuse_node* node, const tflite_fuse_session* session, const tflite_fuse_message_head* head);
  /* Returns whether the message in the frame has the correct signature. */
  bool (*is_sound)(tflite_fuse_node* node, const tflite_fuse_session* session, const tflite_fuse_message_head* head);
  /* Starts to sign messages. nonces: the opener's and the answerer's. Returns whether that succeeded. */
  bool (*agree)(tflite_fuse_node* node, tflite_fuse_session* session, const uint8_t* nonces, bool opened);
  /* Moves a session to the place of another one. */
  void (*move)(tflite_fuse_node* node, const tflite_fuse_session* from, const tflite_fuse_session* to);
};

/* Fields are the library's own. */
typedef struct {
  tflite_fuse_guard guard; /* first: nodes use only this part */
  tflite_fuse_mac mac;
  void* user;
  const uint8_t* key;
  size_t key_bytes;
  uint8_t (*secrets)[TFLITE_FUSE_SECRET_BYTES];
  uint8_t of_guests[TFLITE_FUSE_GUESTS][TFLITE_FUSE_SECRET_BYTES];
} tflite_fuse_key;

/* Makes the node refuse devices without the key. Call it directly after tflite_fuse_node_open; all must outlive the
 * node.
 *
 * secrets: one for each session of the node. Returns TFLITE_FUSE_LINK_KEY, and the node must not be used, if the key is
 * too short or too long, the transport has no random bytes, or `mac` fails. */
tflite_fuse_fault tflite_fuse_key_open(tflite_fuse_key* lock, tflite_fuse_node* node, tflite_fuse_mac mac, void* user,
                                       const uint8_t* key, size_t key_bytes,
                                       uint8_t (*secrets)[TFLITE_FUSE_SECRET_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
