/*
 * only: faultline
 * slow
 * timeout: 1800
 *
 * tests/guest/server_answers_nonsense_at_random.c, long.
 */
#define ROUNDS	600
#include "server_answers_nonsense_at_random.c"
