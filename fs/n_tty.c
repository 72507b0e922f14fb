/*
 * N_TTY: canonical editing, echo, flow control, signal characters and output processing (termios(3)).
 *
 * The rule that is easy to break: a byte of the input ring is either part of the line being edited, [canon_head, head),
 * which erase and kill may still take back, or part of a finished line, [tail, canon_head), which they may not.
 */
#include "fs/n_tty.h"
#include "kernel/signal_numbers.h"

#define IN_MASK		(N_TTY_BUF - 1)
#define OUT_MASK	(N_TTY_OUT - 1)
#define POSIX_VDISABLE	0

static void bit_assign(u64 *map, u32 i, bool on)
{
	i &= IN_MASK;
	if (on)
		map[i / 64] |= 1ul << (i % 64);
	else
		map[i / 64] &= ~(1ul << (i % 64));
}

static bool bit_get(const u64 *map, u32 i)
{
	i &= IN_MASK;
	return map[i / 64] >> (i % 64) & 1;
}

void n_tty_init(struct n_tty *n)
{
	*n = (struct n_tty){
		.termios = {
			.c_iflag = ICRNL | IXON,
			.c_oflag = OPOST | ONLCR,
			.c_cflag = B38400 | CS8 | CREAD | HUPCL,
			.c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
			.c_cc = { [VINTR] = 3, [VQUIT] = 28, [VERASE] = 127, [VKILL] = 21, [VEOF] = 4, [VMIN] = 1,
				  [VSTART] = 17, [VSTOP] = 19, [VSUSP] = 26, [VREPRINT] = 18, [VDISCARD] = 15,
				  [VWERASE] = 23, [VLNEXT] = 22 },
		},
	};
}

static bool flag_l(const struct n_tty *n, u32 f) { return n->termios.c_lflag & f; }
static bool flag_i(const struct n_tty *n, u32 f) { return n->termios.c_iflag & f; }
static bool flag_o(const struct n_tty *n, u32 f) { return n->termios.c_oflag & f; }
static bool is_cc(const struct n_tty *n, int which, u8 c) { return c != POSIX_VDISABLE && n->termios.c_cc[which] == c; }
static bool is_continuation(const struct n_tty *n, u8 c) { return flag_i(n, IUTF8) && (c & 0xc0) == 0x80; }

/* -- output ring -- */

static size_t out_room(const struct n_tty *n) { return N_TTY_OUT - (n->out_head - n->out_tail); }

static void out_byte(struct n_tty *n, u8 c)
{
	if (out_room(n))
		n->out[n->out_head++ & OUT_MASK] = c;
}

/* One byte with output processing; up to eight bytes of output (an expanded tab). */
static void out_processed(struct n_tty *n, u8 c)
{
	if (!flag_o(n, OPOST)) {
		out_byte(n, c);
		return;
	}
	switch (c) {
	case '\n':
		if (flag_o(n, ONLRET))
			n->column = 0;
		if (flag_o(n, ONLCR)) {
			out_byte(n, '\r');
			n->column = 0;
		}
		break;
	case '\r':
		if (flag_o(n, ONOCR) && n->column == 0)
			return;
		if (flag_o(n, OCRNL)) {
			c = '\n';
			if (flag_o(n, ONLRET))
				n->column = 0;
			break;
		}
		n->column = 0;
		break;
	case '\t': {
		u32 spaces = 8 - (n->column & 7);

		n->column += spaces;
		if ((n->termios.c_oflag & TABDLY) == XTABS) {
			while (spaces--)
				out_byte(n, ' ');
			return;
		}
		break;
	}
	case '\b':
		if (n->column)
			n->column--;
		break;
	default:
		if (c >= ' ' && c != 127 && !is_continuation(n, c))
			n->column++;
	}
	out_byte(n, c);
}

size_t n_tty_write_room(const struct n_tty *n)
{
	size_t room = out_room(n);

	return room > N_TTY_ECHO_ROOM ? room - N_TTY_ECHO_ROOM : 0;
}

size_t n_tty_write(struct n_tty *n, const u8 *buf, size_t len)
{
	size_t done = 0;

	if (!flag_o(n, OPOST)) {
		size_t room = n_tty_write_room(n);

		for (done = 0; done < len && done < room; done++)
			n->out[n->out_head++ & OUT_MASK] = buf[done];
		return done;
	}
	for (; done < len && n_tty_write_room(n) >= 8; done++)
		out_processed(n, buf[done]);
	return done;
}

size_t n_tty_output_peek(const struct n_tty *n, const u8 **p)
{
	u32 used = n->out_head - n->out_tail;
	u32 at = n->out_tail & OUT_MASK;

	*p = &n->out[at];
	return min(used, N_TTY_OUT - at);
}

void n_tty_output_consume(struct n_tty *n, size_t len)
{
	n->out_tail += (u32)len;
}

