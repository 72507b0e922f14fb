/* Rule D15: SysV shared memory of huge pages is promised at shmget, by those who may. */
#include "hugetlb_test.h"

static void reserves_at_shmget(void)
{
	int id = shmget(IPC_PRIVATE, 3 * HUGE + 1, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600), id2;
	struct shmid_ds ds;
	struct vma_line v;
	char *p, *q;

	MUST(id >= 0);
	CHECK_POOL(10, 4);
	MUST(shmctl(id, IPC_STAT, &ds) == 0);
	CHECK_EQUAL(3 * HUGE + 1, ds.shm_segsz);
	p = shmat(id, NULL, 0);
	MUST(p != (void *)-1);
	CHECK_POOL(10, 4);
	CHECK_EQUAL(0, (unsigned long)p % HUGE);
	CHECK(vma_at(p, &v) && v.end - v.start == 4 * HUGE && !strncmp(v.name, "/SYSV00000000", 13));
	q = shmat(id, NULL, SHM_RDONLY);
	MUST(q != (void *)-1);
	CHECK_POOL(10, 4);
	p[3 * HUGE + 5] = 'm';
	CHECK_EQUAL('m', q[3 * HUGE + 5]);
	CHECK_POOL(9, 3);
	CHECK_FAULT(SIGSEGV, 2, q, access_byte((unsigned long)q, WRITE));
	CHECK_ERRNO(EINVAL, shmat(id, p + 4096, 0) == (void *)-1 ? -1 : 0);
	id2 = shmget(IPC_PRIVATE, 8 * HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600);
	CHECK_ERRNO(ENOMEM, id2 < 0 ? (errno = ENOMEM, -1) : id2);
	CHECK_ERRNO(ENOMEM, shmget(IPC_PRIVATE, 8 * HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600));
	CHECK_POOL(9, 3);
	CHECK_EQUAL(0, shmdt(p));
	CHECK_POOL(9, 3);
	CHECK_EQUAL('m', q[3 * HUGE + 5]);
	CHECK_EQUAL(0, shmctl(id, IPC_RMID, NULL));
	CHECK_POOL(9, 3);				/* still attached */
	CHECK_EQUAL(0, shmdt(q));
	CHECK_POOL(10, 0);
}

static void noreserve(void)
{
	int id = shmget(IPC_PRIVATE, 20 * HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | SHM_NORESERVE | 0600);
	char *p;

	MUST(id >= 0);
	CHECK_POOL(10, 0);
	p = shmat(id, NULL, 0);
	MUST(p != (void *)-1);
	CHECK_POOL(10, 0);
	p[19 * HUGE] = 1;
	CHECK_POOL(9, 0);
	CHECK_EQUAL(0, shmctl(id, IPC_RMID, NULL));
	CHECK_EQUAL(0, shmdt(p));
	CHECK_POOL(10, 0);
}

static void attached_by_children(void *arg)
{
	char *p = arg;

	p[HUGE] = 'c';
}

static void fork_attaches_too(void)
{
	int id = shmget(IPC_PRIVATE, 2 * HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600);
	char *p = shmat(id, NULL, 0);

	MUST(p != (void *)-1);
	CHECK_EQUAL(0, shmctl(id, IPC_RMID, NULL));
	CHECK_EQUAL(0, in_child(attached_by_children, p));
	CHECK_EQUAL('c', p[HUGE]);
	CHECK_POOL(9, 1);
	CHECK_ERRNO(EINVAL, sys_munmap(p, 4096));
	CHECK_EQUAL(0, mprotect(p, HUGE, PROT_READ));
	CHECK_EQUAL(0, shmdt(p));
	CHECK_POOL(10, 0);
}

static void in_the_group(void *arg)
{
	int id;

	(void)arg;
	MUST(setresgid(4321, 4321, 4321) == 0 && setresuid(65534, 65534, 65534) == 0);
	id = shmget(IPC_PRIVATE, HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600);
	CHECK(id >= 0);
	CHECK_EQUAL(0, shmctl(id, IPC_RMID, NULL));
}

static void refused(void *arg)
{
	(void)arg;
	become_nobody();
	CHECK_ERRNO(EPERM, shmget(IPC_PRIVATE, HUGE, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600));
}

static void errors(void)
{
	CHECK_ERRNO(EINVAL, shmget(IPC_PRIVATE, HUGE, IPC_CREAT | SHM_HUGETLB | 24 << 26 | 0600));
	CHECK_ERRNO(EINVAL, shmget(IPC_PRIVATE, 0, IPC_CREAT | SHM_HUGETLB | HUGE_2M | 0600));
	CHECK_POOL(10, 0);
	IN_CHILD(refused);
	CHECK_EQUAL(0, read_number("/proc/sys/vm/hugetlb_shm_group"));
	set_number("/proc/sys/vm/hugetlb_shm_group", 4321);
	IN_CHILD(in_the_group);
	IN_CHILD(refused);
	set_number("/proc/sys/vm/hugetlb_shm_group", 0);
	CHECK_POOL(10, 0);
}

int main(void)
{
	catch_faults();
	pool_begin(10);
	reserves_at_shmget();
	noreserve();
	fork_attaches_too();
	errors();
	pool_end(10);
}
