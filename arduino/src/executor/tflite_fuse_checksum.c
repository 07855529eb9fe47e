/* Computes the CRC-32 of options and constants, with zlib's polynomial. */
#include "tflite_fuse_checks.h"

/* Remainders of four bits: a table of 64 bytes halves the time of single bits. */
static const uint32_t REMAINDERS[16] = {
    0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
    0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};

static inline uint32_t shift_nibble(uint32_t crc) { return (crc >> 4) ^ REMAINDERS[crc & 15]; }

/* Returns the CRC extended by `bytes` bytes, aligned to 4: whole words, then the last bytes. */
static uint32_t extended(uint32_t crc, const void* data, size_t bytes) {
  const uint32_t* words = data;
  const uint8_t* last_bytes = (const uint8_t*)data + bytes / 4 * 4;
  for (size_t i = 0; i < bytes / 4; ++i) {
    crc = shift_nibble(shift_nibble(shift_nibble(shift_nibble(crc ^ words[i]))));
    crc = shift_nibble(shift_nibble(shift_nibble(shift_nibble(crc))));
  }
  for (size_t i = 0; i < bytes % 4; ++i) {
    crc = shift_nibble(shift_nibble(crc ^ last_bytes[i]));
  }
  return crc;
}

uint32_t tflite_fuse_checksum(const void* options, size_t options_bytes, const uint8_t* field, const void* constants,
                              size_t constants_bytes) {
  const uint32_t zero_field = 0;
  const size_t before = (size_t)(field - (const uint8_t*)options);
  uint32_t crc = extended(extended(UINT32_MAX, options, before), &zero_field, 4);
  crc = extended(crc, field + 4, options_bytes - before - 4);
  return ~extended(crc, constants, constants_bytes);
}
