/* Selects the loops of convolutions in this build: all, or in an exported project those of its model, so the linker
 * omits the others. A block that needs another loop is refused. Private to the library. */
#ifndef TFLITE_FUSE_LOOPS_H_
#define TFLITE_FUSE_LOOPS_H_

/* Of CONV, and of FULLY_CONNECTED with one input pixel: bit n for weights of layout n (enum tflite_fuse_layout). */
#define TFLITE_FUSE_CONV_LOOPS 0x2f

/* Of DEPTHWISE: bit 0 for plain weights, bit `width - 3 + stride` for packed ones: 3, 5 or 7 wide, stride 1 or 2. */
#define TFLITE_FUSE_DEPTHWISE_LOOPS 0x7f

/* Of FLOAT_FULLY_CONNECTED: 1 for weights in float16 beside those in float32. */
#define TFLITE_FUSE_FLOAT16_LOOPS 1

#define TFLITE_FUSE_HAS_CONV(layout) ((TFLITE_FUSE_CONV_LOOPS >> (layout) & 1) != 0)
#define TFLITE_FUSE_HAS_DEPTHWISE(width, stride) ((TFLITE_FUSE_DEPTHWISE_LOOPS >> ((width) - 3 + (stride)) & 1) != 0)
#define TFLITE_FUSE_HAS_PLAIN_DEPTHWISE ((TFLITE_FUSE_DEPTHWISE_LOOPS & 1) != 0)
#define TFLITE_FUSE_HAS_PACKED_DEPTHWISE (TFLITE_FUSE_DEPTHWISE_LOOPS > 1)

#endif
