/*
 * only: faultline
 * slow
 * timeout: 1500
 *
 * memfs_survives_being_killed.c for longer.
 */
#define KILLS	1000
#include "memfs_survives_being_killed.c"
