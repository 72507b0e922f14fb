/*
 * The line discipline on the host: editing, line ends, signals, flow control, output processing, and a long random
 * run that checks the ring invariants after each step.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/n_tty.c"

static struct n_tty n;

static void type(const char *s) { n_tty_receive(&n, (const u8 *)s, strlen(s)); }

static const char *line(void)
{
	static char buf[5000];
	bool eof;
	size_t k = n_tty_read(&n, (u8 *)buf, sizeof(buf) - 1, &eof);

	buf[k] = '\0';
	return eof ? "<eof>" : buf;
}

static const char *echoed(void)
{
	static char buf[N_TTY_OUT + 1];
	size_t len = 0, k;
	const u8 *p;

	while ((k = n_tty_output_peek(&n, &p))) {
		memcpy(buf + len, p, k);
		len += k;
		n_tty_output_consume(&n, k);
	}
	buf[len] = '\0';
	return buf;
}

static void expect(const char *what, const char *got, const char *want)
{
	if (strcmp(got, want) == 0)
		return;
	fprintf(stderr, "%s: got \"%s\", expected \"%s\"\n", what, got, want);
	exit(1);
}

static void expect_true(const char *what, bool ok)
{
	expect(what, ok ? "true" : "false", "true");
}

static void fresh(void)
{
	n_tty_init(&n);
}

static void raw(u32 keep)
{
	struct termios t = n.termios;

	t.c_lflag = keep;
	t.c_iflag = 0;
	n_tty_set_termios(&n, &t);
}

static void lines_and_editing(void)
{
	fresh();
	type("hello");
	expect_true("no line yet", !n_tty_input_available(&n, 1));
	type("\r");
	expect("CR becomes NL", line(), "hello\n");
	expect("echo", echoed(), "hello\r\n");

	type("ab\177c\n");
	expect("erase", line(), "ac\n");
	expect("echo of erase", echoed(), "ab\b \bc\r\n");
	type("\177\177x\n");
	expect("erase at the start", line(), "x\n");
	(void)echoed();

	type("rm -rf /\025ls\n");
	expect("kill", line(), "ls\n");
	type("one two three\027four\n");
	expect("word erase", line(), "one two four\n");
	type("a\026\003b\n");
	expect("literal next", line(), "a\003b\n");
	(void)echoed();
	type("\003");
	expect("echo of a control character", echoed(), "^C");
	expect_true("interrupt", n.signals == 1u << SIGINT);
	n.signals = 0;

	type("half");
	type("\004");
	expect("EOF after text pushes it", line(), "half");
	type("\004");
	expect("EOF alone is the end", line(), "<eof>");
	type("one\ntwo\n");
	expect("first of two lines", line(), "one\n");
	expect("second of two lines", line(), "two\n");
}

static void tab_and_control_columns(void)
{
	fresh();
	type("a\tb");
	(void)echoed();
	type("\177");
	expect("erase a letter after a tab", echoed(), "\b \b");
	type("\177");
	expect("erase a tab goes back to its start", echoed(), "\b\b\b\b\b\b\b");
	type("\026\001");
	(void)echoed();
	type("\177");
	expect("a control character is two columns", echoed(), "\b \b\b \b");
}

static void utf8_is_erased_whole(void)
{
	fresh();
	n.termios.c_iflag |= IUTF8;
	type("x\xc3\xa9\177\n");
	expect("two bytes, one character", line(), "x\n");
}

static void signals_flush(void)
{
	fresh();
	type("typed\032");
	expect_true("suspend", n.signals == 1u << SIGTSTP);
	type("\n");
	expect("what was typed is gone", line(), "\n");
	n.signals = 0;
	n.termios.c_lflag |= NOFLSH;
	type("kept\034\n");
	expect("unless NOFLSH", line(), "kept\n");
	expect_true("quit", n.signals == 1u << SIGQUIT);
}

static void raw_mode(void)
{
	fresh();
	raw(0);
	type("x\003\r");
	expect("bytes as they come", line(), "x\003\r");
	expect("no echo", echoed(), "");
	type("abc");
	expect_true("VMIN of 4 waits", !n_tty_input_available(&n, 4));
	expect_true("VMIN of 3 does not", n_tty_input_available(&n, 3));
	(void)line();
}

static void mode_changes_keep_input(void)
{
	struct termios t;

	fresh();
	type("partial");
	raw(0);
	expect("an unfinished line is readable in raw mode", line(), "partial");
	type("ahead");
	t = n.termios;
	t.c_lflag |= ICANON;
	n_tty_set_termios(&n, &t);
	expect_true("type-ahead is a line after the change", n_tty_input_available(&n, 1));
	expect("its text", line(), "ahead");
}

static void flow_control(void)
{
	fresh();
	type("\023");
	expect_true("stopped", n.flow_stopped);
	type("\021");
	expect_true("started", !n.flow_stopped);
}

static void full_buffer(void)
{
	fresh();
	n.termios.c_lflag &= ~ECHO;
	for (unsigned int i = 0; i < N_TTY_BUF + 100; i++)
		type("x");
	type("\n");
	expect_true("a line always gets its end", n_tty_input_available(&n, 1));
	expect_true("4095 characters and the newline", strlen(line()) == N_TTY_BUF);
	expect_true("empty again", !n_tty_input_available(&n, 1));
}

static void output(void)
{
	fresh();
	expect_true("all taken", n_tty_write(&n, (const u8 *)"a\nb\tc", 5) == 5);
	expect("NL becomes CR NL", echoed(), "a\r\nb\tc");
	n.termios.c_oflag |= XTABS;
	n.column = 0;
	n_tty_write(&n, (const u8 *)"ab\tc", 4);
	expect("tabs expanded", echoed(), "ab      c");
	n.termios.c_oflag = 0;
	n_tty_write(&n, (const u8 *)"\n", 1);
	expect("no OPOST: untouched", echoed(), "\n");

	size_t total = 0, k;
	static u8 big[1000];
	while ((k = n_tty_write(&n, big, sizeof(big))))
		total += k;
	expect_true("room for echo is kept", total == N_TTY_OUT - N_TTY_ECHO_ROOM);
}

static void random_run(void)
{
	srand(1);
	fresh();
	for (int step = 0; step < 300000; step++) {
		u8 c = (u8)(rand() % 4 ? rand() % 128 : rand() % 256);
		u8 buf[64];
		bool eof;

		switch (rand() % 8) {
		case 0:
			n_tty_read(&n, buf, (size_t)(rand() % 64), &eof);
			break;
		case 1:
			if (rand() % 50 == 0) {
				struct termios t = n.termios;

				t.c_lflag = (u32)rand() & 0177777;
				t.c_iflag = (u32)rand() & 077777;
				t.c_oflag = (u32)rand() & 0177;
				n_tty_set_termios(&n, &t);
			}
			break;
		case 2:
			n_tty_write(&n, &c, 1);
			break;
		case 3:
			(void)echoed();
			break;
		default:
			n_tty_receive(&n, &c, 1);
		}
		assert(n.head - n.tail <= N_TTY_BUF);
		assert(n.canon_head - n.tail <= n.head - n.tail);
		assert(n.out_head - n.out_tail <= N_TTY_OUT);
		assert(n_tty_chars_in_buffer(&n) <= n.head - n.tail);
	}
}

int main(void)
{
	lines_and_editing();
	tab_and_control_columns();
	utf8_is_erased_whole();
	signals_flush();
	raw_mode();
	mode_changes_keep_input();
	flow_control();
	full_buffer();
	output();
	random_run();
	return 0;
}
