// An OV7670 on an Arduino Nano 33 BLE, wired as the library Arduino_OV767X says: the middle of 160 x 120 gray pixels.
//
// No picture is in memory. The library configures the sensor; this file reads rows, pin by pin, at one picture per
// second. A row that passes while the model computes is read from the next picture: interrupts count the lines.
#include <Arduino_OV767X.h>

const int FRAME_WIDTH = 160, FRAME_HEIGHT = 120, BYTES_PER_PIXEL = 2;  // the second byte is color
const int PIN_VSYNC = 8, PIN_HREF = A1, PIN_PCLK = A0;
const int PINS_OF_DATA[] = {10, 1, 0, 2, 3, 5, 6, 4};
const unsigned long PATIENCE_MS = 3000;

volatile int lines_begun = 0;  // of the present picture

void on_picture() { lines_begun = 0; }
void on_line() { lines_begun = lines_begun + 1; }

bool start_camera() {
  if (!Camera.begin(QQVGA, GRAYSCALE, 1)) {
    return false;
  }
  attachInterrupt(digitalPinToInterrupt(PIN_VSYNC), on_picture, RISING);
  attachInterrupt(digitalPinToInterrupt(PIN_HREF), on_line, RISING);
  return true;
}

bool wait_for(int pin, int level, unsigned long since) {
  while (digitalRead(pin) != level) {
    if (millis() - since > PATIENCE_MS) {
      return false;
    }
  }
  return true;
}

uint8_t read_data() {
  uint8_t value = 0;
  for (int bit = 0; bit < 8; ++bit) {
    value = static_cast<uint8_t>(value | digitalRead(PINS_OF_DATA[bit]) << bit);
  }
  return value;
}

bool next_row(Picture& picture) {
  const int top = (FRAME_HEIGHT - SIZE) / 2, left = (FRAME_WIDTH - SIZE) / 2;
  const unsigned long since = millis();
  picture.direction = -1;
  do {  // until the gap before the line
    if (!wait_for(PIN_HREF, LOW, since)) {
      return false;
    }
  } while (lines_begun != top + picture.rows_read && millis() - since <= PATIENCE_MS);
  if (!wait_for(PIN_HREF, HIGH, since)) {
    return false;
  }
  for (int byte = 0; byte < (left + SIZE) * BYTES_PER_PIXEL; ++byte) {
    if (!wait_for(PIN_PCLK, LOW, since) || !wait_for(PIN_PCLK, HIGH, since)) {
      return false;
    }
    const int x = byte / BYTES_PER_PIXEL - left;
    if (x >= 0 && byte % BYTES_PER_PIXEL == 0) {
      picture.row[x] = static_cast<int8_t>(read_data() - 128);
    }
  }
  ++picture.rows_read;
  return true;
}
