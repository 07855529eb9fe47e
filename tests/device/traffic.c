/* A plugin of QEMU that counts the bytes that instructions read and write in each region=FIRST-END, and prints them at
 * the end, a line for each region. A write to the address switch=ADDRESS starts the counts, the next one stops them.
 *
 * What it uses of QEMU's interface is declared here, as Debian has no package of the header. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
typedef void (*on_access)(unsigned core, uint32_t info, uint64_t address, void* data);
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*callback)(uint64_t, struct qemu_plugin_tb*));
void qemu_plugin_register_atexit_cb(uint64_t id, void (*callback)(uint64_t, void*), void* data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*, on_access, int registers, int which, void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t number);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);

EXPORTED int qemu_plugin_version = 1;
EXPORTED int qemu_plugin_install(uint64_t id, const struct qemu_info_t* info, int count, char** arguments);

enum { MOST_REGIONS = 4 };

static struct {
  uint64_t first, end, bytes[2]; /* read, written */
} regions[MOST_REGIONS];
static int region_count;
static uint64_t start_or_stop;
static bool counting;

static void count_access(unsigned core, uint32_t info, uint64_t address, void* data) {
  (void)core, (void)data;
  if (address == start_or_stop) {
    counting = counting != qemu_plugin_mem_is_store(info);
  }
  for (int i = 0; counting && i < region_count; ++i) {
    if (address >= regions[i].first && address < regions[i].end) {
      regions[i].bytes[qemu_plugin_mem_is_store(info)] += UINT64_C(1) << qemu_plugin_mem_size_shift(info);
    }
  }
}

static void count_in(uint64_t id, struct qemu_plugin_tb* code) {
  (void)id;
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(code); ++i) {
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(code, i), count_access, NO_REGISTERS, READS_AND_WRITES,
                                     NULL);
  }
}

static void report(uint64_t id, void* data) {
  (void)id, (void)data;
  for (int i = 0; i < region_count; ++i) {
    printf("traffic %llu %llu\n", (unsigned long long)regions[i].bytes[0], (unsigned long long)regions[i].bytes[1]);
  }
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t* info, int count, char** arguments) {
  (void)info;
  for (int i = 0; i < count; ++i) {
    if (strncmp(arguments[i], "switch=", 7) == 0) {
      start_or_stop = strtoull(arguments[i] + 7, NULL, 0);
    } else if (strncmp(arguments[i], "region=", 7) == 0 && region_count < MOST_REGIONS) {
      char* end = arguments[i] + 7;
      regions[region_count].first = strtoull(end, &end, 0);
      regions[region_count].end = strtoull(end + 1, NULL, 0);
      ++region_count;
    }
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_in);
  qemu_plugin_register_atexit_cb(id, report, NULL);
  return 0;
}
