// Stands for the library of this name.
#include <errno.h>

#include "fake_network.h"

namespace qindesign {
namespace network {
typedef FakeServer EthernetServer;
typedef FakeClient EthernetClient;
struct FakeEthernet {
  bool begin() { return true; }
  bool begin(const IPAddress&, const IPAddress&, const IPAddress&) { return true; }
  bool waitForLink(uint32_t) { return true; }
  IPAddress localIP() { return IPAddress(127, 0, 0, 1); }
};
static FakeEthernet Ethernet;
}  // namespace network
}  // namespace qindesign
