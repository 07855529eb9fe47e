  for (int i = 0; i < $count; ++i) {
    $type value;
    memcpy(&value, $address + sizeof(value) * (size_t)i, sizeof(value));
    printf("output $number[%d]$factor = %ld\n", i, (long)(value$factor));
  }
