// The reader of hiredis 1.x: kinds of values, the task of one, the functions that make objects of them, and the calls.
#ifndef HIREDIS_1_READ_H
#define HIREDIS_1_READ_H
#include <stddef.h>
#include <sys/types.h>

#define REDIS_ERR -1
#define REDIS_OK 0

#define REDIS_REPLY_STRING 1
#define REDIS_REPLY_ARRAY 2
#define REDIS_REPLY_INTEGER 3
#define REDIS_REPLY_NIL 4
#define REDIS_REPLY_STATUS 5
#define REDIS_REPLY_ERROR 6
// RESP3, which 0.14 does not read.
#define REDIS_REPLY_DOUBLE 7
#define REDIS_REPLY_BOOL 8
#define REDIS_REPLY_MAP 9
#define REDIS_REPLY_SET 10
#define REDIS_REPLY_ATTR 11
#define REDIS_REPLY_PUSH 12
#define REDIS_REPLY_BIGNUM 13
#define REDIS_REPLY_VERB 14

typedef struct redisReadTask {
  int type;
  // An `int` in 0.14.
  long long elements;
  int idx;
  void *obj;
  struct redisReadTask *parent;
  void *privdata;
} redisReadTask;

typedef struct redisReplyObjectFunctions {
  void *(*createString)(const redisReadTask *, char *, size_t);
  // An `int` in 0.14.
  void *(*createArray)(const redisReadTask *, size_t);
  void *(*createInteger)(const redisReadTask *, long long);
  // Not in 0.14.
  void *(*createDouble)(const redisReadTask *, double, char *, size_t);
  void *(*createNil)(const redisReadTask *);
  // Not in 0.14.
  void *(*createBool)(const redisReadTask *, int);
  void (*freeObject)(void *);
} redisReplyObjectFunctions;

typedef struct redisReader {
  int err;
  char errstr[128];
  char *buf;
  size_t pos;
  size_t len;
  size_t maxbuf;
  long long maxelements;
  // An array of tasks, and not of pointers to them, in 0.14.
  redisReadTask **task;
  int tasks;
  int ridx;
  void *reply;
  redisReplyObjectFunctions *fn;
  void *privdata;
} redisReader;

redisReader *redisReaderCreateWithFunctions(redisReplyObjectFunctions *functions);
void redisReaderFree(redisReader *reader);
int redisReaderFeed(redisReader *reader, const char *bytes, size_t count);
int redisReaderGetReply(redisReader *reader, void **reply);
#endif
