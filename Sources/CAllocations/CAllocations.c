// Counting stand-ins for glibc's allocator. They hand every call on to it; `free` is not touched.
#define _GNU_SOURCE
#include "CAllocations.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

enum { THREADS_MAX = 256, RANGES_MAX = 32 };

struct thread_count {
  _Atomic int id;
  _Atomic uint64_t count;
  _Atomic uint64_t own;
};

static struct thread_count threads[THREADS_MAX];
static _Atomic int threads_used;
static _Thread_local struct thread_count *mine;
static _Thread_local int is_unlisted;

/// Where the program and the Swift runtime lie in memory.
static struct { uintptr_t start, end; } own_ranges[RANGES_MAX];
static int own_range_count;

static int add_range(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size;
  (void)unused;
  // The program itself has no name.
  if (info->dlpi_name[0] && !strstr(info->dlpi_name, "/libswift")) return 0;
  for (int i = 0; i < info->dlpi_phnum && own_range_count < RANGES_MAX; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
    own_ranges[own_range_count].start = info->dlpi_addr + header->p_vaddr;
    own_ranges[own_range_count].end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
    own_range_count++;
  }
  return 0;
}

void allocations_begin(void) {
  own_range_count = 0;
  dl_iterate_phdr(add_range, NULL);
}

static bool is_own(uintptr_t caller) {
  for (int i = 0; i < own_range_count; i++) {
    if (caller >= own_ranges[i].start && caller < own_ranges[i].end) return true;
  }
  return false;
}

static void increment(_Atomic uint64_t *count) {
  // Only its own thread writes it: no locked instruction is needed.
  atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void count_one(const void *caller) {
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
  increment(&mine->count);
  if (is_own((uintptr_t)caller)) increment(&mine->own);
}

void *malloc(size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
  count_one(__builtin_return_address(0));
  void *memory = __libc_memalign(alignment, size);
  if (!memory) return ENOMEM;
  *result = memory;
  return 0;
}

uint64_t allocations_of_threads_named(const char *name, bool own) {
  uint64_t sum = 0;
  int used = atomic_load(&threads_used);
  for (int place = 0; place < used && place < THREADS_MAX; place++) {
    char path[64], seen[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", atomic_load(&threads[place].id));
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fgets(seen, sizeof seen, file)) seen[strcspn(seen, "\n")] = 0;
    fclose(file);
    if (strcmp(seen, name) != 0) continue;
    uint64_t of_own = atomic_load_explicit(&threads[place].own, memory_order_relaxed);
    sum += own ? of_own : atomic_load_explicit(&threads[place].count, memory_order_relaxed) - of_own;
  }
  return sum;
}
