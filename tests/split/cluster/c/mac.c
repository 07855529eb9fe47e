#include "mac.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64, DIGEST = 32, ROUNDS = 64 };

typedef struct {
  uint32_t state[8];
  uint8_t block[BLOCK];
  uint64_t bytes;
} hash;

/* The first 32 bits of the fraction of a prime's square or cube root. */
static uint32_t fraction(uint32_t prime, int is_cube) {
  const long double root = is_cube ? cbrtl(prime) : sqrtl(prime);
  return (uint32_t)((root - floorl(root)) * 4294967296.0L);
}

static uint32_t prime_after(uint32_t last) {
  for (uint32_t each = last + 1;; ++each) {
    uint32_t divisor = 2;
    while (divisor * divisor <= each && each % divisor != 0) ++divisor;
    if (divisor * divisor > each) return each;
  }
}

static uint32_t rotated(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void mix(hash* self) {
  uint32_t words[ROUNDS], now[8], prime = 1;
  memcpy(now, self->state, sizeof(now));
  for (int i = 0; i < 16; ++i) {
    const uint8_t* at = self->block + 4 * i;
    words[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
  }
  for (int i = 16; i < ROUNDS; ++i) {
    const uint32_t early = words[i - 15], late = words[i - 2];
    words[i] = words[i - 16] + words[i - 7] + (rotated(early, 7) ^ rotated(early, 18) ^ early >> 3) +
               (rotated(late, 17) ^ rotated(late, 19) ^ late >> 10);
  }
  for (int i = 0; i < ROUNDS; ++i) {
    const uint32_t a = now[0], e = now[4];
    prime = prime_after(prime);
    const uint32_t one = now[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & now[5]) ^ (~e & now[6])) +
                         fraction(prime, 1) + words[i];
    const uint32_t two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
                         ((a & now[1]) ^ (a & now[2]) ^ (now[1] & now[2]));
    memmove(now + 1, now, 7 * sizeof(now[0]));
    now[4] += one;
    now[0] = one + two;
  }
  for (int i = 0; i < 8; ++i) self->state[i] += now[i];
}

static void begin(hash* self) {
  uint32_t prime = 1;
  memset(self, 0, sizeof(*self));
  for (int i = 0; i < 8; ++i) self->state[i] = fraction(prime = prime_after(prime), 0);
}

static void add(hash* self, const uint8_t* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    self->block[self->bytes++ % BLOCK] = data[i];
    if (self->bytes % BLOCK == 0) mix(self);
  }
}

static void end(hash* self, uint8_t* result) {
  const uint64_t bits = 8 * self->bytes;
  const uint8_t one = 0x80, zero = 0;
  add(self, &one, 1);
  while (self->bytes % BLOCK != BLOCK - 8) add(self, &zero, 1);
  for (int i = 0; i < 8; ++i) {
    const uint8_t byte = (uint8_t)(bits >> (56 - 8 * i));
    add(self, &byte, 1);
  }
  for (int i = 0; i < DIGEST; ++i) result[i] = (uint8_t)(self->state[i / 4] >> (24 - 8 * (i % 4)));
}

int host_mac(void* user, const uint8_t* key, size_t key_bytes, const uint8_t* data, size_t bytes, uint8_t result[32]) {
  uint8_t padded[BLOCK] = {0};
  hash self;
  (void)user;
  if (key_bytes > BLOCK) {
    begin(&self);
    add(&self, key, key_bytes);
    end(&self, padded);
  } else {
    memcpy(padded, key, key_bytes);
  }
  for (int is_outer = 0; is_outer < 2; ++is_outer) {
    uint8_t pad[BLOCK];
    for (int i = 0; i < BLOCK; ++i) pad[i] = padded[i] ^ (is_outer ? 0x5C : 0x36);
    begin(&self);
    add(&self, pad, BLOCK);
    add(&self, is_outer ? result : data, is_outer ? DIGEST : bytes);
    end(&self, result);
  }
  return 0;
}
