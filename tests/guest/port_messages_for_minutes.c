/*
 * only: faultline
 * slow
 * timeout: 1800
 *
 * tests/guest/port_messages_at_random.c, long.
 */
#define CALLS	200000
#include "port_messages_at_random.c"
