// What Herald uses of hiredis 1.x, as its documentation describes it, for scripts/check-hiredis alone. Nothing is built with it.
#ifndef HIREDIS_1_H
#define HIREDIS_1_H
#define HIREDIS_MAJOR 1
#define HIREDIS_MINOR 0
#include <hiredis/read.h>
#endif
