/*
 * The rules of sharing with hugetlb.sync=recheck.
 *
 * only: faultline
 * append: hugepages=24 hugetlb.sync=recheck
 */
#include "pmd_share_tables_are_shared.c"
