/*
 * The attack of iommu_confines_hostile_drivers.c on a machine whose IOMMU is not used: it works. This is what docs/drivers.md means by "the
 * driver is trusted", and what shows that the other test could fail.
 *
 * only: faultline
 * device: intel-iommu,intremap=off edu,dma_mask=0xffffffffffffffff
 * append: iommu=off
 * timeout: 120
 */
#include "iommu_test.h"

int main(void)
{
	struct driver edu = take_device(EDU_ID, true), other = take_device(VICTIM_ID, false);

	CHECK_EQUAL(0, iommu_number("units "));
	honest_transfers(&edu);
	CHECK_EQUAL(DMA_SIZE / 8, attack_reading(&edu, other.mem, other.bus));
	CHECK_EQUAL(DMA_SIZE / 8, attack_writing(&edu, other.mem, other.bus));
	CHECK_EQUAL(0, iommu_number("faults "));
	let_go(&other);
	let_go(&edu);
	test_end();
}
