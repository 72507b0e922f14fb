/*
 * The protocol of a tree of files that a server provides: what the kernel (fs/serverfs*.c) asks, and a ring-3 server answers.
 * docs/servers.md is the reference. Shared by both sides; no code.
 *
 * The server keeps names, attributes and contents. The kernel keeps pages (its page cache, with write-back) and decides who may do
 * what. A node is a file or a directory; the server chooses its number and never uses one twice, not even after a restart with the same
 * data: so a number that it does not know is an old one, and the answer is -ESTALE.
 *
 * The server may answer when it likes, also late and in another order, but a request that it never answers keeps its caller until
 * that is killed. It must not use the tree that it serves.
 */
#ifndef FL_FS_H
#define FL_FS_H

#include <stdint.h>
#include "fl_port.h"

#define FL_FS_VERSION	1
#define FL_FS_ROOT	1u	/* the node of the top directory, always there */

enum fl_fs_op {
	FL_FS_HELLO = 1,	/* node: the root; size: FL_FS_VERSION. First message to each server. Nobody waits for an answer */
	FL_FS_KEEP,		/* right after HELLO: node is in use, do not free it though it may have no name. Nobody waits */
	FL_FS_LOOKUP,		/* node: a directory; name. Answer: the node and its attributes; -ENOENT */
	FL_FS_CREATE,		/* node: a directory; name, mode (S_IFREG or S_IFDIR with rights), uid, gid, time. Answer as LOOKUP; -EEXIST */
	FL_FS_UNLINK,		/* node: a directory; node2: what the name means; name. The contents stay until FORGET */
	FL_FS_RMDIR,		/* the same for a directory. -ENOTEMPTY */
	FL_FS_RENAME,		/* node, name: from; node2, name2: to, a file there is replaced. flags: FL_FS_EXCHANGE */
	FL_FS_READ,		/* node, offset, size; the lent range is to be filled. result: bytes, less only at the end of the file */
	FL_FS_WRITE,		/* node, offset, size, time; the lent range is the data. result: size. Makes the file longer if need be */
	FL_FS_READDIR,		/* node, offset: 0 or the `next` of an entry. Answer: struct fl_fs_entry, as many as fit, inline; none: the end */
	FL_FS_SETATTR,		/* node, valid: what to change; mode, uid, gid, time, offset (the new size) */
	FL_FS_FORGET,		/* a node without a name is not used any more. Nobody waits for an answer */
	FL_FS_BYE,		/* unmounted: there will be no more requests. Nobody waits for an answer */
};

/* The eight words of a request. Names are inline: name_len bytes, then name2_len of RENAME's second; no NUL, no '/', not "." or "..". */
struct fl_fs_req {
	uint32_t op;
	uint32_t flags;
	uint64_t node;
	uint64_t node2;
	uint64_t offset;
	uint64_t time;		/* ns since 1970: the file's mtime */
	uint32_t size;
	uint16_t name_len;
	uint16_t name2_len;
	uint32_t mode;
	uint32_t valid;		/* FL_FS_SET_* */
	uint32_t uid, gid;
};
#define FL_FS_EXCHANGE	1u
#define FL_FS_SET_MODE	1u
#define FL_FS_SET_OWNER	2u
#define FL_FS_SET_TIME	4u
#define FL_FS_SET_SIZE	8u

/* The eight words of an answer. The attributes go with LOOKUP and CREATE. */
struct fl_fs_ans {
	int64_t	 result;	/* bytes or 0; or -errno */
	uint64_t node;		/* not 0, not FL_FS_ROOT */
	uint64_t size;
	uint64_t time;		/* mtime */
	uint32_t mode;		/* S_IFREG or S_IFDIR, and rights */
	uint32_t nlink;
	uint32_t uid, gid;
	uint32_t reserved[4];
};

struct fl_fs_entry {
	uint64_t node;
	uint64_t next;		/* to go on behind this entry; larger than those before */
	uint16_t name_len;	/* 1 to 255 bytes follow, filled up to a multiple of 8 */
	uint16_t type;		/* the S_IFMT bits of its mode */
	uint32_t reserved;
	char	 name[];
};

_Static_assert(sizeof(struct fl_fs_req) == 8 * FL_WORDS && sizeof(struct fl_fs_ans) == 8 * FL_WORDS, "they travel in registers");

#endif
