/*
 * Debug builds: makes the fault handler answer RETRY or COMPLETED at a chosen call site, so that a test can see that
 * the site honours the contract on who owns the lock (G7, R50, R53):
 *
 *	echo 'gup completed 3' > /sys/kernel/faultline/fault_inject
 *
 * The next three faults of page pinning that may drop their lock are served and then answered with COMPLETED, the lock
 * dropped. With RETRY they are not served, and the lock is dropped just so. Reading tells what is left.
 */
#ifdef DEBUG
#include "mm/fault.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/string.h"

static const char *const site_names[NR_FAULT_SITES] = { "user", "kernel", "gup", "fixup" };
static struct { u32 retry, completed; } inject[NR_FAULT_SITES];		/* A  how many more */

static bool take_one(u32 *left)
{
	u32 n = __atomic_load_n(left, __ATOMIC_RELAXED);

	while (n && !__atomic_compare_exchange_n(left, &n, n - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return n;
}

vm_fault_t call_fault_handler(enum fault_site site, struct vma *vma, uintptr_t addr, unsigned int flags)
{
	bool may_drop = (flags & (FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_RETRY_NOWAIT)) == FAULT_FLAG_ALLOW_RETRY;

	if (likely(!inject[site].retry && !inject[site].completed) || !may_drop)
		return handle_mm_fault(vma, addr, flags);
	if (take_one(&inject[site].retry)) {
		release_fault_lock(vma, flags);
		return VM_FAULT_RETRY;
	}
	vm_fault_t ret = handle_mm_fault(vma, addr, flags);
	if (!(ret & (VM_FAULT_DROPPED | VM_FAULT_ERROR)) && take_one(&inject[site].completed)) {
		release_fault_lock(vma, flags);
		ret |= VM_FAULT_COMPLETED;
	}
	return ret;
}

static ssize_t inject_show(void *arg, char *buf, size_t size)
{
	size_t n = 0;

	(void)arg;
	for (int i = 0; i < NR_FAULT_SITES; i++)
		n += (size_t)scnprintf(buf + n, size - n, "%s retry %u completed %u\n", site_names[i], inject[i].retry, inject[i].completed);
	return (ssize_t)n;
}

/* The word at *s, NUL-terminated in place; *s moves behind it. */
static char *next_word(char **s)
{
	while (**s == ' ' || **s == '\n')
		(*s)++;
	char *word = *s;
	while (**s && **s != ' ' && **s != '\n')
		(*s)++;
	if (**s)
		*(*s)++ = '\0';
	return word;
}

static ssize_t inject_store(void *arg, const char *buf, size_t len)
{
	char copy[64], *s = copy;
	u64 count;

	(void)arg;
	if (strscpy(copy, buf, sizeof(copy)) < 0)
		return -EINVAL;
	const char *site = next_word(&s), *result = next_word(&s), *number = next_word(&s);
	if (kstrtou64(number, 0, &count))
		return -EINVAL;
	for (int i = 0; i < NR_FAULT_SITES; i++) {
		if (strcmp(site, site_names[i]))
			continue;
		if (!strcmp(result, "retry"))
			inject[i].retry = (u32)count;
		else if (!strcmp(result, "completed"))
			inject[i].completed = (u32)count;
		else
			return -EINVAL;
		return (ssize_t)len;
	}
	return -EINVAL;
}

static const struct text_file_ops inject_ops = { .show = inject_show, .store = inject_store };

void fault_inject_init(void)
{
	struct dentry *d = pseudo_text_file(sysfs_root, "kernel/faultline/fault_inject", 0600, &inject_ops, NULL);

	if (IS_ERR(d))
		pr_err("fault_inject: no memory\n");
}
#endif