void n_tty_flush_output(struct n_tty *n)
{
	n->out_tail = n->out_head;
}

/* -- echo -- */

static void echo_char(struct n_tty *n, u8 c)
{
	if (flag_l(n, ECHOCTL) && (c < ' ' || c == 127) && c != '\t' && c != '\n') {
		out_processed(n, '^');
		out_processed(n, c ^ 0x40);
	} else {
		out_processed(n, c);
	}
}

static void maybe_echo(struct n_tty *n, u8 c)
{
	if (flag_l(n, ECHO))
		echo_char(n, c);
	else if (c == '\n' && flag_l(n, ICANON) && flag_l(n, ECHONL))
		out_processed(n, c);
}

/* Columns that the line under edit takes up to (not including) @upto, from canon_column: needed to erase over a tab. */
static u32 column_at(const struct n_tty *n, u32 upto)
{
	u32 col = n->canon_column;

	for (u32 i = n->canon_head; i != upto; i++) {
		u8 c = n->in[i & IN_MASK];

		if (c == '\t')
			col = (col | 7) + 1;
		else if (c < ' ' || c == 127)
			col += flag_l(n, ECHOCTL) ? 2 : 0;
		else if (!is_continuation(n, c))
			col++;
	}
	return col;
}

static void rub_out_columns(struct n_tty *n, u32 columns)
{
	while (columns--) {
		out_processed(n, '\b');
		out_byte(n, ' ');
		out_byte(n, '\b');
	}
}

/* Takes back one character (all bytes of it in UTF-8). */
static void erase_one(struct n_tty *n)
{
	u32 before = column_at(n, n->head);
	u8 c;

	do {
		n->head--;
		c = n->in[n->head & IN_MASK];
	} while (is_continuation(n, c) && n->head != n->canon_head);

	if (!flag_l(n, ECHO))
		return;
	if (!flag_l(n, ECHOE)) {
		echo_char(n, n->termios.c_cc[VERASE]);
		return;
	}
	u32 after = column_at(n, n->head);

	if (c == '\t') {
		for (u32 i = after; i < before; i++)
			out_processed(n, '\b');
	} else {
		rub_out_columns(n, before - after);
	}
}

