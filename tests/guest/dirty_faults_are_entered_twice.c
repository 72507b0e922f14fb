/*
 * What the completed fault does away with: with mm.fault_completed=off each first write to shared file memory ends with RETRY, and the
 * handler is called once more, to find that all is done.
 *
 * only: faultline
 * append: mm.fault_completed=off
 */
#define COMPLETED 0
#include "dirty_faults_are_entered_once.c"
