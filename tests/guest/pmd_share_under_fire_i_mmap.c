/*
 * The same with hugetlb.sync=i_mmap.
 *
 * only: faultline
 * build: debug
 * append: hugepages=40 hugetlb.sync=i_mmap
 * timeout: 120
 * slow
 */
#include "pmd_share_under_fire.c"
