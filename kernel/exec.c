/*
 * execve: a process becomes another program. And the first program of all, pid 1.
 *
 *	1 find the program: follow "#!" lines to an ELF file, read its headers and those of its loader
 *	2 build a new address space with the argument strings on its stack
 *	3 point of no return: be the only thread, drop what belongs to the old program, switch address spaces
 *	4 map the program, write the tables, set the registers
 *
 * Up to 2 any failure is an error for the old program, which goes on unchanged. From 3 on there is no old program: a
 * failure kills (SIGSEGV, or the signal that stopped us). process->exec_lock is held throughout, so that who looks at
 * the process (may_ptrace, /proc/PID/exe) sees the old one or the new one.
 */
#include "kernel/exec.h"

#include "fs/internal.h"
#include "fs/vfs.h"
#include "kernel/boot_info.h"
#include "kernel/errno.h"
#include "kernel/itimer.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/string.h"
#include "kernel/sysctl.h"
#include "kernel/syscall.h"
#include "kernel/x86/thread.h"
#include "kernel/x86/trap_frame.h"
#include "mm/gup.h"
#include "mm/mm.h"
#include "mm/mmap.h"
#include "mm/slab.h"
#include "mm/uaccess.h"

#define MAX_SCRIPT_LEVELS	5
#define MAX_PREFIX		(2 * MAX_SCRIPT_LEVELS + 1)	/* interpreter and argument per level, and the script's name */
#define STACK_RANDOM_RANGE	(1ul << 34)			/* 22 bits of pages, as Linux */
#define STACK_EXTRA		(128 * 1024ul)			/* mapped below what is in use at first */

/* A vector of strings: of the calling program, or (for pid 1) of the kernel. */
struct string_vector {
	const u64 __user	*user;		/* pointers; NULL: empty */
	const char *const	*kernel;
};

struct exec {
	struct file	*file;			/* the program file in hand; counted */
	const char	*filename;		/* as given: AT_EXECFN, comm */
	bool		 path_inaccessible;	/* by a close-on-exec descriptor: an interpreter could not open it */
	char		 head[EXEC_HEAD_SIZE];
	/* Replace argv[0] when there was a "#!": kmalloc'd. */
	char		*prefix[MAX_PREFIX];
	int		 nr_prefix;
	struct string_vector argv, envp;
	struct elf_file	 elf, interp;
	struct mm	*mm;			/* the new address space until it is installed */
	struct exec_strings strings;
	s64		 setuid, setgid;	/* of a set-id file; -1 */
	struct sighand	*sighand;		/* spare, if ours is shared with another process */
};

/* -- 1: the program -- */

struct file *open_exec(int dfd, const char *name, unsigned int lookup_flags)
{
	struct path path;
	struct file *file;
	int err = path_lookup_at(dfd, name, lookup_flags, &path);

	if (err)
		return ERR_PTR(err);
	struct inode *inode = path.dentry->inode;

	if (S_ISLNK(inode->mode))
		err = -ELOOP;
	else if (!S_ISREG(inode->mode) || path_is_noexec(&path))
		err = -EACCES;
	else if (!(inode->mode & 0111))		/* root too needs at least one x */
		err = -EACCES;
	else
		err = inode_permission(inode, MAY_EXEC);
	/* Execution needs no right to read, so the file is opened past that check. */
	file = err ? ERR_PTR(err) : open_path(&path, O_RDONLY);
	path_put(&path);
	return file;
}

/* Set-id bits of the file in hand. A script's do not count: the interpreter's would. */
static void note_setid(struct exec *x)
{
	struct inode *inode = x->file->inode;
	u32 mode = READ_ONCE(inode->mode);

	x->setuid = x->setgid = -1;
	if (path_is_nosuid(&x->file->path) || current->process->no_new_privs)
		return;
	if (mode & S_ISUID)
		x->setuid = inode->uid;
	if ((mode & (S_ISGID | 0010)) == (S_ISGID | 0010))
		x->setgid = inode->gid;
}

static int push_prefix(struct exec *x, const char *s)
{
	char *copy = kstrdup(s, GFP_KERNEL);

	if (!copy)
		return -ENOMEM;
	memmove(x->prefix + 1, x->prefix, (size_t)x->nr_prefix * sizeof(x->prefix[0]));
	x->prefix[0] = copy;
	x->nr_prefix++;
	return 0;
}

