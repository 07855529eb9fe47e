/* Declares HMAC-SHA256 of mbed TLS (2.x and 3.x) for tflite_fuse_key.h. Available with ESP-IDF and Arduino-ESP32, or if
 * TFLITE_FUSE_WITH_MBEDTLS is defined and the library is linked (Debian: libmbedtls-dev, -lmbedcrypto). mbed TLS uses
 * some hundred bytes of the heap while it signs. */
#ifndef TFLITE_FUSE_LINK_MBEDTLS_H_
#define TFLITE_FUSE_LINK_MBEDTLS_H_

#include "../tflite_fuse_key.h"

#ifdef __cplusplus
extern "C" {
#endif

int tflite_fuse_mbedtls_mac(void* user, const uint8_t* key, size_t key_bytes, const uint8_t* data, size_t bytes,
                            uint8_t result[TFLITE_FUSE_SECRET_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
