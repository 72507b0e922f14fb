/*
 * What an ELF file says, read with suspicion: kernel/elf_image.c checks and summarises, kernel/elf.c maps. Nothing here
 * depends on the rest of the kernel, so that the same code runs on the host under a fuzzer (tests/unit/test_elf.c).
 */
#ifndef KERNEL_ELF_IMAGE_H
#define KERNEL_ELF_IMAGE_H

#include "kernel/types.h"

struct elf_header {
	u8  ident[16];
	u16 type, machine;
	u32 version;
	u64 entry, phoff, shoff;
	u32 flags;
	u16 ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
_Static_assert(sizeof(struct elf_header) == 64, "ELF-64");

struct elf_phdr {
	u32 type, flags;
	u64 offset, vaddr, paddr, filesz, memsz, align;
};
_Static_assert(sizeof(struct elf_phdr) == 56, "ELF-64");

#define ET_EXEC		2
#define ET_DYN		3
#define EM_X86_64	62
#define PT_LOAD		1
#define PT_INTERP	3
#define PT_GNU_STACK	0x6474e551
#define PF_X		1u
#define PF_W		2u
#define PF_R		4u
#define ELF_MAX_PHDRS_SIZE 65536		/* as Linux */

/* All addresses are those of the file; the loader adds its bias (0 for ET_EXEC). */
struct elf_image {
	bool	dyn;			/* ET_DYN: may be loaded anywhere */
	bool	has_interp;
	bool	exec_stack;		/* PT_GNU_STACK asks for it */
	u16	nr_loads;
	u64	entry;
	u64	interp_offset, interp_size;	/* in the file, NUL included; valid if has_interp */
	u64	phdrs_vaddr;		/* where the program headers will be in memory; 0: nowhere */
	u64	low, high;		/* page-aligned extent of all segments; valid after elf_check_loads() */
	u64	max_align;		/* largest power-of-two alignment asked for, at least PAGE_SIZE */
	u64	start_code, end_code, start_data, end_data, end_bss;
};

/* Is it a file for us, and how many bytes of program headers are there to read (at header->phoff)? Bytes or -ENOEXEC. */
long elf_check_header(const struct elf_header *h);
/* Summarises the program headers. 0 or -ENOEXEC. */
int elf_scan_phdrs(const struct elf_header *h, const struct elf_phdr *phdrs, struct elf_image *img);
/*
 * Are the PT_LOAD segments possible: sizes that make sense, inside user space, in ascending order? Fills low and high.
 * 0 or -EINVAL. Linux finds this out when the old program is gone, so there it kills; so does our caller.
 */
int elf_check_loads(const struct elf_header *h, const struct elf_phdr *phdrs, struct elf_image *img);

/*
 * First line of a script. @buf: the first @len bytes of the file. Points *interp and *arg (NULL: none) into @buf, which
 * it edits. 1: a script; 0: not one; -ENOEXEC: one without an interpreter, or whose line does not fit.
 */
int script_parse(char *buf, size_t len, char **interp, char **arg);

#endif
