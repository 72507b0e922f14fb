/*
 * The rules of sharing with hugetlb.sync=recheck, entries locked by the mm.
 *
 * only: faultline
 * append: hugepages=24 hugetlb.sync=recheck hugetlb.ptl=mm
 */
#include "pmd_share_tables_are_shared.c"
