/*
 * The demonstration program runs, and finds its own memory right.
 * only: linux
 */
#include "user/demo/uffd_gc.c"
