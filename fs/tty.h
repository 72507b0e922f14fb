/*
 * Terminals: a line discipline (fs/n_tty.h) between a line (a serial port, the screen and keyboard, or the master side
 * of a pseudo terminal) and the programs that have it open; sessions, foreground groups and hang-up.
 */
#ifndef FS_TTY_H
#define FS_TTY_H

#include "fs/n_tty.h"
#include "fs/vfs.h"
#include "kernel/console.h"

struct process;
struct tty;

struct tty_line_ops {
	/* Moves processed output towards the line. tty->lock held; never sleeps. */
	void	(*kick)(struct tty *tty);
	bool	(*drained)(struct tty *tty);		/* nothing on its way any more; NULL: yes */
	void	(*input_taken)(struct tty *tty);	/* a reader made room; no lock held; NULL: nothing to do */
	void	(*freed)(struct tty *tty);		/* last reference is gone; NULL: nothing to do */
	void	(*closed)(struct tty *tty);		/* last close of the terminal side; NULL: nothing to do */
	long	(*ioctl)(struct tty *tty, unsigned int cmd, unsigned long arg);	/* -ENOTTY: not mine; NULL: none */
};

/*
 *   L  tty->lock    I  constant after creation    W  write_mutex    A  atomic
 */
struct tty {
	struct refcount		 refs;		/* opens, processes that are controlled by it, its line */
	char			 name[16];	/* I  "ttyS0", "pts/3" */
	dev_t			 dev;		/* I */
	const struct tty_line_ops *ops;		/* I */
	void			*line;		/* I  struct chardev_port or struct pty */
	struct spinlock		 lock;		/* LOCK_TTY_BUF, interrupts off: fed by interrupts */
	struct n_tty		 ldisc;		/* L */
	struct winsize		 winsize;	/* L */
	int			 pgrp;		/* L  foreground process group, 0 none */
	int			 session;	/* L  session it controls, 0 none */
	u32			 hangups;	/* L  files opened before the last hang-up are dead */
	bool			 line_gone;	/* L  pty master closed: every use fails */
	u32			 opens;		/* L  open files on the terminal side */
	struct mutex		 write_mutex;	/* LOCK_TTY: one write(2) at a time */
	struct wait_queue	 read_wait, write_wait;
};

void tty_init(void);			/* device nodes; a terminal for each console port */
void pty_init(void);

void tty_setup(struct tty *tty, const char *name, dev_t dev, const struct tty_line_ops *ops, void *line);
void tty_get(struct tty *tty);
void tty_put(struct tty *tty);
/* Bytes from the line; any context. */
void tty_receive(struct tty *tty, const u8 *buf, size_t n);
/* There is room for output again; any context. */
void tty_output_wakeup(struct tty *tty);
/* Opens the terminal side for @f (open of a device node). 0 or -errno. */
int tty_open_file(struct tty *tty, struct file *f);
/* open(2) without O_NOCTTY by a session leader that has no terminal yet: it becomes the controlling one. */
void tty_adopt_on_open(struct tty *tty, struct file *f);
/* What the master of a pseudo terminal may ask about its terminal. */
long tty_ioctl_from_master(struct tty *tty, unsigned int cmd, unsigned long arg);
extern const struct file_ops tty_fops;
/* All open files die (reads give 0, writes EIO), the session loses its terminal: SIGHUP, SIGCONT to the foreground group. */
void tty_hangup(struct tty *tty);
/* kernel/exit.c and setsid: current leaves its terminal; if it leads the session, the whole session does. */
void tty_disassociate(bool leader_exits);
/* Job control: may current do this to the terminal? 0, -EIO, or -ERESTARTSYS after @sig (SIGTTIN, SIGTTOU) was sent. */
int tty_check_change(struct tty *tty, int sig);

#endif
