/* Included where code begins that runs rarely: it is made to be small, whatever the rest is made to be. What is switched
 * off spends code on speed even then; measured with GCC 12 for Thumb. No guard: a file may switch back and forth. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os", "no-tree-loop-im", "no-schedule-insns", "no-schedule-insns2", "no-tree-scev-cprop", \
                     "no-tree-ter", "no-ivopts")
#endif
