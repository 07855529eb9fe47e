static int Mac(void*, const uint8_t* key, size_t key_bytes, const uint8_t* data, size_t bytes, uint8_t* result) {
  SHA256 hash;
  hash.resetHMAC(key, key_bytes);
  hash.update(data, bytes);
  hash.finalizeHMAC(key, key_bytes, result, TFLITE_FUSE_SECRET_BYTES);
  return 0;
}
