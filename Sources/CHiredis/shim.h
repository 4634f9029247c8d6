// The RESP reader (Debian: libhiredis-dev).
#ifndef HERALD_CHIREDIS_H
#define HERALD_CHIREDIS_H
#include <hiredis/hiredis.h>
#include <hiredis/read.h>

typedef void *(*herald_create_double)(const redisReadTask *, double, char *, size_t);
typedef void *(*herald_create_bool)(const redisReadTask *, int);

// hiredis 1.x reads RESP3 too, and has two more functions for it. Without them it would report values that nobody recorded.
static inline void herald_set_resp3_functions(
    redisReplyObjectFunctions *functions, herald_create_double create_double, herald_create_bool create_bool) {
#if HIREDIS_MAJOR >= 1
  functions->createDouble = create_double;
  functions->createBool = create_bool;
#else
  (void)functions;
  (void)create_double;
  (void)create_bool;
#endif
}

// Values of RESP3 that answer no command: an attribute, a push.
static inline int herald_is_out_of_band(const redisReadTask *task) {
#if HIREDIS_MAJOR >= 1
  return task->type == REDIS_REPLY_ATTR || task->type == REDIS_REPLY_PUSH;
#else
  (void)task;
  return 0;
#endif
}

// A text with its format in front of it, in three letters and a colon, which RESP2 does not have.
static inline int herald_is_verbatim(const redisReadTask *task) {
#if HIREDIS_MAJOR >= 1
  return task->type == REDIS_REPLY_VERB;
#else
  (void)task;
  return 0;
#endif
}

// The number of containers around a value, at most `maximum`: hiredis 1.x reads any depth.
static inline int herald_depth(const redisReadTask *task, int maximum) {
  int depth = 0;
  for (const redisReadTask *parent = task->parent; parent != NULL && depth < maximum; parent = parent->parent) depth++;
  return depth;
}
#endif
