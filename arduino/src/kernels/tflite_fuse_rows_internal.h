/* What the executor asks before it calls a kernel of a block that has row kernels. Private to the library. */
#ifndef TFLITE_FUSE_ROWS_INTERNAL_H_
#define TFLITE_FUSE_ROWS_INTERNAL_H_

#include "../executor/tflite_fuse_machine.h"

/* Whether the application's kernel computed the call; while it is tried, the library's has computed it again. */
bool tflite_fuse_ask_rows(const tflite_fuse_block* block, const tflite_fuse_entry* entry, const tflite_fuse_call* call);

#endif
