// An OV2640 on an ESP32-CAM of AI-Thinker, by the driver esp_camera of the ESP32 core: the middle of 96 x 96 gray
// pixels.
//
// The driver writes a whole picture by DMA, here into PSRAM. No copy of it is in the model's arena: next_row() converts
// a row to int8 when the model reads it.
#include <esp_camera.h>

const int FRAME_SIZE = 96;
camera_fb_t* frame = nullptr;

bool start_camera() {
  camera_config_t config = {};
  config.pin_pwdn = 32;
  config.pin_reset = -1;
  config.pin_xclk = 0;
  config.pin_sccb_sda = 26;
  config.pin_sccb_scl = 27;
  config.pin_d7 = 35;
  config.pin_d6 = 34;
  config.pin_d5 = 39;
  config.pin_d4 = 36;
  config.pin_d3 = 21;
  config.pin_d2 = 19;
  config.pin_d1 = 18;
  config.pin_d0 = 5;
  config.pin_vsync = 25;
  config.pin_href = 23;
  config.pin_pclk = 22;
  config.xclk_freq_hz = 20000000;
  config.ledc_timer = LEDC_TIMER_0;
  config.ledc_channel = LEDC_CHANNEL_0;
  config.pixel_format = PIXFORMAT_GRAYSCALE;
  config.frame_size = FRAMESIZE_96X96;
  config.fb_count = 1;
  config.fb_location = CAMERA_FB_IN_PSRAM;
  config.grab_mode = CAMERA_GRAB_WHEN_EMPTY;
  return esp_camera_init(&config) == ESP_OK;
}

bool next_row(Picture& picture) {
  picture.direction = -1;
  if (picture.rows_read == 0) {
    if (frame != nullptr) {
      esp_camera_fb_return(frame);  // of an inference that ended early
    }
    frame = esp_camera_fb_get();
  }
  if (frame == nullptr) {
    return false;
  }
  const int border = (FRAME_SIZE - SIZE) / 2;
  const uint8_t* gray = frame->buf + (border + picture.rows_read) * FRAME_SIZE + border;
  for (int x = 0; x < SIZE; ++x) {
    picture.row[x] = static_cast<int8_t>(gray[x] - 128);
  }
  if (++picture.rows_read == SIZE) {
    esp_camera_fb_return(frame);
    frame = nullptr;
  }
  return true;
}
