/* The core's name, if the compiler identifies it. */
static inline const char* benchmark_core(void) {
#if defined(__ARM_ARCH_6M__)
  return "cortex-m0plus";
#elif defined(__ARM_ARCH_7M__)
  return "cortex-m3";
#elif defined(__ARM_ARCH_7EM__)
  return (*(volatile uint32_t*)0xE000ED00 >> 4 & 0xFFF) == 0xC27 ? "cortex-m7" : "cortex-m4";
#elif defined(__ARM_FEATURE_MVE)
  return (*(volatile uint32_t*)0xE000ED00 >> 4 & 0xFFF) == 0xD23 ? "cortex-m85" : "cortex-m55";
#elif defined(__ARM_ARCH_8M_MAIN__)
  return "cortex-m33";
#elif defined(__riscv)
  return __riscv_xlen == 32 ? "rv32" : "rv64";
#elif defined(__XTENSA__)
  return "xtensa";
#else
  return "other";
#endif
}
