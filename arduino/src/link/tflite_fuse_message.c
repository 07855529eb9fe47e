/* Writes messages as bytes and finds messages in a stream of bytes. */
#include <string.h>

#include "../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_link.h"

enum { MAGIC = 0xF75E, LENGTH_AT = 4, CHECKSUM_AT = 28, START_BYTES = 6 };

static void put(uint8_t* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    at[i] = (uint8_t)(value >> 8 * i);
  }
}

static uint64_t get(const uint8_t* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= (uint64_t)at[i] << 8 * i;
  }
  return value;
}

static uint32_t checksum_of(const uint8_t* frame, size_t bytes) {
  return tflite_fuse_checksum(frame, bytes, frame + CHECKSUM_AT, frame, 0);
}

size_t tflite_fuse_frame_write(uint8_t* frame, const tflite_fuse_message_head* head) {
  const size_t bytes = TFLITE_FUSE_HEADER_BYTES + (size_t)head->bytes;
  put(frame, MAGIC, 2);
  frame[2] = TFLITE_FUSE_LINK_VERSION;
  frame[3] = head->kind;
  put(frame + LENGTH_AT, head->bytes, 2);
  put(frame + 6, (uint16_t)head->sender, 2);
  put(frame + 8, head->plan, 8);
  put(frame + 16, head->inference, 4);
  put(frame + 20, head->sequence, 4);
  put(frame + 24, head->item, 4);
  put(frame + CHECKSUM_AT, checksum_of(frame, bytes), 4);
  return bytes;
}

static void read_head(const uint8_t* frame, tflite_fuse_message_head* head) {
  head->kind = frame[3];
  head->bytes = (uint16_t)get(frame + LENGTH_AT, 2);
  head->sender = (int16_t)(uint16_t)get(frame + 6, 2);
  head->plan = get(frame + 8, 8);
  head->inference = (uint32_t)get(frame + 16, 4);
  head->sequence = (uint32_t)get(frame + 20, 4);
  head->item = (uint32_t)get(frame + 24, 4);
}

/* Returns the fault of the first bytes of a header: mark, version, kind and length. */
static tflite_fuse_fault start_fault(const uint8_t* frame) {
  if (get(frame, 2) != MAGIC) {
    return TFLITE_FUSE_LINK_DAMAGED;
  }
  if (frame[2] != TFLITE_FUSE_LINK_VERSION) {
    return TFLITE_FUSE_LINK_OTHER;
  }
  const bool is_known = frame[3] >= TFLITE_FUSE_HELLO && frame[3] <= TFLITE_FUSE_ERROR;
  const bool is_sound = is_known && get(frame + LENGTH_AT, 2) <= TFLITE_FUSE_FRAME_BYTES - TFLITE_FUSE_HEADER_BYTES;
  return is_sound ? TFLITE_FUSE_LINK_OK : TFLITE_FUSE_LINK_DAMAGED;
}

static size_t frame_bytes(const tflite_fuse_parser* parser) {
  return TFLITE_FUSE_HEADER_BYTES + (size_t)get(parser->frame + LENGTH_AT, 2);
}

size_t tflite_fuse_parser_wants(const tflite_fuse_parser* parser) {
  if (parser->used != 0) {
    return 0;
  }
  return (parser->held < TFLITE_FUSE_HEADER_BYTES ? TFLITE_FUSE_HEADER_BYTES : frame_bytes(parser)) - parser->held;
}

static void drop(tflite_fuse_parser* parser, size_t bytes) {
  parser->held = (uint16_t)(parser->held - bytes);
  memmove(parser->frame, parser->frame + bytes, parser->held);
}

tflite_fuse_fault tflite_fuse_parser_next(tflite_fuse_parser* parser, tflite_fuse_message_head* head) {
  drop(parser, parser->used);
  parser->used = 0;
  if (parser->held < START_BYTES) {
    return TFLITE_FUSE_LINK_MORE;
  }
  tflite_fuse_fault fault = start_fault(parser->frame);
  if (fault == TFLITE_FUSE_LINK_OK) {
    if (parser->held < TFLITE_FUSE_HEADER_BYTES || parser->held < frame_bytes(parser)) {
      return TFLITE_FUSE_LINK_MORE;
    }
    if (get(parser->frame + CHECKSUM_AT, 4) == checksum_of(parser->frame, frame_bytes(parser))) {
      parser->used = (uint16_t)frame_bytes(parser);
      read_head(parser->frame, head);
      return TFLITE_FUSE_LINK_OK;
    }
    fault = TFLITE_FUSE_LINK_DAMAGED;
  }
  drop(parser, 1);
  return fault;
}
