  while (tflite_fuse_key_open(&lock, $node, $mac, nullptr, KEY, sizeof(KEY), secrets) != TFLITE_FUSE_LINK_OK) {
    Serial.println("no random bytes: with a key this board does not start");
    delay(5000);
  }