static bool is_word_char(u8 c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static void erase_word(struct n_tty *n)
{
	bool seen = false;

	while (n->head != n->canon_head) {
		bool word = is_word_char(n->in[(n->head - 1) & IN_MASK]);

		if (!word && seen)
			break;
		seen |= word;
		erase_one(n);
	}
}

static void kill_line(struct n_tty *n)
{
	if (flag_l(n, ECHO) && !(flag_l(n, ECHOK) && flag_l(n, ECHOKE) && flag_l(n, ECHOE))) {
		n->head = n->canon_head;
		echo_char(n, n->termios.c_cc[VKILL]);
		if (flag_l(n, ECHOK))
			out_processed(n, '\n');
		return;
	}
	while (n->head != n->canon_head)
		erase_one(n);
}

static void reprint_line(struct n_tty *n)
{
	echo_char(n, n->termios.c_cc[VREPRINT]);
	out_processed(n, '\n');
	n->canon_column = n->column;
	for (u32 i = n->canon_head; i != n->head; i++)
		echo_char(n, n->in[i & IN_MASK]);
}

/* -- input -- */

/* Room that an ordinary byte may use: one place stays free for the byte that ends the line. */
static bool in_full(const struct n_tty *n, bool ends_line)
{
	u32 used = n->head - n->tail;

	return used >= N_TTY_BUF - (ends_line || !flag_l(n, ICANON) ? 0 : 1);
}

static void put_in(struct n_tty *n, u8 c, bool ends_line, bool eof)
{
	if (in_full(n, ends_line)) {
		if (flag_i(n, IMAXBEL))
			out_byte(n, '\a');
		return;
	}
	n->in[n->head & IN_MASK] = c;
	bit_assign(n->line_end, n->head, ends_line);
	bit_assign(n->eof, n->head, eof);
	n->head++;
	if (ends_line)
		n->canon_head = n->head;
}

static void begin_line_if_empty(struct n_tty *n)
{
	if (n->canon_head == n->head)
		n->canon_column = n->column;
}

static void signal_char(struct n_tty *n, int sig, u8 c)
{
	if (!flag_l(n, NOFLSH)) {
		n_tty_flush_input(n);
		n_tty_flush_output(n);
	}
	if (flag_l(n, ECHO))
		echo_char(n, c);
	n->flow_stopped = false;
	n->signals |= 1u << sig;
}

/* Editing and line ends; true if @c was one of them. */
static bool canonical_char(struct n_tty *n, u8 c)
{
	if (is_cc(n, VERASE, c)) {
		if (n->head != n->canon_head)
			erase_one(n);
		return true;
	}
	if (is_cc(n, VKILL, c)) {
		kill_line(n);
		return true;
	}
	if (flag_l(n, IEXTEN)) {
		if (is_cc(n, VWERASE, c)) {
			erase_word(n);
			return true;
		}
		if (is_cc(n, VLNEXT, c)) {
			n->lnext = true;
			if (flag_l(n, ECHO) && flag_l(n, ECHOCTL)) {
				out_byte(n, '^');
				out_byte(n, '\b');
			}
			return true;
		}
		if (is_cc(n, VREPRINT, c) && flag_l(n, ECHO)) {
			reprint_line(n);
			return true;
		}
	}
	if (c == '\n') {
		maybe_echo(n, c);
		put_in(n, c, true, false);
		return true;
	}
	if (is_cc(n, VEOF, c)) {
		put_in(n, 0, true, true);
		return true;
	}
	if (is_cc(n, VEOL, c) || (flag_l(n, IEXTEN) && is_cc(n, VEOL2, c))) {
		begin_line_if_empty(n);
		maybe_echo(n, c);
		put_in(n, c, true, false);
		return true;
	}
	return false;
}

/* START, STOP, INTR, QUIT, SUSP; true if @c was one of them. */
static bool control_char(struct n_tty *n, u8 c)
{
	if (flag_i(n, IXON)) {
		if (is_cc(n, VSTART, c)) {
			n->flow_stopped = false;
			return true;
		}
		if (is_cc(n, VSTOP, c)) {
			n->flow_stopped = true;
			return true;
		}
	}
	if (flag_l(n, ISIG)) {
		if (is_cc(n, VINTR, c)) {
			signal_char(n, SIGINT, c);
			return true;
		}
		if (is_cc(n, VQUIT, c)) {
			signal_char(n, SIGQUIT, c);
			return true;
		}
		if (is_cc(n, VSUSP, c)) {
			signal_char(n, SIGTSTP, c);
			return true;
		}
	}
	return false;
}

static void receive_byte(struct n_tty *n, u8 c)
{
	if (flag_i(n, ISTRIP))
		c &= 0x7f;
	if (n->lnext) {
		n->lnext = false;
		begin_line_if_empty(n);
		maybe_echo(n, c);
		put_in(n, c, false, false);
		return;
	}
	if (control_char(n, c))
		return;
	if (n->flow_stopped && flag_i(n, IXON) && flag_i(n, IXANY))
		n->flow_stopped = false;

	if (c == '\r') {
		if (flag_i(n, IGNCR))
			return;
		if (flag_i(n, ICRNL))
			c = '\n';
	} else if (c == '\n' && flag_i(n, INLCR)) {
		c = '\r';
	}

	if (flag_l(n, ICANON) && canonical_char(n, c))
		return;
	begin_line_if_empty(n);
	if (!in_full(n, false))
		maybe_echo(n, c);
	put_in(n, c, false, false);
}

void n_tty_receive(struct n_tty *n, const u8 *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		receive_byte(n, buf[i]);
}

bool n_tty_input_available(const struct n_tty *n, u32 min_raw)
{
	if (flag_l(n, ICANON))
		return n->canon_head != n->tail;
	return n->head - n->tail >= max(min_raw, 1u);
}

size_t n_tty_chars_in_buffer(const struct n_tty *n)
{
	if (!flag_l(n, ICANON))
		return n->head - n->tail;
	size_t count = 0;

	for (u32 i = n->tail; i != n->canon_head; i++)
		count += !bit_get(n->eof, i);
	return count;
}

size_t n_tty_read(struct n_tty *n, u8 *buf, size_t len, bool *eof)
{
	bool canonical = flag_l(n, ICANON);
	u32 limit = canonical ? n->canon_head : n->head;
	size_t done = 0;

	*eof = false;
	while (n->tail != limit) {
		bool end = canonical && bit_get(n->line_end, n->tail);

		if (canonical && bit_get(n->eof, n->tail)) {
			n->tail++;
			*eof = done == 0;
			break;
		}
		if (done == len)
			break;
		buf[done++] = n->in[n->tail++ & IN_MASK];
		if (!end)
			continue;
		break;
	}
	if (!canonical)
		n->canon_head = n->tail;
	return done;
}

void n_tty_flush_input(struct n_tty *n)
{
	n->tail = n->canon_head = n->head;
	n->lnext = false;
}

void n_tty_set_termios(struct n_tty *n, const struct termios *t)
{
	bool was = flag_l(n, ICANON);

	n->termios = *t;
	if (!flag_i(n, IXON))
		n->flow_stopped = false;
	if (was == flag_l(n, ICANON))
		return;
	n->lnext = false;
	if (flag_l(n, ICANON)) {
		/* What was typed ahead in raw mode becomes one readable piece. */
		for (u32 i = n->tail; i != n->head; i++) {
			bit_assign(n->line_end, i, i + 1 == n->head);
			bit_assign(n->eof, i, false);
		}
		n->canon_head = n->head;
	} else {
		n->canon_head = n->tail;
	}
}
