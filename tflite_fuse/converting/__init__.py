"""Models of other frameworks as .tflite files, by converters of others."""
