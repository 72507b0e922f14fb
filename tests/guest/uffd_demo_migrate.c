/*
 * The demonstration program runs, and finds its own memory right.
 */
#include "user/demo/uffd_migrate.c"
