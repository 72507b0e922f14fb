/* What travels beside the bytes of a message: descriptors (SCM_RIGHTS) and credentials (SCM_CREDENTIALS). */
#ifndef FS_SCM_H
#define FS_SCM_H

#include "fs/vfs.h"

struct user;
struct socket;

#define SCM_MAX_FD	253u
#define SCM_RIGHTS	1
#define SCM_CREDENTIALS	2

struct scm_cred { u32 pid, uid, gid; };		/* struct ucred of user space */

/* Open files on their way from one process to another. Owned by one message at a time. */
struct scm_files {
	struct list_head node;		/* fs/scm.c: to be put later */
	struct user	*user;		/* counted: against whose limit they are in flight */
	u32		 nr;
	struct file	*file[];	/* counted */
};

struct scm {
	struct scm_cred	  cred;
	struct scm_files *files;	/* NULL: none */
	bool		  has_cred;	/* send: given by the caller. Receive: to be shown */
};

void scm_cred_current(struct scm_cred *cred);		/* tgid, real ids */
/* Reads a control buffer of user space. 0, or -errno with nothing held. */
int scm_parse(const void __user *control, size_t len, struct scm *scm);
struct scm_files *scm_files_dup(struct scm_files *from);	/* MSG_PEEK; NULL: no memory */
/* Ends them. May sleep, does not recurse: sockets among them are closed later, by a worker. NULL is fine. */
void scm_files_put(struct scm_files *files);

/*
 * Hands @scm to current: installs descriptors and writes control messages. @room bytes at @control. Returns bytes written, and
 * MSG_CTRUNC in *flags if something did not fit. Consumes scm->files.
 */
size_t scm_deliver(struct scm *scm, void __user *control, size_t room, bool cloexec, u32 *flags);

#endif
