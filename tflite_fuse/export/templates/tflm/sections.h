/* The memories that the two arrays of the arena lie in: yours to change, or to define for the compiler. Activations are
 * read and written all the time, the runtime's own data seldom. */
#if defined(ESP_PLATFORM)
#include "esp_attr.h"
#endif
#if !defined(MODEL_PERSISTENT_SECTION) && defined(EXT_RAM_BSS_ATTR)
#define MODEL_PERSISTENT_SECTION EXT_RAM_BSS_ATTR
#elif !defined(MODEL_PERSISTENT_SECTION) && defined(ARDUINO_TEENSY41)
#define MODEL_PERSISTENT_SECTION __attribute__((section(".dmabuffers")))
#elif !defined(MODEL_PERSISTENT_SECTION)
#define MODEL_PERSISTENT_SECTION
#endif
#if !defined(MODEL_ACTIVATIONS_SECTION) && defined(MODEL_HAS_DTCM)
#define MODEL_ACTIVATIONS_SECTION __attribute__((section(".dtcm")))
#elif !defined(MODEL_ACTIVATIONS_SECTION)
#define MODEL_ACTIVATIONS_SECTION
#endif
