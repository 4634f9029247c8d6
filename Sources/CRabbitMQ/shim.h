// The AMQP 0-9-1 method and property codec (Debian: librabbitmq-dev).
#ifndef HERALD_CRABBITMQ_H
#define HERALD_CRABBITMQ_H
#include <amqp.h>
#include <amqp_framing.h>
#endif
