// The network of all boards. Yours to change.
#ifndef NETWORK_H_
#define NETWORK_H_

#define WIFI_NAME "name"
#define WIFI_PASSWORD "password"
#define NETWORK_MASK 255, 255, 255, 0
#define NETWORK_GATEWAY 192, 168, 1, 1

// Bits a second on serial lines between boards.
#define LINE_SPEED 1000000

#endif
