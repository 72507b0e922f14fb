/*
 * The rules of sharing where the file owns the tables: mappings with other rights take part, everything else is the same.
 *
 * only: faultline
 * append: hugepages=24 hugetlb.sync=file
 */
#define RIGHTS_MUST_AGREE	0
#include "pmd_share_tables_are_shared.c"
