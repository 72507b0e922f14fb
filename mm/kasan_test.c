/*
 * Planted bugs, to show that the sanitizer sees them: each word written to /sys/kernel/faultline/kasan_test commits one, and
 * the kernel must stop and name it (tests/kasan.sh). Only where the sanitizer is on.
 */
#include "mm/kasan.h"

#ifdef KASAN
#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "mm/slab.h"

/* The compiler must not see through it, or it would rightly warn. */
static void *hidden(void *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}

static void use_after_free(void)
{
	volatile u64 *p = hidden(kmalloc(64, GFP_KERNEL));

	if (!p)
		return;
	kfree((void *)p);
	(void)p[1];
}

static void late_use_after_free(void)
{
	volatile u32 *p = hidden(kmalloc(200, GFP_KERNEL));

	if (!p)
		return;
	kfree((void *)p);
	for (unsigned int i = 0; i < 64; i++)		/* others of its size come and go meanwhile */
		kfree(kmalloc(200, GFP_KERNEL));
	p[2] = 1;
}

static void out_of_bounds(void)
{
	volatile char *p = hidden(kmalloc(43, GFP_KERNEL));

	if (p)
		p[43] = 1;
}

static void copy_out_of_bounds(void)
{
	char *p = hidden(kmalloc(5000, GFP_KERNEL)), *q = hidden(kmalloc(100, GFP_KERNEL));

	if (p && q)
		memcpy(q, p, 101);
}

static void block_out_of_bounds(void)
{
	volatile char *p = hidden(kmalloc(5000, GFP_KERNEL));

	if (p)
		(void)p[5000];
}

static void frame_after_free(void)
{
	volatile u64 *p = hidden(get_free_page(GFP_KERNEL));

	if (!p)
		return;
	free_page((void *)p);
	p[10] = 1;
}

static void double_free(void)
{
	void *p = hidden(kmalloc(64, GFP_KERNEL));

	kfree(p);
	kfree(hidden(p));
}

static const struct { const char *name; void (*bug)(void); } bugs[] = {
	{ "use_after_free", use_after_free }, { "late_use_after_free", late_use_after_free },
	{ "out_of_bounds", out_of_bounds }, { "copy_out_of_bounds", copy_out_of_bounds },
	{ "block_out_of_bounds", block_out_of_bounds }, { "frame_after_free", frame_after_free },
	{ "double_free", double_free },
};

/* Returns only for a word that is no bug, or if the bug was not found. */
static ssize_t kasan_test_store(void *arg, const char *buf, size_t len)
{
	char word[32];

	(void)arg;
	if (strscpy(word, buf, sizeof(word)) < 0)
		return -EINVAL;
	char *end = strchr(word, '\n');
	if (end)
		*end = '\0';
	for (unsigned int i = 0; i < ARRAY_SIZE(bugs); i++) {
		if (strcmp(word, bugs[i].name))
			continue;
		bugs[i].bug();
		pr_err("kasan test: %s was not found", word);
		return (ssize_t)len;
	}
	return -EINVAL;
}

static const struct text_file_ops kasan_test_ops = { .store = kasan_test_store };

void kasan_test_init(void)
{
	if (kasan_enabled() && IS_ERR(pseudo_text_file(sysfs_root, "kernel/faultline/kasan_test", 0200, &kasan_test_ops, NULL)))
		pr_err("kasan test file: no memory");
}
#endif
