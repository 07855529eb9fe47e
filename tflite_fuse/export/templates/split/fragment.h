/* The work of $title in an inference, in flash. Written by tflite-fuse; export again rather than change it. */
#ifndef FRAGMENT_H_
#define FRAGMENT_H_

#define FRAGMENT_BYTES $bytes

/* Of the buffer it needs. */
#define BUFFER_BYTES $buffer

#ifdef __cplusplus
extern "C" {
#endif

extern const unsigned char fragment[FRAGMENT_BYTES];

#ifdef __cplusplus
}
#endif

#endif
