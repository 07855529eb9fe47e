  for (int i = 0; i < $count; ++i) {
    printf("output $number[%d] = %d\n", i, ((const int8_t*)($address))[i]);
  }
