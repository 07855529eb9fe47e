/* A plugin of QEMU that counts the bytes instructions read and write between two addresses, and says so at the end.
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

static uint64_t first, end, bytes[2]; /* read, written */

static void count_access(unsigned core, uint32_t info, uint64_t address, void* data) {
  (void)core, (void)data;
  if (address >= first && address < end) {
    bytes[qemu_plugin_mem_is_store(info)] += UINT64_C(1) << qemu_plugin_mem_size_shift(info);
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
  printf("traffic %llu %llu\n", (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t* info, int count, char** arguments) {
  (void)info;
  for (int i = 0; i < count; ++i) {
    if (strncmp(arguments[i], "first=", 6) == 0) {
      first = strtoull(arguments[i] + 6, NULL, 0);
    } else if (strncmp(arguments[i], "end=", 4) == 0) {
      end = strtoull(arguments[i] + 4, NULL, 0);
    }
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_in);
  qemu_plugin_register_atexit_cb(id, report, NULL);
  return 0;
}
