/* Feeds streams of bytes to the parser of messages, and what it accepts back to the encoder, as libFuzzer's target.
 *
 * Input: one byte that says how the stream is cut up, then the stream. Bit 7: the first message's checksum is made to fit, or
 * few damaged headers would come past it. Every message that is found must be written again as it was read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tflite_fuse_link.h"

static void check(int sound) {
  if (!sound) abort();
}

static void write_again(const tflite_fuse_parser* parser, const tflite_fuse_message_head* head) {
  const size_t bytes = TFLITE_FUSE_HEADER_BYTES + (size_t)head->bytes;
  uint8_t* copy = malloc(bytes);
  check(copy != NULL && bytes <= parser->held);
  memcpy(copy + TFLITE_FUSE_HEADER_BYTES, parser->frame + TFLITE_FUSE_HEADER_BYTES, head->bytes);
  check(tflite_fuse_frame_write(copy, head) == bytes);
  check(memcmp(copy, parser->frame, bytes) == 0);
  free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tflite_fuse_message_head head;
  tflite_fuse_parser parser = {.frame = malloc(TFLITE_FUSE_FRAME_BYTES)};
  if (size < 1) {
    free(parser.frame);
    return 0;
  }
  const size_t step = (data[0] & 127) == 0 ? size : (size_t)(data[0] & 127);
  uint8_t* stream = malloc(size + TFLITE_FUSE_FRAME_BYTES);
  size_t left = size - 1, taken = 0, found = 0;
  check(parser.frame != NULL && stream != NULL);
  memcpy(stream, data + 1, left);
  if ((data[0] & 128) != 0 && left >= TFLITE_FUSE_HEADER_BYTES) {
    const size_t length = (size_t)stream[4] | (size_t)stream[5] << 8;
    if (length <= left - TFLITE_FUSE_HEADER_BYTES && length <= TFLITE_FUSE_PAYLOAD_BYTES) {
      const tflite_fuse_message_head sound = {stream[8], stream[16], stream[20], stream[24], (int16_t)stream[6],
                                              (uint16_t)length, stream[3]};
      uint8_t* frame = malloc(TFLITE_FUSE_FRAME_BYTES);
      check(frame != NULL);
      memcpy(frame + TFLITE_FUSE_HEADER_BYTES, stream + TFLITE_FUSE_HEADER_BYTES, length);
      memcpy(stream, frame, tflite_fuse_frame_write(frame, &sound));
      free(frame);
    }
  }
  while (taken < left) {
    tflite_fuse_fault fault;
    size_t wants = tflite_fuse_parser_wants(&parser);
    check(wants >= 1 && wants <= TFLITE_FUSE_FRAME_BYTES - (size_t)parser.held);
    if (wants > step) wants = step;
    if (wants > left - taken) wants = left - taken;
    memcpy(parser.frame + parser.held, stream + taken, wants);
    parser.held = (uint16_t)(parser.held + wants);
    taken += wants;
    while ((fault = tflite_fuse_parser_next(&parser, &head)) != TFLITE_FUSE_LINK_MORE) {
      check(++found <= left);
      if (fault == TFLITE_FUSE_LINK_OK) write_again(&parser, &head);
    }
  }
  free(stream);
  free(parser.frame);
  return 0;
}
