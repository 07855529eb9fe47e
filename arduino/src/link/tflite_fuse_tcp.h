/* Declares a transport over TCP, for systems with POSIX sockets. */
#ifndef TFLITE_FUSE_LINK_TCP_H_
#define TFLITE_FUSE_LINK_TCP_H_

#include "../tflite_fuse_link.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int listener;
} tflite_fuse_tcp;

/* Listens at "host:port", port 0 for any, and makes the transport. Returns 0 on success. `tcp` must outlive it. */
int tflite_fuse_tcp_listen(tflite_fuse_tcp* tcp, tflite_fuse_transport* transport, const char* address);

/* Returns the port of the listener, -1 on failure. */
int tflite_fuse_tcp_port(const tflite_fuse_tcp* tcp);

#ifdef __cplusplus
}
#endif

#endif
