"""Arena use of TensorFlow Lite Micro itself: requested buffers, the runtime's planner, the tail."""
