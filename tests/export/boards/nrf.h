// Stands for the header of this name: a generator of random bytes.
#include <sys/random.h>

struct FakeValue {
  operator uint32_t() const {
    uint8_t byte = 0;
    if (getrandom(&byte, 1, 0) != 1) abort();
    return byte;
  }
};
struct FakeGenerator {
  struct Event {
    int waits;
    Event& operator=(int) {
      waits = 2;
      return *this;
    }
    bool operator==(int) { return waits-- > 0; }
  };
  int CONFIG, TASKS_START, TASKS_STOP;
  Event EVENTS_VALRDY;
  FakeValue VALUE;
};
static FakeGenerator fake_generator;
#define NRF_RNG (&fake_generator)
