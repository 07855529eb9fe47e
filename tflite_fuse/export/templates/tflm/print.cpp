  for (int i = 0; i < $count; ++i) {
    char line[48];
    snprintf(line, sizeof(line), "output $number[%d]$factor = %ld", i, static_cast<long>(interpreter->output($number)->data.$field[i]$factor));
    $print_line
  }
