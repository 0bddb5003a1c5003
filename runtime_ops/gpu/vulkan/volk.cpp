// Loads Vulkan when it is first used.
#define VOLK_IMPLEMENTATION
#include <volk.h>
