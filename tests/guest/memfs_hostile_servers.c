/*
 * only: faultline
 *
 * What a server of files may do to those who use it, and what not: answers that are nonsense are errors, a server that never answers holds up
 * only its own users, and those can be killed.
 */
#include "fake_tree.h"

static int lie_about;		/* which lie; set before the server is forked */

static int lie(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	(void)m, (void)buf;
	if (r->op != FL_FS_LOOKUP || a->result)
		return SEND;
	switch (lie_about) {
	case 0: a->node = 0; break;
	case 1: a->mode = S_IFCHR | 0666; break;
	case 2: a->mode = S_IFLNK | 0777; break;
	case 3: a->mode = 0; break;
	case 4: a->size = UINT64_MAX; break;
	case 5: a->size = INT64_MAX; break;
	case 6: a->result = 1; break;
	case 7: a->result = INT64_MIN; break;
	case 8: a->result = -512; break;			/* ERESTARTSYS: means something to the kernel */
	case 9: a->result = -ENOMEM; break;
	case 10: a->node = 1; a->mode = S_IFREG | 0777; break;	/* the root is no file */
	case 11: a->node = 1; a->mode = S_IFDIR | 0755; break;	/* nor inside itself */
	}
	return SEND;
}

static void lies_about_names(void)
{
	struct stat st;

	for (lie_about = 0; lie_about <= 11; lie_about++) {
		pid_t pid = start_fake(lie);

		CHECK_ERRNO(EIO, stat(TREE "/f", &st));
		CHECK_ERRNO(EIO, open(TREE "/d/g", O_RDWR));
		stop_fake(pid);
	}
}

/* A directory that is its own grandchild: /d/g is /d again, and so on for ever. */
static int circle(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	(void)m, (void)buf;
	if (r->op == FL_FS_LOOKUP) {
		a->result = 0;
		describe(a, 3);
	}
	return SEND;
}

static void circles(void)
{
	struct stat st;
	pid_t pid = start_fake(circle);

	CHECK_EQUAL(0, stat(TREE "/d", &st));
	CHECK_ERRNO(EIO, stat(TREE "/d/g", &st));
	CHECK_EQUAL(0, chdir(TREE "/d"));
	CHECK_ERRNO(EIO, stat("d", &st));
	CHECK_ERRNO(EIO, rename("d", "e"));
	CHECK_EQUAL(0, stat(TREE "/x", &st));		/* the same directory under a third name: it has moved, then */
	CHECK(stat("..", &st) == 0);
	CHECK_EQUAL(1, st.st_ino);
	CHECK_EQUAL(0, rename(TREE "/x", TREE "/y"));	/* both names are one directory */
	CHECK_EQUAL(0, chdir("/"));
	stop_fake(pid);
}

/* -- reading directories -- */

static int bad_entries(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	(void)a;
	if (r->op != FL_FS_READDIR)
		return SEND;
	switch (lie_about) {
	case 0: m->len = add_entry(buf, 0, 2, 1, "a/b", 3); break;
	case 1: m->len = add_entry(buf, 0, 2, 1, "", 0); break;
	case 2: m->len = add_entry(buf, 0, 2, 1, "..", 2); break;
	case 3: m->len = add_entry(buf, 0, 2, 1, "a\0b", 3); break;
	case 4: m->len = add_entry(buf, 0, 2, 0, "f", 1); break;		/* goes nowhere */
	case 5: m->len = add_entry(buf, 0, 2, UINT64_MAX, "f", 1); break;
	case 6: m->len = add_entry(buf, 0, 0, 1, "f", 1); break;
	case 7: m->len = add_entry(buf, 0, 2, 1, "f", 1) - 8; break;		/* cut off */
	case 8: m->len = 3; break;
	case 9:
		m->len = add_entry(buf, 0, 2, 1, "f", 1);
		((struct fl_fs_entry *)buf)->name_len = 65535;
		break;
	case 10: m->len = add_entry(buf, 0, 2, 1, buf + 1000, 256); break;
	}
	return SEND;
}

static void lies_about_directories(void)
{
	char buf[4096];

	for (lie_about = 0; lie_about <= 10; lie_about++) {
		pid_t pid = start_fake(bad_entries);
		int fd = open(TREE, O_RDONLY | O_DIRECTORY);
		long n = syscall(SYS_getdents64, fd, buf, sizeof(buf));

		if (n > 0)			/* the dots */
			n = syscall(SYS_getdents64, fd, buf, sizeof(buf));
		if (n != -1 || errno != EIO)
			printf("lie %d: %ld\n", lie_about, n);
		CHECK_ERRNO(EIO, n < 0 ? (errno = EIO, n) : n);
		close(fd);
		stop_fake(pid);
	}
}

/* -- reading and writing -- */

