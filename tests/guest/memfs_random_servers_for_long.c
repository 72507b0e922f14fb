/*
 * only: faultline
 * slow
 * timeout: 1500
 *
 * memfs_random_servers.c for longer.
 */
#define ROUNDS	4000
#include "memfs_random_servers.c"
