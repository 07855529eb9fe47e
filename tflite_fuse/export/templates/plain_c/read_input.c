/* $about
 * It is never whole: the model reads `count` pixels of $line.
 * Return 0, or anything else to end the inference. Your data goes here, such as a camera's. */
static int read_input_$number(void* user, int y, int x, int count, void* destination,
                        size_t capacity) {
  (void)user;
  (void)y;
  (void)x;
  (void)count;
  memset(destination, 0, capacity);
  return 0;
}
