/* The coordinator on this machine: FRAGMENT MILLISECONDS DIALS WORKER=ADDRESS ... with DIALS as "0-1,0-2" or "-". Reads inputs,
 * one inference after another, from its standard input; after each writes a line: "0" and the outputs in hexadecimal, or the
 * fault, the worker and what is to be said of it. An address that begins with a slash is a serial line. */
#include "tflite_fuse_coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { MOST = 9 };

static int read_dials(const char* text, tflite_fuse_dial* dials) {
  int count = 0, from, to, used;
  while (count < 2 * MOST && sscanf(text, "%d-%d%n", &from, &to, &used) == 2) {
    dials[count++] = (tflite_fuse_dial){(int16_t)from, (int16_t)to};
    text += used + (text[used] == ',');
  }
  return count;
}

static int read_inputs(tflite_fuse_worker* machine) {
  uint32_t bytes;
  void* place;
  for (uint32_t i = 0; (place = tflite_fuse_worker_input(machine, i, &bytes)) != NULL; ++i) {
    if (fread(place, 1, bytes, stdin) != bytes) return -1;
  }
  return 0;
}

static void write_outputs(const tflite_fuse_worker* machine) {
  uint32_t bytes;
  const uint8_t* place;
  printf("0 ");
  for (uint32_t i = 0; (place = tflite_fuse_worker_output(machine, i, &bytes)) != NULL; ++i) {
    for (uint32_t b = 0; b < bytes; ++b) printf("%02x", place[b]);
  }
  printf("\n");
}

int main(int count, char** arguments) {
  static _Alignas(4) uint8_t frame[TFLITE_FUSE_FRAME_BYTES];
  static tflite_fuse_session sessions[MOST];
  static tflite_fuse_contact contacts[MOST];
  static tflite_fuse_dial dials[2 * MOST];
  static char addresses[MOST][80];
  static tflite_fuse_transport parts[MOST];
  static const tflite_fuse_transport* ways[MOST];
  static host_line lines[MOST];
  tflite_fuse_worker machine;
  tflite_fuse_tcp tcp;
  tflite_fuse_several several;
  tflite_fuse_transport transport;
  tflite_fuse_coordinator coordinator;
  const int workers = count - 4;
  if (workers < 1 || workers > MOST || host_open(&machine, arguments[1]) != 0) return 2;
  if (tflite_fuse_tcp_listen(&tcp, &parts[0], "127.0.0.1:0") != 0) return 4;
  ways[0] = &parts[0];
  int way_count = 1;
  for (int i = 0; i < workers; ++i) {
    char* equals = strchr(arguments[4 + i], '=');
    if (equals == NULL || strlen(equals) > sizeof(addresses[i]) - 3) return 2;
    const bool is_serial = equals[1] == '/';
    if (is_serial && host_line_open(&lines[i], &parts[way_count], &parts[0], equals + 1) != 0) return 5;
    snprintf(addresses[i], sizeof(addresses[i]), "%d/%s", is_serial ? way_count : 0, equals + 1);
    contacts[i] = (tflite_fuse_contact){(int16_t)atoi(arguments[4 + i]), addresses[i], addresses[i] + 2};
    if (is_serial) {
      ways[way_count] = &parts[way_count];
      ++way_count;
    }
  }
  tflite_fuse_several_open(&several, ways, way_count, &transport);
  tflite_fuse_coordinator_open(&coordinator, &machine, &transport, frame, sessions, contacts, (uint16_t)workers, dials,
                               (uint16_t)read_dials(arguments[3], dials));
  while (read_inputs(&machine) == 0) {
    const tflite_fuse_verdict end = tflite_fuse_coordinator_infer(&coordinator, (uint32_t)atoi(arguments[2]));
    if (end.fault == TFLITE_FUSE_LINK_OK) {
      write_outputs(&machine);
    } else {
      printf("%d %d %s\n", (int)end.fault, end.worker, tflite_fuse_link_message(end.fault));
    }
    fflush(stdout);
  }
  tflite_fuse_coordinator_close(&coordinator);
  return 0;
}
