/* Defines attributes and hints for compilers. All of them may be empty. Private to the library. */
#ifndef TFLITE_FUSE_COMPILER_H_
#define TFLITE_FUSE_COMPILER_H_

#if defined(__GNUC__)
#define TFLITE_FUSE_INLINE static inline __attribute__((always_inline))
#define TFLITE_FUSE_NOINLINE __attribute__((noinline))
/* Runs when a model is loaded, once per inference or in few models: compiled for size at every level. */
#define TFLITE_FUSE_RARE __attribute__((cold))
/* Runs often although its callers run rarely: compilers would otherwise take it as rare, too. */
#define TFLITE_FUSE_OFTEN __attribute__((hot))
/* Finishes four sums before values for the next ones are loaded. Otherwise compilers load far ahead, run out of
 * registers and spill. */
#define TFLITE_FUSE_SETTLE(a, b, c, d) __asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d) : "memory")
/* Hides a value's origin. Otherwise compilers keep several copies of one counter, which costs registers. */
#define TFLITE_FUSE_HIDE(value) __asm__("" : "+r"(value))
/* The same for a float32 on cores with fused multiply-add, which rounds once. */
#if defined(__ARM_FP) && (__ARM_FP & 4) != 0
#if defined(__aarch64__)
#define TFLITE_FUSE_HIDE_FLOAT(value) __asm__("" : "+w"(value))
#else
#define TFLITE_FUSE_HIDE_FLOAT(value) __asm__("" : "+t"(value))
#endif
#elif defined(__riscv_flen) || (defined(__XTENSA__) && !defined(__XTENSA_SOFT_FLOAT__))
#define TFLITE_FUSE_HIDE_FLOAT(value) __asm__("" : "+f"(value))
#elif defined(__FMA__)
#define TFLITE_FUSE_HIDE_FLOAT(value) __asm__("" : "+x"(value))
#else
#define TFLITE_FUSE_HIDE_FLOAT(value) ((void)(value))
#endif
#else
#define TFLITE_FUSE_INLINE static inline
#define TFLITE_FUSE_NOINLINE
#define TFLITE_FUSE_RARE
#define TFLITE_FUSE_OFTEN
#define TFLITE_FUSE_SETTLE(a, b, c, d) ((void)0)
#define TFLITE_FUSE_HIDE(value) ((void)0)
#define TFLITE_FUSE_HIDE_FLOAT(value) ((void)(value))
#endif

/* 1 if the core has instructions that multiply float32. */
#ifndef TFLITE_FUSE_HAS_FPU
#if (defined(__ARM_FP) && (__ARM_FP & 4) != 0) || defined(__SSE2__) || defined(__riscv_flen) || \
    (defined(__XTENSA__) && !defined(__XTENSA_SOFT_FLOAT__))
#define TFLITE_FUSE_HAS_FPU 1
#else
#define TFLITE_FUSE_HAS_FPU 0
#endif
#endif

/* Names shared by the library's files only: they are not exported from a shared library. For one definition, and for
 * all declarations between the two. */
#if defined(__GNUC__) && (defined(__ELF__) || defined(__APPLE__))
#define TFLITE_FUSE_HIDDEN __attribute__((visibility("hidden")))
#define TFLITE_FUSE_HIDDEN_BEGIN _Pragma("GCC visibility push(hidden)")
#define TFLITE_FUSE_HIDDEN_END _Pragma("GCC visibility pop")
#else
#define TFLITE_FUSE_HIDDEN
#define TFLITE_FUSE_HIDDEN_BEGIN
#define TFLITE_FUSE_HIDDEN_END
#endif

#endif
