// The RESP reader (Debian: libhiredis-dev).
#ifndef HERALD_CHIREDIS_H
#define HERALD_CHIREDIS_H
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#endif
