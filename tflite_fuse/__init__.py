"""Make TensorFlow Lite models fit microcontrollers: less RAM, the same bytes."""
