// Stands for the header of this name.
#include <errno.h>

#include "fake_network.h"

typedef FakeServer WiFiServer;
typedef FakeClient WiFiClient;
enum { WL_CONNECTED = 3 };
struct FakeWiFi {
  bool config(const IPAddress&, const IPAddress&, const IPAddress&) { return true; }
  void setSleep(bool) {}
  void begin(const char*, const char*) {}
  int status() { return WL_CONNECTED; }
  IPAddress localIP() { return IPAddress(127, 0, 0, 1); }
};
static FakeWiFi WiFi;

#include <sys/random.h>

inline void esp_fill_random(void* data, size_t bytes) {
  if (getrandom(data, bytes, 0) < 0) abort();
}
