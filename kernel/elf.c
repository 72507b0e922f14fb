/*
 * Loading an ELF program into a fresh address space: segments, bss, the loader of a dynamic program, and the first
 * contents of the stack.
 *
 *	ET_EXEC			where it says
 *	ET_DYN			two thirds up, at a random page (a PIE; also a loader that is run as a program)
 *	the PT_INTERP loader	in the mmap area
 *	brk			behind the program, at a random distance
 *
 * All numbers of the file were checked by kernel/elf_image.c. What the page cache then delivers may still differ from
 * what the headers promised (the file may be shortened meanwhile): that shows as a fault, never as damage.
 */
#include "kernel/exec.h"

#include "fs/vfs.h"
#include "kernel/errno.h"
#include "kernel/process.h"
#include "kernel/random.h"
#include "kernel/string.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "kernel/x86/sigcontext.h"
#include "kernel/x86/thread.h"
#include "mm/mmap.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define ELF_ET_DYN_BASE		ALIGN_DOWN(TASK_SIZE / 3 * 2, PAGE_SIZE)
#define PIE_RANDOM_RANGE	(1ul << 40)	/* 28 bits of pages, as Linux */
#define BRK_RANDOM_RANGE	(32ul << 20)
#define STACK_ALIGN_RANDOM	8192u
#define PLATFORM		"x86_64"
#define RANDOM_BYTES		16

enum auxv_type {
	AT_NULL = 0, AT_PHDR = 3, AT_PHENT = 4, AT_PHNUM = 5, AT_PAGESZ = 6, AT_BASE = 7, AT_FLAGS = 8, AT_ENTRY = 9,
	AT_UID = 11, AT_EUID = 12, AT_GID = 13, AT_EGID = 14, AT_PLATFORM = 15, AT_HWCAP = 16, AT_CLKTCK = 17,
	AT_SECURE = 23, AT_RANDOM = 25, AT_HWCAP2 = 26, AT_EXECFN = 31, AT_MINSIGSTKSZ = 51,
};

/* -- headers -- */

int elf_open(struct elf_file *e, struct file *file, const char *head)
{
	*e = (struct elf_file){ .file = file };
	memcpy(&e->header, head, sizeof(e->header));

	long size = elf_check_header(&e->header);
	int err = -ENOEXEC;

	if (size < 0)
		goto fail;
	e->phdrs = kmalloc((size_t)size, GFP_KERNEL);
	if (!e->phdrs) {
		err = -ENOMEM;
		goto fail;
	}
	if (kernel_read(file, e->phdrs, (size_t)size, (loff_t)e->header.phoff) != size)
		goto fail;
	err = elf_scan_phdrs(&e->header, e->phdrs, &e->image);
	if (!err)
		return 0;
fail:
	elf_close(e);
	return err;
}

void elf_close(struct elf_file *e)
{
	kfree(e->phdrs);
	if (e->file)
		file_put(e->file);
	e->phdrs = NULL;
	e->file = NULL;
}

int elf_open_interp(const struct elf_file *e, struct elf_file *interp)
{
	char head[EXEC_HEAD_SIZE] = { 0 };
	size_t n = e->image.interp_size;
	char *path = kmalloc(n, GFP_KERNEL);
	struct file *file;
	int err = -ENOEXEC;

	if (!path)
		return -ENOMEM;
	if (kernel_read(e->file, path, n, (loff_t)e->image.interp_offset) != (ssize_t)n || path[n - 1])
		goto out;
	file = open_exec(AT_FDCWD, path, LOOKUP_FOLLOW);
	err = (int)PTR_ERR(file);
	if (IS_ERR(file))
		goto out;
	if (kernel_read(file, head, sizeof(head), 0) < (ssize_t)sizeof(struct elf_header)) {
		file_put(file);
		err = -EIO;
		goto out;
	}
	err = elf_open(interp, file, head);
	if (err == -ENOEXEC)
		err = -ELIBBAD;
out:
	kfree(path);
	return err;
}

/* -- segments -- */

