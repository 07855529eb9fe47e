static int Random(void*, void* data, size_t bytes) {
  esp_fill_random(data, bytes);
  return 0;
}

