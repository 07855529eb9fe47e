static int Random(void*, void* data, size_t bytes) {
  NRF_RNG->CONFIG = 1;  // without bias
  NRF_RNG->TASKS_START = 1;
  for (uint8_t* to = static_cast<uint8_t*>(data); bytes > 0; --bytes) {
    NRF_RNG->EVENTS_VALRDY = 0;
    const unsigned long start = millis();
    while (NRF_RNG->EVENTS_VALRDY == 0) {
      if (millis() - start > 100) {
        return -1;
      }
    }
    *to++ = static_cast<uint8_t>(NRF_RNG->VALUE);
  }
  NRF_RNG->TASKS_STOP = 1;
  return 0;
}

