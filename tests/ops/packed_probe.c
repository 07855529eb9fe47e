/* The fast scaling of packed layouts as a function over arrays. */
#include "kernels/tflite_fuse_packed.h"

/* entries: bias, multiplier, shift of each sum. */
void probe_scale_down(const int32_t* sums, const int32_t* entries, const int32_t* zero_points, int32_t* results,
                      size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const tflite_fuse_channel channel = {entries[3 * i], entries[3 * i + 1], entries[3 * i + 2]};
    results[i] = tflite_fuse_scale_down(sums[i], tflite_fuse_scale_of(&channel, 2 * zero_points[i] + 1));
  }
}