/* x->file is a script: its interpreter takes its place, and its name becomes an argument. */
static int follow_script(struct exec *x, const char *interp, const char *arg)
{
	int err = 0;

	if (x->path_inaccessible)
		return -ENOENT;
	if (!x->nr_prefix)
		err = push_prefix(x, x->filename);
	if (!err && arg)
		err = push_prefix(x, arg);
	if (!err)
		err = push_prefix(x, interp);
	if (err)
		return err;
	file_put(x->file);
	x->file = open_exec(AT_FDCWD, interp, LOOKUP_FOLLOW);
	if (!IS_ERR(x->file))
		return 0;
	err = (int)PTR_ERR(x->file);
	x->file = NULL;
	return err;
}

static int find_program(struct exec *x)
{
	for (int level = 0; level <= MAX_SCRIPT_LEVELS; level++) {
		char *interp, *arg;

		memset(x->head, 0, sizeof(x->head));
		ssize_t n = kernel_read(x->file, x->head, sizeof(x->head), 0);

		if (n < 0)
			return (int)n;
		/* The rest of a short file reads as zeros, which end a line too. */
		int script = script_parse(x->head, sizeof(x->head), &interp, &arg);

		if (script < 0)
			return script;
		if (!script) {
			note_setid(x);
			struct file *file = x->file;

			x->file = NULL;
			int err = elf_open(&x->elf, file, x->head);

			if (!err && x->elf.image.has_interp)
				err = elf_open_interp(&x->elf, &x->interp);
			return err;
		}
		if (level == MAX_SCRIPT_LEVELS)
			break;
		int err = follow_script(x, interp, arg);

		if (err)
			return err;
	}
	return -ELOOP;
}

/* -- 2: the arguments -- */

/* Pointer @i of the vector; 0 or -EFAULT. *s is 0 at the end. */
static int vector_get(const struct string_vector *v, int i, u64 *s)
{
	*s = 0;
	if (v->kernel) {
		*s = (u64)v->kernel[i];
		return 0;
	}
	return v->user ? copy_in(s, v->user + i, sizeof(*s)) : 0;
}

/* Length with its NUL; -EFAULT, or -E2BIG when it is too long for a single string. */
static ssize_t vector_strlen(const struct string_vector *v, u64 s)
{
	size_t n = v->kernel ? strlen((const char *)s) + 1 : strnlen_user((const char __user *)s, MAX_ARG_STRLEN);

	if (!n)
		return -EFAULT;
	return n > MAX_ARG_STRLEN ? -E2BIG : (ssize_t)n;
}

/* What all strings and their pointers may take: a quarter of the stack limit, as Linux. */
static u64 strings_limit(void)
{
	return max(min(rlimit_cur(RLIMIT_STACK) / 4, 6ul << 20), ARG_MAX_MIN);
}

/* Counts the strings of @v from @i on and adds their bytes to *bytes. Stops at @limit, however long the vector may be. */
static int measure(const struct string_vector *v, int i, int *count, u64 *bytes, u64 limit)
{
	for (;; i++) {
		u64 s;
		int err = vector_get(v, i, &s);

		if (err)
			return err;
		if (!s)
			return 0;
		ssize_t len = vector_strlen(v, s);

		if (len < 0)
			return (int)len;
		*bytes += (u64)len;
		++*count;
		if (*bytes + sizeof(u64) * (u64)*count > limit)
			return -E2BIG;
		if (fatal_signal_pending())
			return -ERESTARTNOHAND;
		cond_resched();
	}
}

/* Writes into the new address space, page by page: it is not loaded, so its pages are reached through the direct map. */
struct stack_writer {
	struct mm	*mm;
	u64		 addr;		/* where the next byte goes */
	struct page	*page;		/* of addr, pinned; NULL: not looked up yet */
};

static void writer_release(struct stack_writer *w)
{
	if (w->page)
		put_user_page(w->page, FOLL_WRITE, true);
	w->page = NULL;
}

