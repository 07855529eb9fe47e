/* Tensors between blocks lie in a second memory, which may be slower. The compiler's flags name its section:
 * -DMODEL_MEMORY_SECTION='__attribute__((section(".sdram")))' */
#if defined(ESP_PLATFORM)
#include "esp_attr.h"
#endif
#if !defined(MODEL_MEMORY_SECTION) && defined(EXT_RAM_BSS_ATTR)
#define MODEL_MEMORY_SECTION EXT_RAM_BSS_ATTR
#elif !defined(MODEL_MEMORY_SECTION) && defined(EXTMEM)
#define MODEL_MEMORY_SECTION EXTMEM
#elif !defined(MODEL_MEMORY_SECTION)
#define MODEL_MEMORY_SECTION
#endif
static uint8_t second_memory[MODEL_MEMORY_BYTES] __attribute__((aligned(16))) MODEL_MEMORY_SECTION;
