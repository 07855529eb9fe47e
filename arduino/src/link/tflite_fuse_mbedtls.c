/* Computes HMAC-SHA256 with mbed TLS. Empty without that library. */
#if defined(ESP_PLATFORM) || defined(TFLITE_FUSE_WITH_MBEDTLS)
#include "tflite_fuse_mbedtls.h"

#include <mbedtls/md.h>

int tflite_fuse_mbedtls_mac(void* user, const uint8_t* key, size_t key_bytes, const uint8_t* data, size_t bytes,
                            uint8_t result[TFLITE_FUSE_SECRET_BYTES]) {
  (void)user;
  return mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), key, key_bytes, data, bytes, result);
}
#else
typedef int tflite_fuse_no_mbedtls; /* C forbids empty files */
#endif
