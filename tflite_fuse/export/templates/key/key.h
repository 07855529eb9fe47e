// The key of all devices of this split. It gives access to them: .gitignore keeps it out of repositories.
#ifndef KEY_H_
#define KEY_H_

#include <stdint.h>

$key
#endif