/* The memory at w->addr and how much of @len fits there. NULL: no memory. */
static char *writer_room(struct stack_writer *w, size_t len, size_t *n)
{
	size_t offset = w->addr & ~PAGE_MASK;

	if (!w->page && get_user_pages(w->mm, w->addr & PAGE_MASK, 1, FOLL_WRITE | FOLL_REMOTE, &w->page) != 1) {
		w->page = NULL;
		return NULL;
	}
	*n = min(len, PAGE_SIZE - offset);
	return (char *)page_to_virt(w->page) + offset;
}

static void writer_advance(struct stack_writer *w, size_t n)
{
	w->addr += n;
	if (!(w->addr & ~PAGE_MASK))
		writer_release(w);
}

/* @len bytes from kernel or user memory. 0, -ENOMEM or -EFAULT. */
static int writer_copy(struct stack_writer *w, u64 src, bool kernel, size_t len)
{
	while (len) {
		size_t n;
		char *to = writer_room(w, len, &n);

		if (!to)
			return -ENOMEM;
		if (kernel)
			memcpy(to, (const void *)src, n);
		else if (copy_in(to, (const void __user *)src, n))
			return -EFAULT;
		writer_advance(w, n);
		src += n;
		len -= n;
	}
	return 0;
}

/* One string, ended whatever the program does to it meanwhile: its last byte is written as NUL. */
static int write_string(struct stack_writer *w, u64 s, bool kernel, size_t len, u64 *pointer)
{
	static const char nul = '\0';

	*pointer = w->addr;
	int err = writer_copy(w, s, kernel, len - 1);

	return err ? err : writer_copy(w, (u64)&nul, true, 1);
}

