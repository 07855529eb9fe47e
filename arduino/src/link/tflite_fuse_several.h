/* Declares a transport that joins several, for a coordinator whose workers are connected in different ways:
 * "1/192.168.1.5:7000" is the address "192.168.1.5:7000" of the second transport, "0/" the serial line of the first. */
#ifndef TFLITE_FUSE_LINK_SEVERAL_H_
#define TFLITE_FUSE_LINK_SEVERAL_H_

#include "../tflite_fuse_link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fields are the library's own. */
typedef struct {
  const tflite_fuse_transport* const* parts;
  int count;
} tflite_fuse_several;

/* Makes the transport from one to ten others; clock and random source are the first one's. All must outlive it. It can
 * only dial: it accepts no connections. */
void tflite_fuse_several_open(tflite_fuse_several* several, const tflite_fuse_transport* const* parts, int count,
                              tflite_fuse_transport* transport);

#ifdef __cplusplus
}
#endif

#endif
