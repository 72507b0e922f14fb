/* What kernel/exec.c (which program, which arguments, the change of identity) and kernel/elf.c (its memory) share. */
#ifndef KERNEL_EXEC_H
#define KERNEL_EXEC_H

#include "kernel/elf_image.h"

struct file;
struct mm;
struct trap_frame;

#define MAX_ARG_STRLEN	(32 * PAGE_SIZE)	/* one string */
#define ARG_MAX_MIN	(128 * 1024ul)		/* all of them: always allowed */
#define EXEC_HEAD_SIZE	256			/* of a file: enough for its kind, and for a script's first line */

/* A program file with its checked headers. */
struct elf_file {
	struct file	  *file;	/* counted */
	struct elf_header  header;
	struct elf_phdr	  *phdrs;	/* kmalloc'd */
	struct elf_image   image;
};

/* The strings of the new program, as they will stand on its stack, from low to high: arguments, environment, filename. */
struct exec_strings {
	int	argc, envc;
	u64	start, end;		/* addresses; start is where the arguments begin */
	u64	env_start, filename;
	u64	*pointers;		/* kvmalloc'd: argc addresses, 0, envc addresses, 0 */
};

/* Reads and checks headers. @head: the first bytes of the file. Takes over @file, also on error. 0 or -errno. */
int elf_open(struct elf_file *e, struct file *file, const char *head);
void elf_close(struct elf_file *e);		/* harmless when it was never opened or is closed */
/* The loader that @e names (PT_INTERP), opened into @interp; e->image.has_interp says whether there is one. 0 or -errno. */
int elf_open_interp(const struct elf_file *e, struct elf_file *interp);
/*
 * current->mm is new and has only a stack with @strings in it: maps the program, writes argc, argv, envp, auxv and points
 * *entry and *sp at the start. -errno can only be answered with a signal.
 */
int elf_load(struct elf_file *e, struct elf_file *interp, const struct exec_strings *strings, u64 *entry, u64 *sp);
/* Room that elf_load() needs below the strings. */
size_t elf_tables_size(int argc, int envc);

/* An executable regular file that current may run; ERR_PTR. @dfd, @name as openat; LOOKUP_* flags. */
struct file *open_exec(int dfd, const char *name, unsigned int lookup_flags);

#endif
