/*
 * The same with hugetlb.sync=file.
 *
 * only: faultline
 * build: debug
 * append: hugepages=40 hugetlb.sync=file
 * timeout: 120
 * slow
 */
#include "pmd_share_under_fire.c"
