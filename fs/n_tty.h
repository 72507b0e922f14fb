/*
 * The terminal line discipline as a plain state machine: bytes from the line go in, lines for the reader, echo and
 * signals come out. It takes no lock and calls nobody, so fs/tty.c supplies the lock (tty->lock) and the unit test
 * (tests/unit/test_n_tty.c) runs it on the host.
 */
#ifndef FS_N_TTY_H
#define FS_N_TTY_H

#include "kernel/types.h"

#define NCCS 19
struct termios {			/* user ABI of TCGETS, 36 bytes */
	u32 c_iflag, c_oflag, c_cflag, c_lflag;
	u8  c_line;
	u8  c_cc[NCCS];
};

enum { VINTR, VQUIT, VERASE, VKILL, VEOF, VTIME, VMIN, VSWTC, VSTART, VSTOP, VSUSP, VEOL, VREPRINT, VDISCARD, VWERASE,
       VLNEXT, VEOL2 };

/* c_iflag */
#define IGNBRK	0000001u
#define BRKINT	0000002u
#define ISTRIP	0000040u
#define INLCR	0000100u
#define IGNCR	0000200u
#define ICRNL	0000400u
#define IXON	0002000u
#define IXANY	0004000u
#define IMAXBEL	0020000u
#define IUTF8	0040000u
/* c_oflag */
#define OPOST	0000001u
#define ONLCR	0000004u
#define OCRNL	0000010u
#define ONOCR	0000020u
#define ONLRET	0000040u
#define TABDLY	0014000u
#define XTABS	0014000u
/* c_cflag */
#define B38400	0000017u
#define B115200	0010002u
#define CS8	0000060u
#define CREAD	0000200u
#define CLOCAL	0004000u
#define HUPCL	0002000u
/* c_lflag */
#define ISIG	0000001u
#define ICANON	0000002u
#define ECHO	0000010u
#define ECHOE	0000020u
#define ECHOK	0000040u
#define ECHONL	0000100u
#define NOFLSH	0000200u
#define TOSTOP	0000400u
#define ECHOCTL	0001000u
#define ECHOKE	0004000u
#define IEXTEN	0100000u

#define N_TTY_BUF	4096u		/* power of two */
#define N_TTY_OUT	8192u		/* power of two */
#define N_TTY_ECHO_ROOM	256u		/* of the output ring, kept free for echo */

struct n_tty {
	struct termios	 termios;
	/* Input: free-running indices; tail <= canon_head <= head. [tail, canon_head) are complete lines in canonical mode. */
	u8		 in[N_TTY_BUF];
	u64		 line_end[N_TTY_BUF / 64];	/* bit: this byte ends a line */
	u64		 eof[N_TTY_BUF / 64];		/* bit: this byte is an end-of-file mark, read as nothing */
	u32		 head, canon_head, tail;
	/* Output to the line: echo and processed writes. */
	u8		 out[N_TTY_OUT];
	u32		 out_head, out_tail;
	u32		 column;	/* of the cursor, for tabs and erase */
	u32		 canon_column;	/* where the edited line began */
	bool		 lnext;		/* next byte is literal */
	bool		 flow_stopped;	/* by STOP (Ctrl-S) */
	/* Out: bit n = signal n is to be sent to the foreground group; the caller sends and clears. */
	u32		 signals;
};

void n_tty_init(struct n_tty *n);
/* Bytes that arrived from the line. Those that find the buffer full are dropped, with a bell if IMAXBEL. */
void n_tty_receive(struct n_tty *n, const u8 *buf, size_t len);
/* As many bytes as fit, output-processed; returns how many of @buf were taken. */
size_t n_tty_write(struct n_tty *n, const u8 *buf, size_t len);
/* Bytes a reader may have now: canonical: > 0 or an EOF mark. */
bool n_tty_input_available(const struct n_tty *n, u32 min_raw);
size_t n_tty_chars_in_buffer(const struct n_tty *n);		/* FIONREAD */
/* Takes up to @len bytes, one line at most in canonical mode. *eof: an end-of-file mark was consumed with nothing before it. */
size_t n_tty_read(struct n_tty *n, u8 *buf, size_t len, bool *eof);
/* Bytes for the line. peek: contiguous run at *p; then consume. */
size_t n_tty_output_peek(const struct n_tty *n, const u8 **p);
void n_tty_output_consume(struct n_tty *n, size_t len);
static inline size_t n_tty_output_pending(const struct n_tty *n) { return n->out_head - n->out_tail; }
size_t n_tty_write_room(const struct n_tty *n);			/* bytes of worst-case output a writer may add */
void n_tty_flush_input(struct n_tty *n);
void n_tty_flush_output(struct n_tty *n);
/* After a termios change: turns collected raw bytes into lines and the other way round, as Linux does. */
void n_tty_set_termios(struct n_tty *n, const struct termios *t);

#endif
