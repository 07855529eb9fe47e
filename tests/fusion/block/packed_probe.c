/* The fast scaling of packed layouts as functions over arrays; the second one exists in builds with DSP instructions. */
#include "kernels/tflite_fuse_packed.h"

static tflite_fuse_scale scale(const int32_t* entry, int32_t zero_point) {
  const tflite_fuse_channel channel = {entry[0], entry[1], entry[2]};
  return tflite_fuse_scale_of(&channel, 2 * zero_point + 1);
}

/* entries: bias, multiplier, shift of each sum. */
void probe_finish_down(const int32_t* sums, const int32_t* entries, const int32_t* zero_points, int32_t low,
                       int32_t high, int32_t* results, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    results[i] = tflite_fuse_finish_down(sums[i], scale(entries + 3 * i, zero_points[i]), low, high);
  }
}

#if TFLITE_FUSE_DSP
void probe_scale_down(const int32_t* sums, const int32_t* entries, const int32_t* zero_points, int32_t low,
                      int32_t high, int32_t* results, size_t count) {
  (void)low, (void)high;
  for (size_t i = 0; i < count; ++i) {
    results[i] = tflite_fuse_scale_down(sums[i], scale(entries + 3 * i, zero_points[i]));
  }
}
#endif
