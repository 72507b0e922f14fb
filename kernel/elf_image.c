/*
 * Reading ELF headers and script lines that may have been written by an enemy. Pure functions on copied memory: every
 * number is checked before it is used, and every sum is checked for wrap-around.
 */
#include "kernel/elf_image.h"

#include "kernel/errno.h"
#include "kernel/string.h"
#include "mm/layout.h"

long elf_check_header(const struct elf_header *h)
{
	if (memcmp(h->ident, "\177ELF", 4) || h->ident[4] != 2 /* 64 bit */ || h->ident[5] != 1 /* little endian */)
		return -ENOEXEC;
	if ((h->type != ET_EXEC && h->type != ET_DYN) || h->machine != EM_X86_64)
		return -ENOEXEC;
	if (h->phentsize != sizeof(struct elf_phdr) || !h->phnum || h->phnum > ELF_MAX_PHDRS_SIZE / sizeof(struct elf_phdr))
		return -ENOEXEC;
	if ((s64)h->phoff < 0)
		return -ENOEXEC;
	return (long)(h->phnum * sizeof(struct elf_phdr));
}

/* The segment that holds the program headers tells where they will be. */
static u64 find_phdrs_vaddr(const struct elf_header *h, const struct elf_phdr *phdrs)
{
	for (unsigned int i = 0; i < h->phnum; i++) {
		const struct elf_phdr *p = &phdrs[i];

		if (p->type == PT_LOAD && p->offset <= h->phoff && h->phoff - p->offset < p->filesz)
			return p->vaddr + (h->phoff - p->offset);
	}
	return 0;
}

int elf_scan_phdrs(const struct elf_header *h, const struct elf_phdr *phdrs, struct elf_image *img)
{
	*img = (struct elf_image){
		.dyn = h->type == ET_DYN,
		.entry = h->entry,
		.phdrs_vaddr = find_phdrs_vaddr(h, phdrs),
		.max_align = PAGE_SIZE,
	};
	for (unsigned int i = 0; i < h->phnum; i++) {
		const struct elf_phdr *p = &phdrs[i];

		switch (p->type) {
		case PT_LOAD:
			img->nr_loads++;
			if (p->align > img->max_align && !(p->align & (p->align - 1)))
				img->max_align = p->align;
			break;
		case PT_INTERP:
			if (img->has_interp)
				break;			/* the first one counts */
			if (p->filesz < 2 || p->filesz > 4096 || (s64)p->offset < 0)
				return -ENOEXEC;
			img->has_interp = true;
			img->interp_offset = p->offset;
			img->interp_size = p->filesz;
			break;
		case PT_GNU_STACK:
			img->exec_stack = p->flags & PF_X;
			break;
		}
	}
	return 0;
}

int elf_check_loads(const struct elf_header *h, const struct elf_phdr *phdrs, struct elf_image *img)
{
	bool first = true;

	img->start_code = ~0ul;
	for (unsigned int i = 0; i < h->phnum; i++) {
		const struct elf_phdr *p = &phdrs[i];

		if (p->type != PT_LOAD)
			continue;
		u64 vaddr = p->vaddr;

		if (p->filesz > p->memsz || p->memsz > TASK_SIZE || vaddr > TASK_SIZE - p->memsz)
			return -EINVAL;
		/* One page of the file is one page of memory: the offsets within it must agree. */
		if (p->filesz && ((vaddr ^ p->offset) & ~PAGE_MASK))
			return -EINVAL;
		if ((s64)p->offset < 0 || (s64)(p->offset + p->filesz) < 0)
			return -EINVAL;
		u64 low = ALIGN_DOWN(vaddr, PAGE_SIZE), high = ALIGN_UP(vaddr + p->memsz, PAGE_SIZE);

		if (high > TASK_SIZE)
			return -EINVAL;
		if (first || low < img->low)
			img->low = low;
		if (first || high > img->high)
			img->high = high;
		first = false;

		if (p->flags & PF_X) {
			img->start_code = min(img->start_code, vaddr);
			img->end_code = max(img->end_code, vaddr + p->filesz);
		}
		img->start_data = max(img->start_data, vaddr);
		img->end_data = max(img->end_data, vaddr + p->filesz);
		img->end_bss = max(img->end_bss, vaddr + p->memsz);
	}
	if (img->start_code == ~0ul)
		img->start_code = 0;
	return first ? -EINVAL : 0;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

int script_parse(char *buf, size_t len, char **interp, char **arg)
{
	if (len < 2 || buf[0] != '#' || buf[1] != '!')
		return 0;
	char *end = memchr(buf, '\n', len);

	if (!end) {
		/*
		 * The line does not end in what we see. An argument may be cut off, a path may not: it must be followed by
		 * something.
		 */
		size_t i = 2;

		while (i < len && is_blank(buf[i]))
			i++;
		while (i < len && buf[i] && !is_blank(buf[i]))
			i++;
		if (i >= len)
			return -ENOEXEC;
		end = memchr(buf, '\0', len);
		if (!end)
			end = buf + len - 1;
	}
	while (end > buf + 2 && is_blank(end[-1]))
		end--;
	*end = '\0';

	char *p = buf + 2;

	while (is_blank(*p))
		p++;
	if (!*p)
		return -ENOEXEC;
	*interp = p;
	while (*p && !is_blank(*p))
		p++;
	*arg = NULL;
	if (*p) {
		*p++ = '\0';
		while (is_blank(*p))
			p++;
		if (*p)
			*arg = p;
	}
	return 1;
}
