/* HMAC-SHA256 for tests of connections with a key: FIPS 180-4 and RFC 2104, without care for speed. */
#ifndef MAC_H_
#define MAC_H_

#include <stddef.h>
#include <stdint.h>

int host_mac(void* user, const uint8_t* key, size_t key_bytes, const uint8_t* data, size_t bytes, uint8_t result[32]);

#endif