static unsigned long segment_prot(u32 flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/*
 * From the end of the file's bytes to the end of the segment: the rest of their last page is cleared, whole pages behind
 * it are anonymous memory.
 */
static int map_bss(const struct elf_phdr *p, u64 bias)
{
	u64 start = bias + p->vaddr + p->filesz, end = bias + p->vaddr + p->memsz;
	u64 page_end = p->filesz ? ALIGN_UP(start, PAGE_SIZE) : ALIGN_DOWN(start, PAGE_SIZE);

	/* A read-only segment has nothing there that a program could rely on. */
	if (p->filesz && page_end > start && clear_user((void __user *)start, page_end - start) && p->flags & PF_W)
		return -EFAULT;
	end = ALIGN_UP(end, PAGE_SIZE);
	if (end <= page_end)
		return 0;
	/* Segments that overlap: the later one wins, as with MAP_FIXED. */
	int err = (int)vm_munmap(current->mm, page_end, end - page_end);

	return err ? err : vm_brk_flags(current->mm, page_end, end - page_end, p->flags & PF_X ? VM_EXEC : 0);
}

static int map_segment(struct elf_file *e, const struct elf_phdr *p, u64 bias)
{
	if (p->filesz) {
		u64 addr = ALIGN_DOWN(bias + p->vaddr, PAGE_SIZE);
		u64 skew = (bias + p->vaddr) - addr;
		long ret = vm_mmap(e->file, addr, p->filesz + skew, segment_prot(p->flags), MAP_PRIVATE | MAP_FIXED,
				   (p->offset - skew) >> PAGE_SHIFT);

		if (ret < 0)
			return (int)ret;
	}
	return p->memsz > p->filesz ? map_bss(p, bias) : 0;
}

static int map_segments(struct elf_file *e, u64 bias)
{
	for (unsigned int i = 0; i < e->header.phnum; i++) {
		const struct elf_phdr *p = &e->phdrs[i];
		int err = p->type == PT_LOAD ? map_segment(e, p, bias) : 0;

		if (err)
			return err;
	}
	return 0;
}

/* Finds room for all of @e at once and returns the bias; the reservation is mapped over by the segments. -errno. */
static long place_in_mmap_area(struct elf_file *e)
{
	const struct elf_image *img = &e->image;
	size_t size = img->high - img->low;
	long base = vm_mmap(NULL, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0);

	if (base < 0)
		return base;
	/* Holes between segments stay holes. */
	int err = (int)vm_munmap(current->mm, (uintptr_t)base, size);

	return err ? err : base - (long)img->low;
}

static long load_interp(struct elf_file *interp)
{
	int err = elf_check_loads(&interp->header, interp->phdrs, &interp->image);
	long bias = err;

	if (!err)
		bias = interp->image.dyn ? place_in_mmap_area(interp) : 0;
	if (!err && !IS_ERR_VALUE((unsigned long)bias))
		err = map_segments(interp, (u64)bias);
	return err ? err : bias;
}

static long load_program(struct elf_file *e)
{
	struct mm *mm = current->mm;
	struct elf_image *img = &e->image;
	int err = elf_check_loads(&e->header, e->phdrs, img);
	u64 bias = 0;

	if (err)
		return err;
	if (img->dyn) {
		u64 base = ALIGN_DOWN(ELF_ET_DYN_BASE + aslr_offset(PIE_RANDOM_RANGE), img->max_align);

		if (base > TASK_SIZE || img->high - img->low > TASK_SIZE - base)
			return -ENOMEM;
		bias = base - ALIGN_DOWN(img->low, img->max_align);
	}
	err = map_segments(e, bias);
	if (err)
		return err;
	mm->start_code = bias + img->start_code;
	mm->end_code = bias + img->end_code;
	mm->start_data = bias + img->start_data;
	mm->end_data = bias + img->end_data;
	mm->start_brk = mm->brk = ALIGN_UP(bias + img->end_bss, PAGE_SIZE) + aslr_offset(BRK_RANDOM_RANGE);
	return (long)bias;
}

/* -- the first stack -- */

size_t elf_tables_size(int argc, int envc)
{
	return STACK_ALIGN_RANDOM + RANDOM_BYTES + sizeof(PLATFORM) + 64 +
	       sizeof(u64) * (1 + (size_t)argc + 1 + (size_t)envc + 1 + AT_VECTOR_SIZE);
}

struct auxv { u64 *v; unsigned int n; };

static void aux(struct auxv *a, enum auxv_type type, u64 value)
{
	a->v[a->n++] = type;
	a->v[a->n++] = value;
}

/* Bytes a signal frame can take, with all alignment: programs size their alternate stacks by it. */
static u64 min_sigstack_size(void) { return ALIGN_UP(fpu_sigframe_size() + 64 + sizeof(struct rt_sigframe) + 32, 16ul); }

static void fill_auxv(struct auxv *a, const struct elf_file *e, u64 bias, u64 interp_bias, const struct exec_strings *s,
		      u64 platform, u64 random)
{
	const struct process *p = current->process;
	u32 eax, ebx, ecx, edx;

	cpuid(1, 0, &eax, &ebx, &ecx, &edx);
	aux(a, AT_MINSIGSTKSZ, min_sigstack_size());
	aux(a, AT_HWCAP, edx);
	aux(a, AT_PAGESZ, PAGE_SIZE);
	aux(a, AT_CLKTCK, 100);
	aux(a, AT_PHDR, e->image.phdrs_vaddr ? bias + e->image.phdrs_vaddr : 0);
	aux(a, AT_PHENT, sizeof(struct elf_phdr));
	aux(a, AT_PHNUM, e->header.phnum);
	aux(a, AT_BASE, interp_bias);
	aux(a, AT_FLAGS, 0);
	aux(a, AT_ENTRY, bias + e->image.entry);
	aux(a, AT_UID, p->creds.uid);
	aux(a, AT_EUID, p->creds.euid);
	aux(a, AT_GID, p->creds.gid);
	aux(a, AT_EGID, p->creds.egid);
	aux(a, AT_SECURE, p->secure_exec);
	aux(a, AT_RANDOM, random);
	aux(a, AT_HWCAP2, cpu_features.fsgsbase ? 2 : 0);	/* bit 1: FSGSBASE instructions work */
	aux(a, AT_EXECFN, s->filename);
	aux(a, AT_PLATFORM, platform);
	aux(a, AT_NULL, 0);
}

/* Below the strings: platform name, random bytes, padding, auxv, envp, argv, argc. *sp: the new stack pointer. */
static int write_tables(const struct elf_file *e, u64 bias, u64 interp_bias, const struct exec_strings *s, u64 *sp)
{
	struct mm *mm = current->mm;
	u8 random[RANDOM_BYTES];
	u64 p = ALIGN_DOWN(s->start - aslr_offset(STACK_ALIGN_RANDOM * PAGE_SIZE) / PAGE_SIZE, 16ul);
	u64 platform = p -= sizeof(PLATFORM);
	u64 random_addr = p -= sizeof(random);
	size_t pointers = (size_t)s->argc + 1 + (size_t)s->envc + 1;
	struct auxv a = { .v = mm->saved_auxv };

	get_random_bytes(random, sizeof(random));
	fill_auxv(&a, e, bias, interp_bias, s, platform, random_addr);
	p = ALIGN_DOWN(p - sizeof(u64) * (1 + pointers + a.n), 16ul);
	*sp = p;

	u64 argc = (u64)s->argc;

	if (copy_out((void __user *)platform, PLATFORM, sizeof(PLATFORM)) ||
	    copy_out((void __user *)random_addr, random, sizeof(random)) ||
	    copy_out((void __user *)p, &argc, sizeof(argc)) ||
	    copy_out((void __user *)(p + 8), s->pointers, pointers * sizeof(u64)) ||
	    copy_out((void __user *)(p + 8 + pointers * sizeof(u64)), a.v, a.n * sizeof(u64)))
		return -EFAULT;
	mm->start_stack = p;
	mm->arg_start = s->start;
	mm->arg_end = mm->env_start = s->env_start;
	mm->env_end = s->filename;
	return 0;
}

int elf_load(struct elf_file *e, struct elf_file *interp, const struct exec_strings *strings, u64 *entry, u64 *sp)
{
	long bias = load_program(e), interp_bias = 0;

	if (IS_ERR_VALUE((unsigned long)bias))
		return (int)bias;
	*entry = (u64)bias + e->image.entry;
	if (e->image.has_interp) {
		interp_bias = load_interp(interp);
		if (IS_ERR_VALUE((unsigned long)interp_bias))
			return (int)interp_bias;
		*entry = (u64)interp_bias + interp->image.entry;
	}
	if (*entry >= TASK_SIZE)
		return -EINVAL;
	return write_tables(e, (u64)bias, e->image.has_interp ? (u64)interp_bias : 0, strings, sp);
}
