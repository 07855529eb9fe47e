  const tflite_fuse_fault fault = tflite_fuse_node_serve(&node, 1000);
  if (fault != TFLITE_FUSE_LINK_OK) {
    Serial.print("a connection ended with fault ");
    Serial.println(static_cast<int>(fault));
  }
