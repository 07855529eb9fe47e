static int Random(void*, void* data, size_t bytes) {
  for (uint8_t* to = static_cast<uint8_t*>(data); bytes > 0; --bytes) {
    *to++ = static_cast<uint8_t>(Entropy.random());
  }
  return 0;
}

