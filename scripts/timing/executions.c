/* A plugin for QEMU: how often each block of code runs behind which other, and how often caches would miss.
 *
 *     -plugin libexecutions.so,out=FILE[,mark=ADDRESS][,code=SIZE:WAYS:LINE][,data=SIZE:WAYS:LINE][,ram=ADDRESS]
 *         [,cached=ADDRESS]
 *
 * A block is what the emulator translates at once: instructions up to a branch. Each call of the function at `mark` ends
 * an interval, and so does the end of the program. For each interval that ran something, the file has
 *
 *     interval
 *     misses <code> <flash> <ram> <stored>       lines not in the caches: of instructions, of data that was read below
 *                                                and from `ram` on, of data that was written; data from `cached` on
 *                                                is in no cache and never missed
 *     ran <address> <instructions> <address> <instructions> <times>      a block behind another
 *
 * with addresses in hexadecimal. The few declarations below are QEMU's documented plugin interface, version 1. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };
typedef void (*on_translation)(uint64_t plugin, struct qemu_plugin_tb* block);
typedef void (*on_execution)(unsigned cpu, void* data);
typedef void (*on_access)(unsigned cpu, uint32_t access, uint64_t address, void* data);
typedef void (*on_exit)(uint64_t plugin, void* data);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, on_translation call);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block, on_execution call, int flags, void* data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* instruction, on_access call, int flags, int kinds, void* data);
void qemu_plugin_register_atexit_cb(uint64_t plugin, on_exit call, void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* block);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn* instruction);
bool qemu_plugin_mem_is_store(uint32_t access);

EXPORTED int qemu_plugin_version = 1;

typedef struct block block;
typedef struct {
  block* to;
  uint64_t times;
} edge;
struct block {
  uint64_t address, bytes;
  size_t instructions;
  edge* edges; /* blocks that ran behind it */
  size_t used, room;
  block* other; /* the next of all blocks */
};

/* Least recently used lines are replaced. */
typedef struct {
  uint64_t sets, ways, line;
  uint64_t *tags, *used;
} cache;

static block *blocks, *before;
static cache code, data;
static uint64_t mark = UINT64_MAX, ram = 0x20000000, cached = UINT64_MAX, now;
static uint64_t missed_code, missed_flash, missed_ram, missed_stores;
static FILE* out;

static void* zeros(size_t bytes) {
  void* found = calloc(1, bytes);
  if (found == NULL) {
    abort();
  }
  return found;
}

static void set_up(cache* each, const char* text) {
  uint64_t size = 0;
  if (sscanf(text, "%" SCNu64 ":%" SCNu64 ":%" SCNu64, &size, &each->ways, &each->line) == 3 && each->ways && each->line) {
    each->sets = size / each->ways / each->line;
    each->tags = zeros(8 * each->sets * each->ways);
    each->used = zeros(8 * each->sets * each->ways);
  }
}

/* Whether the line at an address had to be fetched. */
static bool missed(cache* each, uint64_t address) {
  if (each->sets == 0) {
    return false;
  }
  const uint64_t line = address / each->line, first = line % each->sets * each->ways;
  uint64_t oldest = first;
  for (uint64_t way = first; way < first + each->ways; ++way) {
    if (each->tags[way] == line + 1) {
      each->used[way] = ++now;
      return false;
    }
    oldest = each->used[way] < each->used[oldest] ? way : oldest;
  }
  each->tags[oldest] = line + 1;
  each->used[oldest] = ++now;
  return true;
}

static void count(block* from, block* to) {
  for (size_t i = 0; i < from->used; ++i) {
    if (from->edges[i].to == to) {
      ++from->edges[i].times;
      return;
    }
  }
  if (from->used == from->room) {
    from->room = 2 * from->room + 2;
    from->edges = realloc(from->edges, from->room * sizeof(edge));
    if (from->edges == NULL) {
      abort();
    }
  }
  from->edges[from->used++] = (edge){to, 1};
}

static void end_interval(void) {
  fprintf(out, "interval\nmisses %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", missed_code, missed_flash, missed_ram,
          missed_stores);
  missed_code = missed_flash = missed_ram = missed_stores = 0;
  for (block* from = blocks; from != NULL; from = from->other) {
    for (size_t i = 0; i < from->used; ++i) {
      const edge* each = &from->edges[i];
      fprintf(out, "ran %" PRIx64 " %zu %" PRIx64 " %zu %" PRIu64 "\n", from->address, from->instructions, each->to->address,
              each->to->instructions, each->times);
    }
    from->used = 0;
  }
}

static void executed(unsigned cpu, void* which) {
  block* here = which;
  (void)cpu;
  if (before != NULL) {
    count(before, here);
  }
  before = here;
  if (here->address == mark) {
    end_interval();
  }
  if (code.sets != 0) {
    for (uint64_t line = here->address / code.line; line <= (here->address + here->bytes - 1) / code.line; ++line) {
      missed_code += missed(&code, line * code.line);
    }
  }
}

static void accessed(unsigned cpu, uint32_t access, uint64_t address, void* nothing) {
  (void)cpu;
  (void)nothing;
  if (address < cached && missed(&data, address)) {
    ++*(qemu_plugin_mem_is_store(access) ? &missed_stores : address < ram ? &missed_flash : &missed_ram);
  }
}

static block* block_of(uint64_t address, size_t instructions) {
  for (block* each = blocks; each != NULL; each = each->other) {
    if (each->address == address && each->instructions == instructions) {
      return each;
    }
  }
  block* each = zeros(sizeof(block));
  each->address = address;
  each->instructions = instructions;
  each->other = blocks;
  blocks = each;
  return each;
}

static void translated(uint64_t plugin, struct qemu_plugin_tb* translation) {
  const size_t instructions = qemu_plugin_tb_n_insns(translation);
  block* here = block_of(qemu_plugin_tb_vaddr(translation), instructions);
  (void)plugin;
  here->bytes = 0;
  for (size_t i = 0; i < instructions; ++i) {
    struct qemu_plugin_insn* each = qemu_plugin_tb_get_insn(translation, i);
    here->bytes += qemu_plugin_insn_size(each);
    if (data.sets != 0) {
      qemu_plugin_register_vcpu_mem_cb(each, accessed, NO_REGISTERS, READS_AND_WRITES, NULL);
    }
  }
  qemu_plugin_register_vcpu_tb_exec_cb(translation, executed, NO_REGISTERS, here);
}

static void ended(uint64_t plugin, void* nothing) {
  (void)plugin;
  (void)nothing;
  end_interval();
  fclose(out);
}

EXPORTED int qemu_plugin_install(uint64_t plugin, const void* machine, int arguments, char** values) {
  (void)machine;
  for (int i = 0; i < arguments; ++i) {
    char* value = strchr(values[i], '=');
    if (value == NULL) {
      return 1;
    }
    *value++ = 0;
    if (strcmp(values[i], "out") == 0) {
      out = fopen(value, "w");
    } else if (strcmp(values[i], "mark") == 0) {
      mark = strtoull(value, NULL, 0);
    } else if (strcmp(values[i], "ram") == 0) {
      ram = strtoull(value, NULL, 0);
    } else if (strcmp(values[i], "cached") == 0) {
      cached = strtoull(value, NULL, 0);
    } else if (strcmp(values[i], "code") == 0) {
      set_up(&code, value);
    } else if (strcmp(values[i], "data") == 0) {
      set_up(&data, value);
    }
  }
  if (out == NULL) {
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
  qemu_plugin_register_atexit_cb(plugin, ended, NULL);
  return 0;
}