static int bad_data(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	char page[PAGE];

	if (r->op == FL_FS_READ) {
		switch (lie_about) {
		case 0: a->result = r->size + 1; break;
		case 1: a->result = -1000; break;
		case 2: a->result = -ENOMEM; break;		/* must not make the kernel look for somebody to kill */
		case 3: a->result = -EINTR; break;		/* nor try again for ever */
		case 4: m->len = 100; break;			/* bytes that nobody asked for */
		}
		if (lie_about == 5) {				/* less than it wrote */
			memset(page, 'S', sizeof(page));
			port_lent_write(fake_fd, m->token, 0, page, PAGE);
			a->result = 10;
		}
		if (lie_about == 6)				/* outside of what is lent */
			a->result = port_lent_write(fake_fd, m->token, PAGE - 1, page, 2) == 1 &&
				port_lent_write(fake_fd, m->token, 1ul << 40, page, 2) == -EINVAL &&
				port_lent_read(fake_fd, m->token, 0, page, 1) == -EACCES ? 0 : -EXDEV;
	}
	if (r->op == FL_FS_WRITE && lie_about == 0)
		a->result = r->size - 1;
	if (r->op == FL_FS_WRITE && lie_about == 1)
		a->result = -ENOSPC;
	(void)buf;
	return SEND;
}

static void lies_about_data(void)
{
	for (lie_about = 0; lie_about <= 6; lie_about++) {
		pid_t pid = start_fake(bad_data);
		int fd = open(TREE "/f", O_RDWR);
		char buf[100], *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		MUST(fd >= 0 && p != MAP_FAILED);
		if (lie_about <= 3) {
			CHECK_ERRNO(EIO, lie_about == 1 && pread(fd, buf, 1, 0) < 0 ? (errno = EIO, -1) : pread(fd, buf, 1, 0));
			CHECK(is_bus_error(p, 0));
			CHECK(is_bus_error(p, 1));
			CHECK_ERRNO(EFAULT, write(STDOUT_FILENO, p, 1));
		} else if (lie_about == 5) {
			CHECK_EQUAL(100, pread(fd, buf, 100, 0));
			CHECK(!memcmp(buf, "SSSSSSSSSS\0\0\0", 13));
		} else {
			CHECK_EQUAL(1, pread(fd, buf, 1, 0));
		}
		munmap(p, PAGE);
		close(fd);
		stop_fake(pid);
	}
}

static void lies_about_writing(void)
{
	for (lie_about = 0; lie_about <= 1; lie_about++) {
		pid_t pid = start_fake(bad_data);
		int fd = open(TREE "/d/g", O_RDWR);		/* empty: nothing is read */

		CHECK_EQUAL(3, write(fd, "abc", 3));
		CHECK_ERRNO(lie_about ? ENOSPC : EIO, fsync(fd));
		CHECK_EQUAL(0, fsync(fd));			/* told once */
		close(fd);
		stop_fake(pid);
	}
}

/* -- silence -- */

static int silent_op;
static int silent(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	(void)m, (void)buf, (void)a;
	return (int)r->op == silent_op ? NO_ANSWER : SEND;
}

static void try_open(void) { (void)!open(TREE "/f", O_RDONLY); }
static void try_create(void) { (void)!open(TREE "/new", O_WRONLY | O_CREAT, 0644); }
static void try_mkdir(void) { (void)!mkdir(TREE "/d", 0755); }
static void try_rename(void) { (void)!rename(TREE "/f", TREE "/d/f"); }
static void try_unlink(void) { (void)!unlink(TREE "/f"); }
static void try_list(void) { char b[512]; int fd = open(TREE, O_RDONLY); while (syscall(SYS_getdents64, fd, b, sizeof(b)) > 0) ; }
static void try_chmod(void) { (void)!chmod(TREE "/f", 0600); }
static void try_read(void) { char c; (void)!pread(open(TREE "/f", O_RDONLY), &c, 1, 0); }
static void try_write(void) { (void)!pwrite(open(TREE "/f", O_WRONLY), "x", 1, 0); }
static void try_cut(void) { (void)!truncate(TREE "/f", 1); }
static void try_touch(void) { volatile char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, open(TREE "/f", O_RDONLY), 0); (void)p[0]; }
static void try_exec(void) { execl(TREE "/f", "f", (char *)NULL); }
static void try_sync(void) { int fd = open(TREE "/d/g", O_RDWR); (void)!write(fd, "x", 1); fsync(fd); }
static void try_bind(void) { (void)!mount(TREE "/d", "/tmp/bind", NULL, MS_BIND, NULL); }

/* Sleeping in the call: its state is what a reader of /proc can see. Not running, for long enough to be asked twice. */
static void wait_until_it_sleeps(pid_t pid)
{
	char path[32], text[256];
	int sleeping = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (sleeping < 5) {
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		close(fd);
		text[n > 0 ? n : 0] = 0;
		char *s = strrchr(text, ')');

		MUST(s && s[2] != 'Z');
		sleeping = s[2] == 'S' || s[2] == 'D' ? sleeping + 1 : 0;
		usleep(2000);
	}
}

