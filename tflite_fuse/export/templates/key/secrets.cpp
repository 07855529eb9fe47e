static uint8_t secrets[$sessions][TFLITE_FUSE_SECRET_BYTES];
static tflite_fuse_key lock;
