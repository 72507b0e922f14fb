/*
 * The rules of sharing with hugetlb.sync=i_mmap.
 *
 * only: faultline
 * append: hugepages=24 hugetlb.sync=i_mmap
 */
#include "pmd_share_tables_are_shared.c"
