/* Computes long short-term memory (LSTM) layers: pixels are time steps, computed in order, and the cell states and
 * outputs of each step are inputs of the next. */

#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

enum { INPUT_GATE, FORGET_GATE, CELL_GATE, OUTPUT_GATE, GATES };
enum { STEPS = 256, SCALES = 2 * GATES + 3 };

typedef struct {
  int32_t multiplier, shift;
} scale;

typedef struct {
  scale of_gates[GATES][2]; /* one scale for sums over the input, one for sums over the last output */
  scale forget_product, input_product, output_product;
  int32_t curve_multiplier, curve_shift, clip, zero_point;
  uint16_t sigmoid[STEPS];
} lstm_table; /* followed by int32 biases[GATES][2][channels] */

static int32_t to_int16(int32_t value) {
  return tflite_fuse_max(tflite_fuse_min(value, INT16_MAX), INT16_MIN);
}

static int32_t multiplied(int32_t value, const scale* by) {
  return tflite_fuse_multiply(value, by->multiplier, by->shift);
}

static TFLITE_FUSE_NOINLINE int32_t scaled(int32_t value, const scale* by) { return to_int16(multiplied(value, by)); }

/* Returns a gate's sum of products, scaled to int16. Values are the stored ones plus an offset, modulo 256. */
static int32_t gate_sum(int32_t sum, const int8_t* values, int32_t offset, const int8_t* weights, int32_t count,
                        const scale* by) {
  for (int32_t i = 0; i < count; ++i) {
    sum = tflite_fuse_mac(sum, (int8_t)(values[i] + offset), weights[i]);
  }
  return scaled(sum, by);
}

/* Returns the sigmoid or hyperbolic tangent in units of 2^-15. value: three times the argument, in units of 2^-12.
 * tanh is a stretched sigmoid of twice the argument. Both are symmetric, and interpolated linearly between the
 * entries of the table. */
static int32_t curve_of(const lstm_table* table, int32_t value, bool is_tanh) {
  const int32_t bits = is_tanh ? 8 : 9;
  const uint32_t number = (uint32_t)(value < 0 ? -value : value), step = number >> bits;
  uint32_t above = is_tanh ? UINT32_C(65535) << 8 : UINT32_C(65534) << 9;
  if (step < STEPS - 1) {
    const uint32_t low = table->sigmoid[step], fraction = number & ((UINT32_C(1) << bits) - 1);
    above = (low << bits) + fraction * (table->sigmoid[step + 1] - low);
  }
  const int32_t height = ((int32_t)above - (INT32_C(1) << (15 + bits))) ^ (value >> 31);
  return is_tanh ? (height + (1 << 7)) >> 8 : (height + (1 << 24) + (1 << 9)) >> 10;
}

/* Advances the cell state of one channel by one time step and returns the channel's output. */
static int8_t step_of(const tflite_fuse_call* call, const int8_t* input, const int8_t* last, int16_t* cell, int32_t c) {
  const lstm_table* table = call->table;
  const int32_t channels = call->output->channels, depth = call->inputs[0]->channels;
  const int32_t* bias = (const int32_t*)(const void*)(table + 1) + c;
  const int8_t* weights = call->weights + (size_t)c * (size_t)(depth + channels);
  int32_t gates[GATES];
  for (int32_t g = 0; g < GATES; ++g) {
    const scale* by = table->of_gates[g];
    const int32_t sum = gate_sum(bias[0], input, 0, weights, depth, &by[0]) +
                        gate_sum(bias[channels], last, table->zero_point, weights + depth, channels, &by[1]);
    gates[g] = curve_of(table, 3 * to_int16(sum), g == CELL_GATE);
    bias += 2 * channels;
    weights += (size_t)channels * (size_t)(depth + channels);
  }
  const int32_t state = to_int16(scaled(gates[FORGET_GATE] * *cell, &table->forget_product) +
                                 scaled(gates[INPUT_GATE] * gates[CELL_GATE], &table->input_product));
  *cell = (int16_t)tflite_fuse_max(tflite_fuse_min(state, table->clip), -table->clip);
  const int32_t scaled_cell = ((*cell * table->curve_multiplier * 2 >> table->curve_shift) + 1) >> 1;
  const int32_t activated_cell = curve_of(table, scaled_cell, true);
  const int32_t output = multiplied(activated_cell * gates[OUTPUT_GATE], &table->output_product);
  return tflite_fuse_clamp(tflite_fuse_wrapping_add(output, table->zero_point), INT8_MIN, INT8_MAX);
}

