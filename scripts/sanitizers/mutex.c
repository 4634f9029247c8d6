// Shows the thread sanitizer Swift's Mutex where two threads meet at it; scripts/sanitize links it in for that sanitizer.
//
// Of Mutex.withLock only the way without a contender is compiled into the program, where its compare-and-exchange is
// seen. Who has to wait for the lock, or to wake who waits, calls the standard library, which is not instrumented: what
// the lock orders was reported as a race. These stand before the library's functions, call them, and say what they did.
// Were they renamed in a later Swift, these would never be called and such reports would be back.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

// Of the sanitizer's runtime, on the address whose exchanges it sees: the handle is that one word. Weak: build tools are
// linked with this file too, but without a sanitizer.
__attribute__((weak)) void __tsan_acquire(void *word);
__attribute__((weak)) void __tsan_release(void *word);

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

static void *following(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) {
    fprintf(stderr, "error: Swift's Synchronization library has no %s\n", name);
    abort();
  }
  return found;
}

SWIFT void lock_slow(uint32_t self_id, SELF void *handle) __asm__(LOCK_SLOW);
SWIFT void lock_slow(uint32_t self_id, SELF void *handle) {
  typedef SWIFT void (*Function)(uint32_t, SELF void *);
  ((Function)following(LOCK_SLOW))(self_id, handle);
  if (__tsan_acquire) __tsan_acquire(handle);
}

SWIFT bool try_lock_slow(SELF void *handle) __asm__(TRY_LOCK_SLOW);
SWIFT bool try_lock_slow(SELF void *handle) {
  typedef SWIFT bool (*Function)(SELF void *);
  bool locked = ((Function)following(TRY_LOCK_SLOW))(handle);
  if (locked && __tsan_acquire) __tsan_acquire(handle);
  return locked;
}

SWIFT void unlock_slow(SELF void *handle) __asm__(UNLOCK_SLOW);
SWIFT void unlock_slow(SELF void *handle) {
  typedef SWIFT void (*Function)(SELF void *);
  if (__tsan_release) __tsan_release(handle);
  ((Function)following(UNLOCK_SLOW))(handle);
}
