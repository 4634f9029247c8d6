// Counts what a process allocates, by thread. Linking this target replaces malloc and its kin by counting ones.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Counting starts to tell the program and the Swift runtime from the C libraries. Called once, before threads start.
void allocations_begin(void);

/// Allocations (malloc, calloc, realloc and the aligned ones) by all threads of this process with this name: those that
/// the program and the Swift runtime asked for (`own`), or those that any other library did. A thread's name is what
/// /proc/self/task/*/comm says. Threads beyond the first 256 are not counted.
uint64_t allocations_of_threads_named(const char *name, bool own);
