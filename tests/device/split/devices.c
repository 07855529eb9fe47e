/* All devices of a split on one core: workers and a coordinator, each with its fragment and its buffer, messages handed
 * from one to another.
 *
 *     worker <bytes of state> 0 0
 *     open <device> <status> <bytes of stack>
 *     run <device> <status> <bytes of stack>     the most of all steps
 *     output <hexadecimal bytes>                 for each inference and output
 *
 * The generated fragments.h defines `devices`, the coordinator being the last one, INFERENCES, INPUTS and OUTPUTS. */
#include "report.h"
#include "tflite_fuse_worker.h"

typedef struct {
  const uint8_t *fragment, *fragment_end;
  uint8_t* buffer;
  uint32_t buffer_bytes;
} split_device;

#include "fragments.h"

enum { DEVICES = sizeof(devices) / sizeof(devices[0]), COORDINATOR = DEVICES - 1 };

static tflite_fuse_worker workers[DEVICES];
static uint32_t deepest[DEVICES];
static uint8_t payload[TFLITE_FUSE_PAYLOAD_BYTES];

static int32_t number_of(int16_t peer) { return peer == TFLITE_FUSE_COORDINATOR ? COORDINATOR : peer; }

static int16_t peer_of(int32_t device) { return device == COORDINATOR ? TFLITE_FUSE_COORDINATOR : (int16_t)device; }

/* Does what a device can do now. Whether it did anything, or a negative number for an error. */
static int go_on(int32_t device) {
  tflite_fuse_worker* worker = &workers[device];
  const tflite_fuse_event event = tflite_fuse_worker_next(worker);
  if (event.kind == TFLITE_FUSE_COMPUTE) {
    paint_stack();
    const tflite_fuse_status status = tflite_fuse_worker_compute(worker);
    const uint32_t used = stack_used();
    deepest[device] = used > deepest[device] ? used : deepest[device];
    return status == TFLITE_FUSE_OK ? 1 : -(int)status;
  }
  if (event.kind != TFLITE_FUSE_SEND) {
    return 0;
  }
  tflite_fuse_worker* receiver = &workers[number_of(event.peer)];
  const tflite_fuse_event awaited = tflite_fuse_worker_next(receiver);
  if (awaited.kind != TFLITE_FUSE_RECEIVE || awaited.peer != peer_of(device) || awaited.sequence != event.sequence) {
    return 0;
  }
  paint_stack();
  tflite_fuse_status status = tflite_fuse_worker_payload(worker, payload);
  if (status == TFLITE_FUSE_OK) status = tflite_fuse_worker_sent(worker);
  if (status == TFLITE_FUSE_OK) status = tflite_fuse_worker_received(receiver, payload, event.bytes);
  const uint32_t used = stack_used();
  deepest[device] = used > deepest[device] ? used : deepest[device];
  return status == TFLITE_FUSE_OK ? 1 : -(int)status;
}

static int run(uint32_t inference) {
  uint32_t bytes = 0;
  for (int32_t d = 0; d < DEVICES; ++d) {
    tflite_fuse_worker_begin(&workers[d]);
  }
  for (uint32_t i = 0; i < INPUTS; ++i) {
    uint8_t* place = tflite_fuse_worker_input(&workers[COORDINATOR], i, &bytes);
    memcpy(place, input_values[i] + (size_t)inference * bytes, bytes);
  }
  for (int progress = 1; progress != 0;) {
    progress = 0;
    for (int32_t d = 0; d < DEVICES; ++d) {
      const int done = go_on(d);
      if (done < 0) {
        write_line("run ", (uint64_t)d, (uint64_t)-done, 0);
        return 1;
      }
      progress |= done;
    }
  }
  for (int32_t d = 0; d < DEVICES; ++d) {
    if (tflite_fuse_worker_next(&workers[d]).kind != TFLITE_FUSE_FINISHED) {
      write_line("stuck ", (uint64_t)d, tflite_fuse_worker_next(&workers[d]).step, 0);
      return 1;
    }
  }
  for (uint32_t o = 0; o < OUTPUTS; ++o) {
    const void* place = tflite_fuse_worker_output(&workers[COORDINATOR], o, &bytes);
    write_bytes(place, bytes);
  }
  return 0;
}

int main(void) {
  write_line("worker ", sizeof(tflite_fuse_worker), 0, 0);
  for (int32_t d = 0; d < DEVICES; ++d) {
    const split_device* device = &devices[d];
    paint_stack();
    const tflite_fuse_status status =
        tflite_fuse_worker_open(&workers[d], device->fragment, (size_t)(device->fragment_end - device->fragment),
                                device->buffer, device->buffer_bytes);
    const uint32_t used = stack_used();
    write_line("open ", (uint64_t)d, status, used);
    if (status != TFLITE_FUSE_OK) {
      return 1;
    }
  }
  for (uint32_t inference = 0; inference < INFERENCES; ++inference) {
    if (run(inference) != 0) {
      return 1;
    }
  }
  for (int32_t d = 0; d < DEVICES; ++d) {
    write_line("run ", (uint64_t)d, TFLITE_FUSE_OK, deepest[d]);
  }
  return 0;
}