/* Everybody else goes on: other file systems, mounts, sync; two that wait for the server, one behind the other, can be killed. */
static void silence(int op, void (*call)(void))
{
	char path[64];
	int status, fd;
	pid_t server, pids[2];

	silent_op = op;
	server = start_fake(silent);
	for (int i = 0; i < 2; i++) {
		fflush(stdout);
		pids[i] = fork();
		MUST(pids[i] >= 0);
		if (pids[i] == 0) {
			signal(SIGTERM, SIG_DFL);
			call();
			_exit(0);
		}
		wait_until_it_sleeps(pids[i]);
	}
	CHECK(mkdir("/tmp/elsewhere", 0755) == 0 && mkdir("/tmp/elsewhere/a", 0755) == 0);
	CHECK_EQUAL(0, rename("/tmp/elsewhere/a", "/tmp/b"));
	CHECK_EQUAL(0, rmdir("/tmp/b"));
	CHECK_EQUAL(0, mount("none", "/tmp/elsewhere", "delayfs", 0, NULL));
	fd = open("/tmp/elsewhere/x", O_WRONLY | O_CREAT, 0644);
	CHECK_EQUAL(1, write(fd, "x", 1));
	CHECK_EQUAL(0, fsync(fd));
	close(fd);
	sync();
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/maps", pids[i]);
		fd = open(path, O_RDONLY);
		CHECK(read(fd, path, sizeof(path)) > 0);
		close(fd);
	}
	CHECK_EQUAL(0, umount("/tmp/elsewhere"));
	CHECK_EQUAL(0, rmdir("/tmp/elsewhere"));
	/* The one behind first: it waits for a lock, not for the server. */
	for (int i = 1; i >= 0; i--) {
		kill(pids[i], SIGKILL);
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	stop_fake(server);
}

/* Dirty pages that a server does not take: their writer waits, killably, others do not; and when it dies they go to the next. */
static void pages_that_nobody_takes(void)
{
	char *page = calloc(1, PAGE);
	int status, fd;

	silent_op = FL_FS_WRITE;
	pid_t server = start_fake(silent), writer = fork();

	MUST(writer >= 0);
	if (writer == 0) {
		fd = open(TREE "/d/g", O_RDWR);
		for (off_t i = 0; i < 100000; i++)
			(void)!pwrite(fd, page, PAGE, i * (off_t)PAGE);
		_exit(0);
	}
	wait_until_it_sleeps(writer);
	CHECK_EQUAL(0, mkdir("/tmp/elsewhere", 0755));
	CHECK_EQUAL(0, mount("none", "/tmp/elsewhere", "delayfs", 0, NULL));
	fd = open("/tmp/elsewhere/x", O_WRONLY | O_CREAT, 0644);
	for (int i = 0; i < 2000; i++)
		CHECK_EQUAL(PAGE, write(fd, page, PAGE));
	CHECK_EQUAL(0, fsync(fd));
	close(fd);
	sync();
	CHECK_EQUAL(0, umount("/tmp/elsewhere"));
	CHECK_EQUAL(0, rmdir("/tmp/elsewhere"));
	kill(writer, SIGKILL);
	CHECK(waitpid(writer, &status, 0) == writer);
	CHECK(WIFSIGNALED(status));
	stop_fake(server);
	server = start_fake(NULL);
	fd = open(TREE, O_RDONLY);
	CHECK_EQUAL(0, syscall(SYS_syncfs, fd));
	close(fd);
	stop_fake(server);
	free(page);
}

int main(void)
{
	struct stat st;

	mkdir("/tmp/bind", 0755);
	pid_t pid = start_fake(NULL);

	CHECK_EQUAL(0, stat(TREE "/f", &st));
	CHECK_EQUAL(4 * PAGE, st.st_size);
	CHECK_EQUAL(0, stat(TREE "/d/g", &st));
	stop_fake(pid);
	lies_about_names();
	circles();
	lies_about_directories();
	lies_about_data();
	lies_about_writing();
	silence(FL_FS_LOOKUP, try_open);
	silence(FL_FS_LOOKUP, try_bind);
	silence(FL_FS_CREATE, try_create);
	silence(FL_FS_LOOKUP, try_mkdir);
	silence(FL_FS_RENAME, try_rename);
	silence(FL_FS_UNLINK, try_unlink);
	silence(FL_FS_READDIR, try_list);
	silence(FL_FS_SETATTR, try_chmod);
	silence(FL_FS_SETATTR, try_cut);
	silence(FL_FS_READ, try_read);
	silence(FL_FS_READ, try_write);
	silence(FL_FS_READ, try_touch);
	silence(FL_FS_READ, try_exec);
	silence(FL_FS_WRITE, try_sync);
	pages_that_nobody_takes();
	/* Unmounting what nobody serves, and with force what nobody takes. */
	CHECK_EQUAL(0, umount(TREE));
	silent_op = FL_FS_WRITE;
	pid = start_fake(silent);
	int fd = open(TREE "/d/g", O_RDWR);

	CHECK_EQUAL(3, write(fd, "abc", 3));
	CHECK_EQUAL(0, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));	/* on its way */
	close(fd);
	CHECK_EQUAL(0, umount2(TREE, MNT_FORCE));
	stop_fake(pid);
	test_end();
}
