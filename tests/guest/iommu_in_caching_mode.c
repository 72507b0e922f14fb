/*
 * The same with a unit that may remember that an entry was not there, so that mapping has to make it forget too.
 *
 * only: faultline
 * slow
 * device: intel-iommu,intremap=off,caching-mode=on,aw-bits=48 edu,dma_mask=0xffffffffffffffff
 * timeout: 120
 */
#include "iommu_confines_hostile_drivers.c"
