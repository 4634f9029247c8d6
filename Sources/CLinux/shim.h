// The Linux calls that the Glibc module leaves out.
#ifndef HERALD_CLINUX_H
#define HERALD_CLINUX_H
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

// Declared by the system only under _GNU_SOURCE.
int pthread_setname_np(pthread_t thread, const char *name);
int accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags);
#endif
