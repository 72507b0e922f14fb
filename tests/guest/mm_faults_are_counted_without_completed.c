/*
 * The same counts when COMPLETED is turned into RETRY: such a fault is entered twice, and counted once.
 *
 * only: faultline
 * append: mm.fault_completed=off
 */
#define COMPLETED_OFF
#include "mm_fault_entries_are_counted.c"
