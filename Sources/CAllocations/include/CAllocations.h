// Counts what a process allocates, by thread. Linking this target replaces malloc and its kin by counting ones.
#pragma once

#include <stdint.h>

/// Allocations (malloc, calloc, realloc and the aligned ones) so far by all threads of this process with this name; a
/// thread's name is what /proc/self/task/*/comm says. Threads beyond the first 256 are not counted.
uint64_t allocations_of_threads_named(const char *name);
