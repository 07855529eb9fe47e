// Stands in for the driver of an ESP32's camera: gray pictures of stripes, each in another direction.
#pragma once
#include <cstdint>
#include <cstdlib>
#include "stripes.h"

enum { ESP_OK = 0, LEDC_TIMER_0 = 0, LEDC_CHANNEL_0 = 0 };
enum pixformat_t { PIXFORMAT_GRAYSCALE = 3 };
enum framesize_t { FRAMESIZE_96X96 = 0 };
enum camera_fb_location_t { CAMERA_FB_IN_PSRAM };
enum camera_grab_mode_t { CAMERA_GRAB_WHEN_EMPTY };
struct camera_config_t {
  int pin_pwdn, pin_reset, pin_xclk, pin_sccb_sda, pin_sccb_scl;
  int pin_d7, pin_d6, pin_d5, pin_d4, pin_d3, pin_d2, pin_d1, pin_d0, pin_vsync, pin_href, pin_pclk;
  int xclk_freq_hz, ledc_timer, ledc_channel;
  pixformat_t pixel_format;
  framesize_t frame_size;
  size_t fb_count;
  camera_fb_location_t fb_location;
  camera_grab_mode_t grab_mode;
};
struct camera_fb_t {
  uint8_t* buf;
};
static uint8_t pixels[96 * 96];
static camera_fb_t the_frame = {pixels};
static bool handed_out = false;

static inline int esp_camera_init(const camera_config_t* config) { return config->fb_count == 1 ? ESP_OK : 1; }

static inline camera_fb_t* esp_camera_fb_get() {
  static int number = 0;
  if (handed_out) std::abort();  // the driver has one buffer
  handed_out = true;
  ++number;
  for (int y = 0; y < 96; ++y) {
    for (int x = 0; x < 96; ++x) pixels[96 * y + x] = stripes(number % 4, x - 16, y - 16);
  }
  return &the_frame;
}

static inline void esp_camera_fb_return(camera_fb_t*) {
  if (!handed_out) std::abort();
  handed_out = false;
}
