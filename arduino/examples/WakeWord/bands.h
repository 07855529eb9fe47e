// Computes the loudness of eight bands in a step of sound: Goertzel's filter at the middle of each, relative to their
// sum.
#include <math.h>

const float MIDDLES[BANDS] = {500, 700, 1000, 1400, 2000, 2800, 4000, 5600};  // Hz
const float SILENCE = 1.0e9f;  // energy below which a step is silent

void measure_bands(const int16_t* samples, int8_t* loudness) {
  float energy[BANDS], total = SILENCE;
  for (int band = 0; band < BANDS; ++band) {
    const float turn = 2 * cosf(2 * 3.14159265f * MIDDLES[band] / SAMPLE_RATE);
    float last = 0, before = 0;
    for (int i = 0; i < SAMPLES; ++i) {
      const float next = samples[i] + turn * last - before;
      before = last;
      last = next;
    }
    energy[band] = last * last + before * before - turn * last * before;
    total += energy[band];
  }
  for (int band = 0; band < BANDS; ++band) {
    loudness[band] = static_cast<int8_t>(-110 + 220 * energy[band] / total);
  }
}
