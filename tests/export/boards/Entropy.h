// Stands for the library of this name.
#include <sys/random.h>

struct FakeEntropy {
  bool is_ready;
  void Initialize() { is_ready = true; }
  uint32_t random() {
    uint32_t number = 0;
    if (!is_ready || getrandom(&number, sizeof(number), 0) != sizeof(number)) abort();
    return number;
  }
};
static FakeEntropy Entropy;