/* @count strings of @v from index @i. They may have grown since they were measured: @end is not passed. */
static int write_vector(struct stack_writer *w, const struct string_vector *v, int i, int count, u64 end, u64 **pointers)
{
	for (; count > 0; count--, i++) {
		u64 s;
		int err = vector_get(v, i, &s);

		if (err)
			return err;
		ssize_t len = s ? vector_strlen(v, s) : -EFAULT;

		if (len < 0)
			return (int)len;
		if ((u64)len > end - w->addr)
			return -E2BIG;
		err = write_string(w, s, v->kernel, (size_t)len, (*pointers)++);
		if (err)
			return err;
		if (fatal_signal_pending())
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static int write_strings(struct exec *x, int first, u64 env_end)
{
	struct exec_strings *s = &x->strings;
	struct stack_writer w = { .mm = x->mm, .addr = s->start };
	u64 *pointer = s->pointers;
	int err = 0;

	for (int i = 0; i < x->nr_prefix && !err; i++)
		err = write_string(&w, (u64)x->prefix[i], true, strlen(x->prefix[i]) + 1, pointer++);
	if (!err)
		err = write_vector(&w, &x->argv, first, s->argc - x->nr_prefix, env_end, &pointer);
	*pointer++ = 0;
	s->env_start = w.addr;
	if (!err)
		err = write_vector(&w, &x->envp, 0, s->envc, env_end, &pointer);
	*pointer = 0;
	s->filename = w.addr;
	if (!err)
		err = writer_copy(&w, (u64)x->filename, true, strlen(x->filename) + 1);
	writer_release(&w);
	return err;
}

/* Makes x->mm with its stack and strings. */
static int build_stack(struct exec *x)
{
	struct exec_strings *s = &x->strings;
	int first = x->nr_prefix ? 1 : 0;	/* a script's argv[0] is replaced by the prefix */
	int given = 0, err;
	u64 arg_bytes = 0, env_bytes = 0, limit = strings_limit(), arg0 = 0;
	static const char *const empty_argv[] = { "", NULL };

	/* A program without argv[0] would read past the end: since 5.18 it gets an empty one. */
	err = vector_get(&x->argv, 0, &arg0);
	if (err)
		return err;
	if (!arg0) {
		pr_once("%s: execve with an empty argv; an empty argv[0] is added\n", current->comm);
		x->argv = (struct string_vector){ .kernel = empty_argv };
	}
	for (int i = 0; i < x->nr_prefix; i++)
		arg_bytes += strlen(x->prefix[i]) + 1;
	err = measure(&x->argv, first, &given, &arg_bytes, limit);
	if (err)
		return err;
	s->argc = x->nr_prefix + given;
	err = measure(&x->envp, 0, &s->envc, &env_bytes, limit - min(limit, arg_bytes + (u64)s->argc * sizeof(u64)));
	if (err)
		return err;
	s->pointers = kvmalloc(((size_t)s->argc + (size_t)s->envc + 2) * sizeof(u64), GFP_KERNEL);
	if (!s->pointers)
		return -ENOMEM;
	x->mm = mm_alloc();
	if (!x->mm)
		return -ENOMEM;

	/* The topmost word stays zero, as Linux has it. */
	u64 top = TASK_SIZE - aslr_offset(STACK_RANDOM_RANGE);
	u64 filename_len = strlen(x->filename) + 1;

	s->end = top - sizeof(u64);
	s->start = s->end - filename_len - env_bytes - arg_bytes;
	u64 used = ALIGN_UP(top - s->start + elf_tables_size(s->argc, s->envc), PAGE_SIZE);
	u64 size = max(used, min(used + STACK_EXTRA, rlimit_cur(RLIMIT_STACK) & PAGE_MASK));

	err = setup_stack_vma(x->mm, top, size, x->elf.image.exec_stack || current->process->personality & READ_IMPLIES_EXEC);
	if (err)
		return err;
	return write_strings(x, first, s->end - filename_len);
}

/* -- 3: the change -- */

/*
 * Makes current the only thread and the leader of its process. The others are killed and waited for. -EAGAIN: another
 * thread exits or execs the whole process, or we are killed; then nothing has changed for the survivors.
 */
static int become_only_thread(void)
{
	struct process *p = current->process;
	unsigned long irq, flags;
	struct sighand *sh = lock_sighand(p, &flags);
	bool killed = false;

	if (p->group_exit || p->group_exec_task) {
		unlock_sighand(sh, flags);
		return -EAGAIN;
	}
	if (p->nr_threads == 1 && p->leader == current) {
		unlock_sighand(sh, flags);
		return 0;
	}
	p->group_exec_task = current;
	zap_other_threads_locked();
	unlock_sighand(sh, flags);

	for (;;) {
		set_current_state(TASK_KILLABLE);	/* the last one to go wakes us: leave_process_locked() */
		if (READ_ONCE(p->nr_threads) == 1)
			break;
		killed = fatal_signal_pending();
		if (killed)
			break;
		schedule();
	}
	set_current_state(TASK_RUNNING);

	irq = spin_lock_irqsave(&process_tree_lock);
	sh = lock_sighand(p, &flags);
	p->group_exec_task = NULL;
	if (!killed && p->leader != current) {
		/* The program keeps its pid: we become what the leader was. */
		struct task *old = p->leader;
		struct pid *mine = pid_find(current->tid), *leaders = pid_find(p->tgid);

		rcu_assign_pointer(leaders->task, current);
		rcu_assign_pointer(mine->task, NULL);
		pid_unuse_locked(mine);
		uncharge_thread(p);
		WRITE_ONCE(current->tid, p->tgid);
		current->exit_signal = SIGCHLD;
		task_get(current);
		WRITE_ONCE(p->leader, current);
		task_put(old);
	}
	unlock_sighand(sh, flags);
	spin_unlock_irqrestore(&process_tree_lock, irq);
	return killed ? -EAGAIN : 0;
}

/* Handlers shared by CLONE_SIGHAND are left to the other process; ours start as copies in x->sighand. */
static void unshare_sighand(struct exec *x)
{
	struct process *p = current->process;
	struct sighand *old = p->sighand, *new = x->sighand;
	unsigned long irq, flags;

	if (!new)
		return;
	irq = spin_lock_irqsave(&process_tree_lock);
	flags = spin_lock_irqsave(&old->lock);
	memcpy(new->action, old->action, sizeof(new->action));
	rcu_assign_pointer(p->sighand, new);
	spin_unlock_irqrestore(&old->lock, flags);
	spin_unlock_irqrestore(&process_tree_lock, irq);
	x->sighand = NULL;
	synchronize_rcu();		/* lock_sighand() may be waiting for the old lock */
	sighand_put(old);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* What belonged to the old program and not to the process. */
static void drop_old_program(struct exec *x)
{
	struct task *t = current;
	struct process *p = t->process;
	unsigned long flags;

	unshare_sighand(x);
	struct sighand *sh = lock_sighand(p, &flags);

	flush_signal_handlers(sh, false);
	unlock_sighand(sh, flags);
	t->sas_ss_sp = t->sas_ss_size = 0;
	t->sas_ss_flags = 0;
	t->restart.fn = NULL;
	t->flags &= ~PF_FORKNOEXEC;
	t->exit_signal = SIGCHLD;
	p->did_exec = true;
	p->mm_flags = mm_flags_inherited(p->mm_flags);
	posix_timers_exec(p);
	files_close_on_exec(t->files);
	set_task_comm(t, base_name(x->filename));

	struct file *old_exe = p->exe;

	file_get(x->elf.file);
	p->exe = x->elf.file;
	if (old_exe)
		file_put(old_exe);
	creds_exec(x->setuid, x->setgid);
}

/* From here on the old program is lost. */
static int begin_new_program(struct exec *x)
{
	struct process *p = current->process;

	if (refcount_read(&p->sighand->refs) > 1) {
		x->sighand = sighand_alloc();
		if (!x->sighand)
			return -ENOMEM;
	}
	int err = become_only_thread();

	if (err)
		return err;
	current->in_execve = true;
	err = files_unshare(current);
	if (err)
		return err;
	mm_release();			/* while the old address space is loaded; a vfork parent gets it back */
	mm_set_mmap_base(x->mm, rlimit_cur(RLIMIT_STACK));
	file_get(x->elf.file);
	x->mm->exe_file = x->elf.file;
	exec_install_mm(x->mm);
	x->mm = NULL;
	drop_old_program(x);
	return 0;
}

/* -- all of it -- */

static void exec_cleanup(struct exec *x)
{
	elf_close(&x->elf);
	elf_close(&x->interp);
	if (x->file)
		file_put(x->file);
	if (x->mm)
		mm_put(x->mm);
	if (x->sighand)
		sighand_put(x->sighand);
	for (int i = 0; i < x->nr_prefix; i++)
		kfree(x->prefix[i]);
	kvfree(x->strings.pointers);
}

/* x->file, filename, argv and envp are set. Sets @frame for the new program. 0 or -errno. */
static int do_exec(struct exec *x, struct trap_frame *frame)
{
	struct process *p = current->process;
	u64 entry = 0, sp = 0;
	int err = mutex_lock_killable(&p->exec_lock);

	if (err) {
		exec_cleanup(x);
		return -ERESTARTNOINTR;
	}
	err = find_program(x);
	if (!err)
		err = build_stack(x);
	if (!err)
		err = begin_new_program(x);
	if (!err)
		err = elf_load(&x->elf, &x->interp, &x->strings, &entry, &sp);
	mutex_unlock(&p->exec_lock);
	exec_cleanup(x);
	if (!err)
		thread_context_exec(frame, entry, sp);
	else if (current->in_execve && !fatal_signal_pending())
		force_fatal_sig(SIGSEGV);
	current->in_execve = false;
	return err;
}

/* The name for AT_EXECFN and scripts. execveat on a descriptor: /dev/fd/N, or /dev/fd/N/name. */
static int exec_filename(struct exec *x, int fd, const char *name, char *buf, size_t size)
{
	if (fd == AT_FDCWD || name[0] == '/') {
		x->filename = name;
		return 0;
	}
	if (name[0])
		snprintf(buf, size, "/dev/fd/%d/%s", fd, name);
	else
		snprintf(buf, size, "/dev/fd/%d", fd);
	x->filename = buf;
	x->path_inaccessible = fd_is_cloexec(current->files, fd);
	return 0;
}

static int do_execveat(int fd, const char __user *uname, const u64 __user *argv, const u64 __user *envp, unsigned int lookup_flags)
{
	struct exec *x = kzalloc(sizeof(*x), GFP_KERNEL);
	char *name = NULL, *fd_name = NULL;
	int err = -ENOMEM;

	if (!x)
		return -ENOMEM;
	name = getname(uname, lookup_flags & LOOKUP_EMPTY);
	if (IS_ERR(name)) {
		err = (int)PTR_ERR(name);
		name = NULL;
		goto out;
	}
	if (fd != AT_FDCWD) {
		fd_name = kmalloc(PATH_MAX + 32, GFP_KERNEL);
		if (!fd_name)
			goto out;
	}
	err = exec_filename(x, fd, name, fd_name, PATH_MAX + 32);
	if (err)
		goto out;
	x->argv.user = argv;
	x->envp.user = envp;
	x->file = open_exec(fd, name, lookup_flags);
	if (IS_ERR(x->file)) {
		err = (int)PTR_ERR(x->file);
		goto out;
	}
	err = do_exec(x, task_trap_frame(current));
out:
	kfree(fd_name);
	if (name)
		putname(name);
	kfree(x);
	return err;
}

SYSCALL_DEFINE(execve, const char __user *name, const u64 __user *argv, const u64 __user *envp)
{
	return do_execveat(AT_FDCWD, name, argv, envp, LOOKUP_FOLLOW);
}

SYSCALL_DEFINE(execveat, int fd, const char __user *name, const u64 __user *argv, const u64 __user *envp, int flags)
{
	if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -EINVAL;
	return do_execveat(fd, name, argv, envp, (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
						 (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0));
}

/* -- /proc -- */

static size_t remote_text(struct task *t, bool environment, char *buf, size_t size)
{
	struct mm *mm = task_mm_get(t);
	ssize_t n = 0;

	if (!mm)
		return 0;
	u64 start = environment ? READ_ONCE(mm->env_start) : READ_ONCE(mm->arg_start);
	u64 end = environment ? READ_ONCE(mm->env_end) : READ_ONCE(mm->arg_end);

	if (end > start)
		n = access_remote_vm(mm, start, buf, min(size, (size_t)(end - start)), false, true);
	mm_put(mm);
	return n > 0 ? (size_t)n : 0;
}

size_t task_cmdline(struct task *t, char *buf, size_t size) { return remote_text(t, false, buf, size); }
size_t task_environ(struct task *t, char *buf, size_t size) { return remote_text(t, true, buf, size); }

/* -- pid 1 -- */

static int kernel_execve(const char *filename)
{
	const char *const argv[] = { filename, NULL };
	static const char *const envp[] = { "HOME=/", "TERM=linux", NULL };
	struct exec *x = kzalloc(sizeof(*x), GFP_KERNEL);

	if (!x)
		return -ENOMEM;
	x->filename = filename;
	x->argv.kernel = argv;
	x->envp.kernel = envp;
	x->file = open_exec(AT_FDCWD, filename, LOOKUP_FOLLOW);
	int err = IS_ERR(x->file) ? (int)PTR_ERR(x->file) : do_exec(x, task_trap_frame(current));

	kfree(x);
	return err;
}

/* Descriptors 0, 1 and 2. Without a console the system may still be of use, so that is only a warning. */
static void open_console(void)
{
	struct file *console = file_open("/dev/console", O_RDWR, 0);

	if (IS_ERR(console)) {
		pr_warn("/dev/console cannot be opened (error %ld): init starts without one\n", PTR_ERR(console));
		return;
	}
	for (int i = 0; i < 3; i++) {
		int fd = fd_reserve(0);

		if (fd < 0)
			break;
		file_get(console);
		fd_install(fd, console);
	}
	file_put(console);
}

static int init_main(void *unused)
{
	static const char *const wishes[] = { "rdinit", "init" };
	static const char *const programs[] = { "/init", "/sbin/init", "/etc/init", "/bin/init", "/bin/sh" };
	char wanted[256];
	int err;

	(void)unused;
	open_console();
	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++) {
		if (!cmdline_get(wishes[i], wanted, sizeof(wanted)) || !wanted[0])
			continue;
		err = kernel_execve(wanted);
		if (!err)
			thread_enter_user();
		halt_with_message("%s=%s cannot be started (error %d). Is it in the initramfs, and executable?", wishes[i], wanted, -err);
	}
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		err = kernel_execve(programs[i]);
		if (!err)
			thread_enter_user();
		if (err != -ENOENT)
			pr_warn("%s exists but cannot be started (error %d)\n", programs[i], -err);
	}
	halt_with_message("There is no program to start: the initramfs has none of /init, /sbin/init, /etc/init, /bin/init, "
			  "/bin/sh. Was it loaded, and is it whole?");
}

static const struct rlimit init_limits[RLIM_NLIMITS] = {
	[RLIMIT_CPU] = { RLIM_INFINITY, RLIM_INFINITY },
	[RLIMIT_FSIZE] = { RLIM_INFINITY, RLIM_INFINITY },
	[RLIMIT_DATA] = { RLIM_INFINITY, RLIM_INFINITY },
	[RLIMIT_STACK] = { 8ul << 20, RLIM_INFINITY },
	[RLIMIT_CORE] = { 0, RLIM_INFINITY },
	[RLIMIT_RSS] = { RLIM_INFINITY, RLIM_INFINITY },
	[RLIMIT_NPROC] = { 0, 0 },		/* by memory, below */
	[RLIMIT_NOFILE] = { 1024, 4096 },
	[RLIMIT_MEMLOCK] = { 8ul << 20, 8ul << 20 },
	[RLIMIT_AS] = { RLIM_INFINITY, RLIM_INFINITY },
	[RLIMIT_LOCKS] = { RLIM_INFINITY, RLIM_INFINITY },
	[RLIMIT_SIGPENDING] = { 0, 0 },		/* by memory, below */
	[RLIMIT_MSGQUEUE] = { 819200, 819200 },
	[RLIMIT_NICE] = { 0, 0 },
	[RLIMIT_RTPRIO] = { 0, 0 },
	[RLIMIT_RTTIME] = { RLIM_INFINITY, RLIM_INFINITY },
};

static struct process *make_init_process(void)
{
	struct process *p = process_alloc();

	if (!p)
		return NULL;
	p->sighand = sighand_alloc();
	if (!p->sighand) {
		process_put(p);
		return NULL;
	}
	p->creds = kernel_process.creds;
	p->user = &root_user;
	user_get(p->user);
	memcpy(p->rlim, init_limits, sizeof(p->rlim));
	u64 half = sysctl_threads_max / 2;

	p->rlim[RLIMIT_NPROC] = p->rlim[RLIMIT_SIGPENDING] = (struct rlimit){ half, half };
	p->unkillable = true;
	p->dumpable = 1;
	return p;
}

/* Boot context. Everything is there; what is missing now is a reason to halt. */
struct task *start_init(void)
{
	struct task *t = task_alloc();
	struct process *p = t ? make_init_process() : NULL;
	struct pid *pid = p ? pid_new() : NULL;

	if (!pid)
		goto no_memory;
	sched_fork(t);
	t->affinity = ~0ul;			/* the boot context is bound to its CPU */
	t->nice = 0;
	thread_context_kthread(t, init_main, NULL);
	if (thread_context_alloc(t))		/* after it, for a kernel thread has no FPU area */
		goto no_memory;
	t->process = p;
	process_get(p);
	t->files = files_alloc();
	t->fs = fs_context_copy(NULL);
	if (!t->files || !t->fs)
		goto no_memory;
	set_task_comm(t, "init");
	t->exit_signal = SIGCHLD;

	unsigned long irq = spin_lock_irqsave(&process_tree_lock);

	if (!pid_assign_locked(pid) || pid->nr != 1)
		panic("pid 1 is taken");
	p->tgid = t->tid = pid->nr;
	p->leader = t;
	task_get(t);
	p->parent = &kernel_process;
	list_add_tail(&p->sibling, &kernel_process.children);
	list_add_tail(&p->all_node, &all_processes);
	list_add_tail(&t->thread_node, &p->threads);
	p->nr_threads = p->nr_live = 1;
	pid_use_locked(pid);
	pid_use_locked(pid);
	process_join_group_locked(p, pid);
	process_join_session_locked(p, pid);
	rcu_assign_pointer(pid->process, p);
	rcu_assign_pointer(pid->task, t);
	init_task_ptr = t;
	spin_unlock_irqrestore(&process_tree_lock, irq);
	task_count_try_inc();
	__atomic_fetch_add(&root_user.nr_threads, 1, __ATOMIC_RELAXED);
	wake_up_new_task(t);
	return t;

no_memory:
	halt_with_message("There is not enough memory to start init.");
}
