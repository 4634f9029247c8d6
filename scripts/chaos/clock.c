/* Preloaded into a process, shifts its wall clock by SHIFTED_CLOCK_MS. `time` stays, by which OpenSSL checks certificates: those of
 * a test are new. Its timers go on as they were. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
  const char *text = getenv("SHIFTED_CLOCK_MS");
  return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    long milliseconds = time->tv_nsec / 1000000 + ahead();
    long seconds = milliseconds / 1000 - (milliseconds % 1000 < 0);
    time->tv_sec += seconds;
    time->tv_nsec += (ahead() - seconds * 1000) * 1000000;
  }
  return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}
