#pragma once

// Marks what a program may link to. The library is built with -fvisibility=hidden: what is not marked here stays
// inside, so that inner types can change without breaking anybody's binary.
#if defined(__GNUC__)
#define SHMCOORD_EXPORT __attribute__((visibility("default")))
#else
#define SHMCOORD_EXPORT
#endif
