/*
 * The same with hugetlb.sync=recheck.
 *
 * only: faultline
 * build: debug
 * append: hugepages=40 hugetlb.sync=recheck
 * timeout: 120
 * slow
 */
#include "pmd_share_under_fire.c"
