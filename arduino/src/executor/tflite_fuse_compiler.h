/* What compilers are asked for, function by function. All of it may be empty. Private to the library. */
#ifndef TFLITE_FUSE_COMPILER_H_
#define TFLITE_FUSE_COMPILER_H_

#if defined(__GNUC__)
#define TFLITE_FUSE_INLINE static inline __attribute__((always_inline))
#define TFLITE_FUSE_NOINLINE __attribute__((noinline))
/* Runs when a model is loaded, once per inference or in few models: compiled for size whatever the build's level is. */
#define TFLITE_FUSE_RARE __attribute__((cold))
/* Runs often, though all that call it run rarely: compilers pass that on otherwise. */
#define TFLITE_FUSE_OFTEN __attribute__((hot))
/* Finishes four sums before anything is loaded for the next ones. Compilers load far ahead otherwise, run out of registers
 * and spill. */
#define TFLITE_FUSE_SETTLE(a, b, c, d) __asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d) : "memory")
/* Hides how a value came about. Compilers keep several copies of one counter otherwise, which costs registers. */
#define TFLITE_FUSE_HIDE(value) __asm__("" : "+r"(value))
/* The same of a float32, where the core has an instruction for product and sum in one, which rounds once. */
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

/* Names that the files of the library share, and no application: they are not exported from a shared library. For one
 * definition, and for all declarations between the two. */
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
