// Counting stand-ins for glibc's allocator. They hand every call on to it; `free` is not touched.
#define _GNU_SOURCE
#include "CAllocations.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

enum { THREADS_MAX = 256 };

struct thread_count {
  _Atomic int id;
  _Atomic uint64_t count;
};

static struct thread_count threads[THREADS_MAX];
static _Atomic int threads_used;
static _Thread_local struct thread_count *mine;
static _Thread_local int is_unlisted;

static void count_one(void) {
  if (!mine) {
    if (is_unlisted) return;
    int place = atomic_fetch_add(&threads_used, 1);
    if (place >= THREADS_MAX) {
      is_unlisted = 1;
      return;
    }
    mine = &threads[place];
    atomic_store(&mine->id, gettid());
  }
  // Only its own thread writes it: no locked instruction is needed.
  uint64_t count = atomic_load_explicit(&mine->count, memory_order_relaxed);
  atomic_store_explicit(&mine->count, count + 1, memory_order_relaxed);
}

void *malloc(size_t size) {
  count_one();
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  count_one();
  return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
  count_one();
  return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
  count_one();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count_one();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
  count_one();
  void *memory = __libc_memalign(alignment, size);
  if (!memory) return ENOMEM;
  *result = memory;
  return 0;
}

uint64_t allocations_of_threads_named(const char *name) {
  uint64_t sum = 0;
  int used = atomic_load(&threads_used);
  for (int place = 0; place < used && place < THREADS_MAX; place++) {
    char path[64], seen[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", atomic_load(&threads[place].id));
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fgets(seen, sizeof seen, file)) seen[strcspn(seen, "\n")] = 0;
    fclose(file);
    if (strcmp(seen, name) == 0) sum += atomic_load_explicit(&threads[place].count, memory_order_relaxed);
  }
  return sum;
}
