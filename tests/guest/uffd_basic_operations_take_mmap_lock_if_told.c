/*
 * The same operations with uffd.lock=mmap take mmap_lock, each of them: so the test of the other value can fail.
 * only: faultline
 * cpus: 2
 * append: uffd.lock=mmap
 */
#define EXPECTED_LOCK "mmap"
#include "uffd_basic_operations_take_no_mmap_lock.c"
