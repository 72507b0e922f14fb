/*
 * A server of files in a page, for tests of the kernel's side of user/include/fl_fs.h: a fixed tree, and a hook that spoils its answers.
 *
 *	1 /	2 /f  four pages, byte i of page n is 'a' + n	3 /d	4 /d/g  empty
 */
#ifndef FAKE_TREE_H
#define FAKE_TREE_H

#include "memfs_test.h"
#include "user/include/fl_fs.h"
#include "user/include/port.h"

enum { SEND, NO_ANSWER };

static int fake_fd;
/* Called with the answer that would be right; may change it, m->len bytes at buf too. NO_ANSWER: none is sent. */
static int (*spoil)(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a);

static void describe(struct fl_fs_ans *a, uint64_t node)
{
	a->node = node;
	a->mode = node == 3 ? S_IFDIR | 0755 : S_IFREG | 0755;
	a->size = node == 2 ? 4 * PAGE : 0;
	a->nlink = 1;
}

static uint32_t add_entry(char *buf, uint32_t at, uint64_t node, uint64_t next, const char *name, uint16_t len)
{
	struct fl_fs_entry e = { .node = node, .next = next, .name_len = len, .type = S_IFREG };

	memset(buf + at, 0, sizeof(e) + 264);
	memcpy(buf + at, &e, sizeof(e));
	memcpy(buf + at + sizeof(e), name, len);
	return at + (uint32_t)((sizeof(e) + len + 7) & ~7u);
}

static void fake_answer(const struct fl_fs_req *r, struct fl_msg *m, char *buf, struct fl_fs_ans *a)
{
	char page[PAGE];

	switch (r->op) {
	case FL_FS_LOOKUP:
		if (r->node == 1 && r->name_len == 1 && buf[0] == 'f')
			describe(a, 2);
		else if (r->node == 1 && r->name_len == 1 && buf[0] == 'd')
			describe(a, 3);
		else if (r->node == 3 && r->name_len == 1 && buf[0] == 'g')
			describe(a, 4);
		else
			a->result = -ENOENT;
		break;
	case FL_FS_READ:
		memset(page, 'a' + (int)(r->offset / PAGE), sizeof(page));
		a->result = port_lent_write(fake_fd, m->token, 0, page, r->size);
		break;
	case FL_FS_WRITE:
		a->result = r->size;
		break;
	case FL_FS_READDIR:
		if (r->offset == 0 && r->node == 1) {
			m->len = add_entry(buf, 0, 2, 1, "f", 1);
			m->len = add_entry(buf, m->len, 3, 2, "d", 1);
		}
		break;
	case FL_FS_CREATE:
		a->result = -ENOSPC;
		break;
	case FL_FS_UNLINK:
	case FL_FS_RMDIR:
	case FL_FS_RENAME:
	case FL_FS_SETATTR:
		break;
	default:
		a->result = -ENOSYS;
	}
}

__attribute__((noreturn))
static void fake_main(int fd)
{
	static char buf[FL_INLINE_MAX + 512];

	fake_fd = fd;
	for (;;) {
		struct fl_msg m = { .buf = (uintptr_t)buf, .room = FL_INLINE_MAX };
		struct fl_fs_ans a = { 0 };
		struct fl_fs_req r;

		if (port_receive(fd, &m, -1))
			_exit(1);
		memcpy(&r, m.word, sizeof(r));
		if (r.op == FL_FS_BYE)
			_exit(0);
		if (!m.token)
			continue;
		m.len = 0;
		m.nr_fds = 0;
		fake_answer(&r, &m, buf, &a);
		if (spoil && spoil(&r, &m, buf, &a) == NO_ANSWER)
			continue;
		memcpy(m.word, &a, sizeof(a));
		if (port_reply(fd, &m) == -EMSGSIZE) {
			m.len = 0;
			port_reply(fd, &m);
		}
	}
}

/* Mounts TREE, or hands it over to a new server. */
static pid_t start_fake(int (*how)(const struct fl_fs_req *, struct fl_msg *, char *, struct fl_fs_ans *))
{
	char options[32];
	int p[2];

	MUST(port_create(p, 0) == 0);
	spoil = how;
	fflush(stdout);
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0)
		fake_main(p[0]);
	snprintf(options, sizeof(options), "fd=%d", p[0]);
	mkdir(TREE, 0755);
	if (mount(NULL, TREE, NULL, MS_REMOUNT, options)) {
		MUST(errno == EINVAL);
		MUST(mount("fake", TREE, "server", 0, options) == 0);
	}
	close(p[0]);
	close(p[1]);
	return pid;
}

static void stop_fake(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid);
}

#endif