static TFLITE_FUSE_RARE void lstm(const tflite_fuse_call* call) {
  const lstm_table* table = call->table;
  const int32_t channels = call->output->channels;
  int16_t* cells = (int16_t*)(void*)call->windows[1][0];
  int8_t* last = (int8_t*)(cells + channels);
  for (int32_t i = 0; i < call->count; ++i) {
    int8_t* output = call->outputs[i];
    for (int32_t c = 0; c < channels; ++c) {
      output[c] = step_of(call, call->windows[0][i], last, cells + c, c);
    }
    for (int32_t c = 0; c < channels; ++c) {
      last[c] = (int8_t)(output[c] - table->zero_point);
    }
  }
}

/* Restores or commits the memory. A run updates its first half; the second half holds the result of the last
 * successful run. */
static TFLITE_FUSE_RARE tflite_fuse_status keep(const tflite_fuse_block* block, const tflite_fuse_stage* stage,
                                                const tflite_fuse_io* io, bool is_done) {
  const tflite_fuse_tensor* memory = tflite_fuse_input_of(block, stage, 1);
  uint32_t* mark = tflite_fuse_mark_of(io->state, memory);
  int8_t* now = (int8_t*)(mark + 1);
  const size_t half = (size_t)memory->channels / 2;
  if (is_done) {
    *mark = 1 + (*mark & 1); /* a changed mark shows the blocks that follow that a step was committed */
    memcpy(now + half, now, half);
  } else {
    memcpy(now, now + half, half);
  }
  return TFLITE_FUSE_OK;
}

/* Returns whether the second input is a memory of the right size: two halves of even size, each with the int16 cell
 * states and the last int8 outputs. */
static TFLITE_FUSE_RARE bool has_memory(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* memory = tflite_fuse_input_of(block, stage, 1);
  return memory->storage == TFLITE_FUSE_STORAGE_PERSISTENT && memory->producer == TFLITE_FUSE_NONE &&
         (uint32_t)memory->channels == ((6 * (uint32_t)block->tensors[stage->output].channels + 2) & ~UINT32_C(3));
}

static TFLITE_FUSE_RARE int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                             const tflite_fuse_tensor* output) {
  const int32_t row = input->channels + output->channels;
  return is_packed(stage) ? -1 : (int64_t)tflite_fuse_volume(GATES, row, output->channels);
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage;
  const lstm_table* parameters = table;
  const int64_t biases = (int64_t)output->channels * 2 * GATES * (int64_t)sizeof(int32_t);
  if (room < (int64_t)sizeof(lstm_table) + biases || (uint32_t)parameters->curve_multiplier > INT16_MAX ||
      (uint32_t)parameters->curve_shift > 30 || (uint32_t)parameters->clip > -INT16_MIN ||
      parameters->zero_point != (int8_t)parameters->zero_point) {
    return false;
  }
  const scale* scales = parameters->of_gates[0];
  for (int32_t i = 0; i < SCALES; ++i) {
    if (scales[i].multiplier == INT32_MIN || (uint32_t)scales[i].shift + 31 > 61) {
      return false;
    }
  }
  return true;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_lstm = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .fits = has_memory,
    .weight_bytes = weight_bytes,
    .table_is_sound = table_is_sound,
    .keep = keep,
    .compute = lstm,
};
