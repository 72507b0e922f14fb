/*
 * Framebuffer console: a grid of character cells, the Linux console's escape sequences, one terminal ("tty1").
 *
 * Two halves that meet in the cell grid:
 *	writing		the escape-sequence machine changes cells; never touches the framebuffer
 *	drawing		compares the grid with what is on the screen and paints the cells that differ
 *
 * Once the scheduler runs, drawing is a thread's work, at most every FRAME_NS: a program that prints megabytes pays for
 * changing cells, not for painting lines that nobody could read. Before that, and in a panic, each write draws.
 *
 * The rule that is easy to break: writing happens under any lock (printk), so it only marks and raises irq work, which
 * wakes the thread. fb_lock guards the grid and the terminal's state; the framebuffer and the drawn grid belong to
 * whoever holds draw_busy.
 *
 * Rows are reached through row[], so scrolling rotates pointers and clears one row.
 */
#include "kernel/x86/fbcon.h"
#include "kernel/boot_info.h"
#include "kernel/console.h"
#include "kernel/printk.h"
#include "kernel/sched.h"
#include "kernel/spinlock.h"
#include "kernel/string.h"
#include "kernel/time.h"
#include "kernel/wait.h"
#include "kernel/x86/boot_map.h"
#include "kernel/x86/irq.h"
#include "mm/slab.h"

#define FONT_W		8
#define FONT_H		16
#define MAX_COLS	240
#define MAX_ROWS	100
#define SCROLLBACK	1000			/* rows */
#define FRAME_NS	(16 * NSEC_PER_MSEC)
#define MAX_PARAMS	16
#define TAB		8

/* 256 glyphs of 16 bytes, from a package (boot/mkfont.py). Without it the screen stays blank but works. */
extern const u8 console_font[256 * FONT_H] __attribute__((weak));

/* A cell: character, foreground and background as palette indices, underline. */
typedef u32 cell_t;
#define CELL(c, fg, bg, ul)	((cell_t)(u8)(c) | (cell_t)(fg) << 8 | (cell_t)(bg) << 12 | (cell_t)(ul) << 16)
#define CELL_CHAR(v)		((u8)(v))
#define CELL_FG(v)		((v) >> 8 & 15)
#define CELL_BG(v)		((v) >> 12 & 15)
#define CELL_UNDERLINE(v)	((v) >> 16 & 1)
#define NEVER_DRAWN		UINT32_MAX	/* differs from every cell */
#define COLOUR_FG		7
#define COLOUR_BG		0

enum parse_state { PARSE_TEXT, PARSE_ESC, PARSE_CSI, PARSE_OSC, PARSE_OSC_ESC, PARSE_CHARSET, PARSE_HASH };

struct cursor { unsigned int x, y; };

struct attributes {
	u8	fg, bg;
	bool	bold, underline, reverse, dim;
};

/*
 *   I  constant after fbcon_early_init     F  fb_lock     D  the drawer
 */
static struct {
	struct framebuffer_info	 info;			/* I */
	volatile u8		*mem;			/* D  current mapping, NULL: none */
	bool			 early_window;		/* D  mem is the boot window: may vanish */
	unsigned int		 cols, rows;		/* I */
	u32			 palette[16];		/* I  in framebuffer format */

	cell_t			 cells[MAX_ROWS][MAX_COLS];	/* F  in no order, see row */
	cell_t			*row[MAX_ROWS];		/* F  screen row -> its cells */
	cell_t			 drawn[MAX_ROWS][MAX_COLS];	/* D  what the screen shows */
	struct cursor		 drawn_cursor;		/* D */

	struct cursor		 cur, saved;		/* F */
	bool			 wrap_pending;		/* F  the last column was written: the next character wraps */
	unsigned int		 top, bottom;		/* F  scroll region, bottom exclusive */
	struct attributes	 attr, saved_attr;	/* F */
	bool			 cursor_hidden, origin_mode, no_autowrap, insert_mode, app_cursor;	/* F */
	bool			 graphics_set[2], shift_out, saved_shift_out;	/* F  DEC line drawing in G0, G1 */
	bool			 newline_mode;		/* F  log output: "\n" also returns */

	enum parse_state	 state;			/* F */
	u8			 charset_slot;		/* F */
	unsigned int		 params[MAX_PARAMS];	/* F */
	unsigned int		 nr_params;		/* F */
	u8			 private;		/* F  '?', '>' ... of a CSI */
	u32			 utf8;			/* F  code point being collected */
	unsigned int		 utf8_left;		/* F */

	cell_t			*history;		/* F  ring of SCROLLBACK rows of cols cells; NULL: none */
	unsigned int		 history_used, history_next;	/* F */
	unsigned int		 view;			/* F  rows we look back; 0: live */
	bool			 dirty;			/* atomic; something to draw */
	char			 answer[24];		/* F  to a status request; "": none */
} fb;

static struct spinlock fb_lock = SPINLOCK_INIT(LOCK_CONSOLE);
static bool draw_busy;				/* atomic */
static bool thread_draws;			/* constant once set */
static struct wait_queue draw_wait = WAIT_QUEUE_INIT(draw_wait);

static void fb_console_write(struct console *con, const char *buf, size_t n);
static size_t fb_port_write(struct chardev_port *port, const u8 *buf, size_t n);
static bool fb_always(struct chardev_port *port);

static struct console fb_console = { .name = "tty1", .write = fb_console_write };
static struct chardev_port fb_port = {
	.name = "tty1", .major = 4, .minor = 1, .is_screen = true, .write = fb_port_write, .can_write = fb_always, .drained = fb_always,
};

/* --- the grid ------------------------------------------------------------------------------------------------------------------ */

static cell_t blank(void)
{
	return CELL(' ', COLOUR_FG, fb.attr.bg, 0);
}

static void clear_cells(unsigned int y, unsigned int from, unsigned int to)
{
	for (unsigned int x = from; x < to && x < fb.cols; x++)
		fb.row[y][x] = blank();
}

static void clear_rows(unsigned int from, unsigned int to)
{
	for (unsigned int y = from; y < to; y++)
		clear_cells(y, 0, fb.cols);
}

static void remember_row(unsigned int y)
{
	if (!fb.history)
		return;
	memcpy(fb.history + (size_t)fb.history_next * fb.cols, fb.row[y], fb.cols * sizeof(cell_t));
	fb.history_next = (fb.history_next + 1) % SCROLLBACK;
	if (fb.history_used < SCROLLBACK)
		fb.history_used++;
}

/* Rows [from, to) move up by @n; blank ones come in below. */
static void scroll_up(unsigned int from, unsigned int to, unsigned int n)
{
	n = min(n, to - from);
	for (; n; n--) {
		cell_t *first = fb.row[from];
		if (from == 0)
			remember_row(0);
		memmove(&fb.row[from], &fb.row[from + 1], (to - from - 1) * sizeof(fb.row[0]));
		fb.row[to - 1] = first;
		clear_cells(to - 1, 0, fb.cols);
	}
}

static void scroll_down(unsigned int from, unsigned int to, unsigned int n)
{
	n = min(n, to - from);
	for (; n; n--) {
		cell_t *last = fb.row[to - 1];
		memmove(&fb.row[from + 1], &fb.row[from], (to - from - 1) * sizeof(fb.row[0]));
		fb.row[from] = last;
		clear_cells(from, 0, fb.cols);
	}
}

/* --- characters ------------------------------------------------------------------------------------------------------------------ */

/* VT100 line drawing, characters 0x60 to 0x7e, as glyphs of code page 437 (which the font has). */
static const u8 line_drawing[31] = {
	0x04, 0xb1, 'h', 'f', 'c', 'l', 0xf8, 0xf1, 'n', 'v', 0xd9, 0xbf, 0xda, 0xc0, 0xc5, '-', '-', 0xc4, '-', '_', 0xc3, 0xb4,
	0xc1, 0xc2, 0xb3, 0xf3, 0xf2, 0xe3, '!', 0x9c, 0xfa,
};

/* Code page 437 glyphs of the code points that programs use most; the rest becomes '?'. */
static u8 glyph_of(u32 code)
{
	static const struct { u16 code; u8 glyph; } map[] = {
		{ 0xa0, ' ' }, { 0xa1, 0xad }, { 0xa2, 0x9b }, { 0xa3, 0x9c }, { 0xa5, 0x9d }, { 0xab, 0xae }, { 0xb0, 0xf8 },
		{ 0xb1, 0xf1 }, { 0xb2, 0xfd }, { 0xb5, 0xe6 }, { 0xb7, 0xfa }, { 0xbb, 0xaf }, { 0xbc, 0xac }, { 0xbd, 0xab },
		{ 0xbf, 0xa8 }, { 0xc4, 0x8e }, { 0xc5, 0x8f }, { 0xc6, 0x92 }, { 0xc7, 0x80 }, { 0xc9, 0x90 }, { 0xd1, 0xa5 },
		{ 0xd6, 0x99 }, { 0xdc, 0x9a }, { 0xdf, 0xe1 }, { 0xe0, 0x85 }, { 0xe1, 0xa0 }, { 0xe2, 0x83 }, { 0xe4, 0x84 },
		{ 0xe5, 0x86 }, { 0xe6, 0x91 }, { 0xe7, 0x87 }, { 0xe8, 0x8a }, { 0xe9, 0x82 }, { 0xea, 0x88 }, { 0xeb, 0x89 },
		{ 0xec, 0x8d }, { 0xed, 0xa1 }, { 0xee, 0x8c }, { 0xef, 0x8b }, { 0xf1, 0xa4 }, { 0xf2, 0x95 }, { 0xf3, 0xa2 },
		{ 0xf4, 0x93 }, { 0xf6, 0x94 }, { 0xf7, 0xf6 }, { 0xf9, 0x97 }, { 0xfa, 0xa3 }, { 0xfb, 0x96 }, { 0xfc, 0x81 },
		{ 0xff, 0x98 }, { 0x2013, '-' }, { 0x2014, '-' }, { 0x2018, '\'' }, { 0x2019, '\'' }, { 0x201c, '"' }, { 0x201d, '"' },
		{ 0x2022, 0x07 }, { 0x2026, 0xfa }, { 0x2190, 0x1b }, { 0x2191, 0x18 }, { 0x2192, 0x1a }, { 0x2193, 0x19 },
		{ 0x2500, 0xc4 }, { 0x2502, 0xb3 }, { 0x250c, 0xda }, { 0x2510, 0xbf }, { 0x2514, 0xc0 }, { 0x2518, 0xd9 },
		{ 0x251c, 0xc3 }, { 0x2524, 0xb4 }, { 0x252c, 0xc2 }, { 0x2534, 0xc1 }, { 0x253c, 0xc5 }, { 0x2550, 0xcd },
		{ 0x2551, 0xba }, { 0x2588, 0xdb }, { 0x2591, 0xb0 }, { 0x2592, 0xb1 }, { 0x2593, 0xb2 }, { 0x25a0, 0xfe },
	};

	if (code >= 0x20 && code < 0x7f)
		return (u8)code;
	for (unsigned int i = 0; i < ARRAY_SIZE(map); i++) {
		if (map[i].code == code)
			return map[i].glyph;
	}
	return '?';
}

static void line_feed(void)
{
	fb.wrap_pending = false;
	if (fb.cur.y + 1 == fb.bottom)
		scroll_up(fb.top, fb.bottom, 1);
	else if (fb.cur.y + 1 < fb.rows)
		fb.cur.y++;
}

static void put_glyph(u8 glyph)
{
	if (fb.wrap_pending) {
		fb.cur.x = 0;
		line_feed();
	}
	cell_t *row = fb.row[fb.cur.y];
	if (fb.insert_mode)
		memmove(&row[fb.cur.x + 1], &row[fb.cur.x], (fb.cols - 1 - fb.cur.x) * sizeof(*row));

	u8 fg = fb.attr.fg, bg = fb.attr.bg;
	if (fb.attr.bold && fg < 8)
		fg |= 8;
	else if (fb.attr.dim && fg == COLOUR_FG)
		fg = 8;
	row[fb.cur.x] = fb.attr.reverse ? CELL(glyph, bg, fg & 7, fb.attr.underline) : CELL(glyph, fg, bg, fb.attr.underline);
	if (fb.cur.x + 1 < fb.cols)
		fb.cur.x++;
	else
		fb.wrap_pending = !fb.no_autowrap;
}

static void put_code_point(u32 code)
{
	if (fb.graphics_set[fb.shift_out] && code >= 0x60 && code <= 0x7e)
		put_glyph(line_drawing[code - 0x60]);
	else
		put_glyph(glyph_of(code));
}

/* A byte of text: ASCII or part of a UTF-8 sequence. A broken sequence shows as '?'. */
static void put_text_byte(u8 c)
{
	if (fb.utf8_left) {
		if ((c & 0xc0) == 0x80) {
			fb.utf8 = fb.utf8 << 6 | (c & 0x3f);
			if (--fb.utf8_left == 0)
				put_code_point(fb.utf8);
			return;
		}
		fb.utf8_left = 0;
		put_glyph('?');
	}
	if (c < 0x80) {
		put_code_point(c);
	} else if (c >= 0xc2 && c < 0xf5) {
		fb.utf8_left = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
		fb.utf8 = c & (0x3fu >> fb.utf8_left);
	} else {
		put_glyph('?');
	}
}

/* --- escape sequences: console_codes(4), ECMA-48 ----------------------------------------------------------------------------------- */

static void move_to(int x, int y)
{
	int low = fb.origin_mode ? (int)fb.top : 0, high = fb.origin_mode ? (int)fb.bottom : (int)fb.rows;

	fb.cur.x = (unsigned int)clamp(x, 0, (int)fb.cols - 1);
	fb.cur.y = (unsigned int)clamp(y, low, high - 1);
	fb.wrap_pending = false;
}

static void reset_attributes(void)
{
	fb.attr = (struct attributes){ .fg = COLOUR_FG, .bg = COLOUR_BG };
}

static void reset_terminal(void)
{
	reset_attributes();
	fb.top = 0;
	fb.bottom = fb.rows;
	fb.cursor_hidden = fb.origin_mode = fb.no_autowrap = fb.insert_mode = fb.app_cursor = false;
	fb.graphics_set[0] = false;
	fb.graphics_set[1] = true;
	fb.shift_out = false;
	fb.state = PARSE_TEXT;
	fb.utf8_left = 0;
	clear_rows(0, fb.rows);
	move_to(0, 0);
	fb.saved = fb.cur;
	fb.saved_attr = fb.attr;
}

static void save_cursor(void)
{
	fb.saved = fb.cur;
	fb.saved_attr = fb.attr;
	fb.saved_shift_out = fb.shift_out;
}

static void restore_cursor(void)
{
	fb.attr = fb.saved_attr;
	fb.shift_out = fb.saved_shift_out;
	fb.cur = fb.saved;
	fb.wrap_pending = false;
}

/* ANSI order is red 1, green 2, blue 4: the palette is in that order. The nearest of 16 for the 256 and 24-bit forms. */
static u8 nearest_colour(unsigned int r, unsigned int g, unsigned int b)
{
	unsigned int top = max(r, max(g, b));

	if (top < 48)
		return 0;
	u8 c = (u8)((r > top / 2 ? 1 : 0) | (g > top / 2 ? 2 : 0) | (b > top / 2 ? 4 : 0));
	return top > 192 ? c | 8 : c == 7 && top < 128 ? 8 : c;
}

static u8 indexed_colour(unsigned int n)
{
	if (n < 16)
		return (u8)n;
	if (n >= 232)
		return nearest_colour((n - 232) * 10 + 8, (n - 232) * 10 + 8, (n - 232) * 10 + 8);
	n -= 16;
	return nearest_colour(n / 36 * 51, n / 6 % 6 * 51, n % 6 * 51);
}

/* 38;5;n and 38;2;r;g;b: consumes the parameters after @i. */
static unsigned int extended_colour(unsigned int i, u8 *colour)
{
	if (i + 2 < fb.nr_params && fb.params[i + 1] == 5) {
		*colour = indexed_colour(fb.params[i + 2] & 255);
		return i + 2;
	}
	if (i + 4 < fb.nr_params && fb.params[i + 1] == 2) {
		*colour = nearest_colour(fb.params[i + 2], fb.params[i + 3], fb.params[i + 4]);
		return i + 4;
	}
	return fb.nr_params;
}

static void select_graphic_rendition(void)
{
	for (unsigned int i = 0; i < fb.nr_params; i++) {
		unsigned int p = fb.params[i];
		u8 colour;
		switch (p) {
		case 0: reset_attributes(); break;
		case 1: fb.attr.bold = true; break;
		case 2: fb.attr.dim = true; break;
		case 4: fb.attr.underline = true; break;
		case 7: fb.attr.reverse = true; break;
		case 21: case 22: fb.attr.bold = fb.attr.dim = false; break;
		case 24: fb.attr.underline = false; break;
		case 27: fb.attr.reverse = false; break;
		case 30 ... 37: fb.attr.fg = (u8)(p - 30); break;
		case 38:
			colour = fb.attr.fg;
			i = extended_colour(i, &colour);
			fb.attr.fg = colour;
			break;
		case 39: fb.attr.fg = COLOUR_FG; break;
		case 40 ... 47: fb.attr.bg = (u8)(p - 40); break;
		case 48:
			colour = fb.attr.bg;
			i = extended_colour(i, &colour);
			fb.attr.bg = colour & 7;
			break;
		case 49: fb.attr.bg = COLOUR_BG; break;
		case 90 ... 97: fb.attr.fg = (u8)(p - 90 + 8); break;
		case 100 ... 107: fb.attr.bg = (u8)(p - 100); break;
		}
	}
}

static void erase_display(unsigned int how)
{
	if (how == 0) {
		clear_cells(fb.cur.y, fb.cur.x, fb.cols);
		clear_rows(fb.cur.y + 1, fb.rows);
	} else if (how == 1) {
		clear_rows(0, fb.cur.y);
		clear_cells(fb.cur.y, 0, fb.cur.x + 1);
	} else if (how == 2 || how == 3) {
		clear_rows(0, fb.rows);
		if (how == 3)
			fb.history_used = 0;
	}
}

static void erase_line(unsigned int how)
{
	if (how == 0)
		clear_cells(fb.cur.y, fb.cur.x, fb.cols);
	else if (how == 1)
		clear_cells(fb.cur.y, 0, fb.cur.x + 1);
	else if (how == 2)
		clear_cells(fb.cur.y, 0, fb.cols);
}

static void insert_characters(unsigned int n)
{
	cell_t *row = fb.row[fb.cur.y];

	n = min(n, fb.cols - fb.cur.x);
	memmove(&row[fb.cur.x + n], &row[fb.cur.x], (fb.cols - fb.cur.x - n) * sizeof(*row));
	clear_cells(fb.cur.y, fb.cur.x, fb.cur.x + n);
}

static void delete_characters(unsigned int n)
{
	cell_t *row = fb.row[fb.cur.y];

	n = min(n, fb.cols - fb.cur.x);
	memmove(&row[fb.cur.x], &row[fb.cur.x + n], (fb.cols - fb.cur.x - n) * sizeof(*row));
	clear_cells(fb.cur.y, fb.cols - n, fb.cols);
}

static void set_private_mode(unsigned int mode, bool on)
{
	switch (mode) {
	case 1: fb.app_cursor = on; break;
	case 6:
		fb.origin_mode = on;
		move_to(0, on ? (int)fb.top : 0);
		break;
	case 7: fb.no_autowrap = !on; break;
	case 25: fb.cursor_hidden = !on; break;
	case 47: case 1047: case 1049:		/* alternate screen: we have one; leave it tidy */
		if (mode == 1049 && on)
			save_cursor();
		clear_rows(0, fb.rows);
		if (mode == 1049 && !on)
			restore_cursor();
		break;
	}
}

/*
 * An answer is input, as if typed; but we run inside a write of the very terminal that receives it. So it waits for the
 * interrupt that also wakes the drawer.
 */
static void reply(const char *text)
{
	strscpy(fb.answer, text, sizeof(fb.answer));
}

static void device_status(unsigned int what)
{
	char text[sizeof(fb.answer)];

	if (what == 5)
		reply("\x1b[0n");
	if (what == 6) {
		snprintf(text, sizeof(text), "\x1b[%u;%uR", fb.cur.y + 1 - (fb.origin_mode ? fb.top : 0), fb.cur.x + 1);
		reply(text);
	}
}

static void csi_private(u8 c)
{
	if (fb.private == '?' && (c == 'h' || c == 'l')) {
		for (unsigned int i = 0; i < fb.nr_params; i++)
			set_private_mode(fb.params[i], c == 'h');
	}
}

static void csi(u8 c)
{
	unsigned int p0 = fb.params[0], n = p0 ? p0 : 1;
	int x = (int)fb.cur.x, y = (int)fb.cur.y;
	bool in_region = fb.cur.y >= fb.top && fb.cur.y < fb.bottom;
	int step = (int)min(n, 1000u);

	if (fb.private) {
		csi_private(c);
		return;
	}
	switch (c) {
	case '@': insert_characters(n); break;
	case 'A': move_to(x, max(y - step, in_region ? (int)fb.top : 0)); break;
	case 'B': case 'e': move_to(x, min(y + step, (in_region ? (int)fb.bottom : (int)fb.rows) - 1)); break;
	case 'C': case 'a': move_to(x + step, y); break;
	case 'D': move_to(x - step, y); break;
	case 'E': move_to(0, y + step); break;
	case 'F': move_to(0, y - step); break;
	case 'G': case '`': move_to(step - 1, y); break;
	case 'd': move_to(x, step - 1 + (fb.origin_mode ? (int)fb.top : 0)); break;
	case 'H': case 'f':
		move_to((int)min(fb.params[1] ? fb.params[1] : 1, 1000u) - 1, step - 1 + (fb.origin_mode ? (int)fb.top : 0));
		break;
	case 'J': erase_display(p0); break;
	case 'K': erase_line(p0); break;
	case 'L':
		if (in_region)
			scroll_down(fb.cur.y, fb.bottom, n);
		break;
	case 'M':
		/* Not scroll_up(0, ...): deleted lines do not go into the history. */
		if (in_region)
			for (unsigned int i = 0; i < min(n, fb.bottom - fb.cur.y); i++) {
				cell_t *first = fb.row[fb.cur.y];
				memmove(&fb.row[fb.cur.y], &fb.row[fb.cur.y + 1], (fb.bottom - fb.cur.y - 1) * sizeof(fb.row[0]));
				fb.row[fb.bottom - 1] = first;
				clear_cells(fb.bottom - 1, 0, fb.cols);
			}
		break;
	case 'P': delete_characters(n); break;
	case 'S': scroll_up(fb.top, fb.bottom, n); break;
	case 'T': scroll_down(fb.top, fb.bottom, n); break;
	case 'X': clear_cells(fb.cur.y, fb.cur.x, fb.cur.x + min(n, fb.cols)); break;
	case 'c': reply("\x1b[?6c"); break;
	case 'h': case 'l':
		if (p0 == 4)
			fb.insert_mode = c == 'h';
		break;
	case 'm': select_graphic_rendition(); break;
	case 'n': device_status(p0); break;
	case 'r': {
		unsigned int top = n - 1, bottom = fb.params[1] ? fb.params[1] : fb.rows;
		if (top + 1 < bottom && bottom <= fb.rows) {
			fb.top = top;
			fb.bottom = bottom;
			move_to(0, fb.origin_mode ? (int)top : 0);
		}
		break;
	}
	case 's': save_cursor(); break;
	case 'u': restore_cursor(); break;
	}
}

static void escape(u8 c)
{
	fb.state = PARSE_TEXT;
	switch (c) {
	case '[':
		fb.state = PARSE_CSI;
		memset(fb.params, 0, sizeof(fb.params));
		fb.nr_params = 1;
		fb.private = 0;
		break;
	case ']': fb.state = PARSE_OSC; break;
	case '(': case ')':
		fb.state = PARSE_CHARSET;
		fb.charset_slot = c == ')';
		break;
	case '#': fb.state = PARSE_HASH; break;
	case '7': save_cursor(); break;
	case '8': restore_cursor(); break;
	case 'c': reset_terminal(); break;
	case 'D': line_feed(); break;
	case 'E':
		fb.cur.x = 0;
		line_feed();
		break;
	case 'M':
		fb.wrap_pending = false;
		if (fb.cur.y == fb.top)
			scroll_down(fb.top, fb.bottom, 1);
		else if (fb.cur.y)
			fb.cur.y--;
		break;
	case 'Z': reply("\x1b[?6c"); break;
	}
}

static void csi_byte(u8 c)
{
	unsigned int *p = &fb.params[fb.nr_params - 1];

	if (c >= '0' && c <= '9') {
		if (*p < 100000)
			*p = *p * 10 + c - '0';
	} else if (c == ';' || c == ':') {
		if (fb.nr_params < MAX_PARAMS)
			fb.nr_params++;
	} else if (c >= 0x3c && c <= 0x3f) {
		fb.private = c;
	} else if (c >= 0x20 && c <= 0x2f) {
		fb.private = c;			/* intermediate bytes: sequences that we do not know */
	} else {
		fb.state = PARSE_TEXT;
		if (c >= 0x40 && c <= 0x7e)
			csi(c);
	}
}

static void control(u8 c)
{
	switch (c) {
	case '\b':
		if (fb.cur.x)
			fb.cur.x--;
		fb.wrap_pending = false;
		break;
	case '\t':
		fb.cur.x = min((fb.cur.x / TAB + 1) * TAB, fb.cols - 1);
		fb.wrap_pending = false;
		break;
	case '\n': case '\v': case '\f':
		if (fb.newline_mode)
			fb.cur.x = 0;
		line_feed();
		break;
	case '\r':
		fb.cur.x = 0;
		fb.wrap_pending = false;
		break;
	case 0x0e: fb.shift_out = true; break;
	case 0x0f: fb.shift_out = false; break;
	case 0x18: case 0x1a: fb.state = PARSE_TEXT; break;
	case 0x1b: fb.state = fb.state == PARSE_OSC ? PARSE_OSC_ESC : PARSE_ESC; break;
	}
}

static void terminal_byte(u8 c)
{
	if (fb.state == PARSE_OSC || fb.state == PARSE_OSC_ESC) {
		/* A window title: swallowed up to BEL or ESC \. */
		if (c == 0x07 || fb.state == PARSE_OSC_ESC)
			fb.state = PARSE_TEXT;
		else if (c == 0x1b)
			fb.state = PARSE_OSC_ESC;
		return;
	}
	if (c < 0x20) {
		control(c);
		return;
	}
	switch (fb.state) {
	case PARSE_ESC: escape(c); break;
	case PARSE_CSI: csi_byte(c); break;
	case PARSE_CHARSET:
		fb.graphics_set[fb.charset_slot] = c == '0';
		fb.state = PARSE_TEXT;
		break;
	case PARSE_HASH: fb.state = PARSE_TEXT; break;
	default:
		if (c != 0x7f)
			put_text_byte(c);
	}
}

/* --- drawing ------------------------------------------------------------------------------------------------------------------------- */

static u32 pixel(unsigned int r, unsigned int g, unsigned int b)
{
	const struct framebuffer_info *i = &fb.info;

	return (r >> (8 - min(i->red_size, (u8)8))) << i->red_pos | (g >> (8 - min(i->green_size, (u8)8))) << i->green_pos |
	       (b >> (8 - min(i->blue_size, (u8)8))) << i->blue_pos;
}

static void put_pixels(volatile u8 *at, const u32 *px)
{
	switch (fb.info.bpp) {
	case 32:			/* two at a time: half the accesses */
		for (unsigned int x = 0; x < FONT_W; x += 2)
			*(volatile u64 *)(at + 4 * x) = px[x] | (u64)px[x + 1] << 32;
		break;
	case 24:
		for (unsigned int x = 0; x < FONT_W; x++) {
			at[3 * x] = (u8)px[x];
			at[3 * x + 1] = (u8)(px[x] >> 8);
			at[3 * x + 2] = (u8)(px[x] >> 16);
		}
		break;
	default:
		for (unsigned int x = 0; x < FONT_W; x++)
			*(volatile u16 *)(at + 2 * x) = (u16)px[x];
	}
}

static void draw_cell(unsigned int x, unsigned int y, cell_t v, bool cursor)
{
	u32 colour[2] = { fb.palette[CELL_BG(v)], fb.palette[CELL_FG(v)] };
	const u8 *font = console_font, *glyph = font ? font + CELL_CHAR(v) * FONT_H : NULL;
	volatile u8 *at = fb.mem + (size_t)y * FONT_H * fb.info.pitch + (size_t)x * FONT_W * ((fb.info.bpp + 7u) / 8);

	for (unsigned int line = 0; line < FONT_H; line++, at += fb.info.pitch) {
		u8 bits = glyph ? glyph[line] : 0;
		u32 px[FONT_W];
		if (CELL_UNDERLINE(v) && line == FONT_H - 2)
			bits = 0xff;
		if (cursor && line >= FONT_H - 3)
			bits = (u8)~bits;
		for (unsigned int i = 0; i < FONT_W; i++)
			px[i] = colour[bits >> (FONT_W - 1 - i) & 1];
		put_pixels(at, px);
	}
}

/* What row @y of the screen should show: the live grid, or history when looking back. */
static const cell_t *visible_row(unsigned int y)
{
	if (y >= fb.view)
		return fb.row[y - fb.view];
	unsigned int back = fb.view - y;		/* 1 = the row that left last */
	return fb.history + (size_t)((fb.history_next + SCROLLBACK - back) % SCROLLBACK) * fb.cols;
}

static bool may_draw(void)
{
	return fb.mem && (!fb.early_window || boot_window_mapped());
}

/*
 * Paints what differs. Cells are read without fb_lock: one that changes meanwhile makes fb.dirty true again and is painted
 * in the next round.
 */
static void draw(void)
{
	struct cursor cur = fb.cur;
	bool show = !fb.cursor_hidden && !fb.view;

	/* Where the cursor was and is, the cell must be painted anew. */
	if (fb.drawn_cursor.x < fb.cols && (!show || fb.drawn_cursor.x != cur.x || fb.drawn_cursor.y != cur.y)) {
		fb.drawn[fb.drawn_cursor.y][fb.drawn_cursor.x] = NEVER_DRAWN;
		fb.drawn_cursor.x = MAX_COLS;
	}
	if (show && fb.drawn_cursor.x >= fb.cols)
		fb.drawn[cur.y][cur.x] = NEVER_DRAWN;

	for (unsigned int y = 0; y < fb.rows; y++) {
		const cell_t *row = visible_row(y);
		for (unsigned int x = 0; x < fb.cols; x++) {
			cell_t v = READ_ONCE(row[x]);
			if (v == fb.drawn[y][x])
				continue;
			draw_cell(x, y, v, show && x == cur.x && y == cur.y);
			fb.drawn[y][x] = v;
		}
	}
	if (show)
		fb.drawn_cursor = cur;
}

static void draw_if_possible(void)
{
	if (!may_draw() || __atomic_exchange_n(&draw_busy, true, __ATOMIC_ACQUIRE)) {
		if (!panic_in_progress || !may_draw())
			return;
		/* The drawer stands still: go on in its place. */
	}
	while (__atomic_exchange_n(&fb.dirty, false, __ATOMIC_ACQ_REL))
		draw();
	__atomic_store_n(&draw_busy, false, __ATOMIC_RELEASE);
}

static int draw_thread(void *unused)
{
	(void)unused;
	for (;;) {
		wait_event(&draw_wait, READ_ONCE(fb.dirty));
		draw_if_possible();
		u64 next = ktime_get_ns() + FRAME_NS;
		do
			set_current_state(TASK_UNINTERRUPTIBLE);
		while (schedule_until(next));
	}
	return 0;
}

/* Irq work: no lock is held here that our callers may hold. Interrupts off. */
static void deferred(void)
{
	char answer[sizeof(fb.answer)];

	unsigned long flags = spin_lock_irqsave(&fb_lock);
	memcpy(answer, fb.answer, sizeof(answer));
	fb.answer[0] = '\0';
	spin_unlock_irqrestore(&fb_lock, flags);
	if (answer[0])
		fbcon_input((const u8 *)answer, strlen(answer));
	wake_up(&draw_wait);
}

static void changed(void)
{
	if (__atomic_exchange_n(&fb.dirty, true, __ATOMIC_ACQ_REL) && thread_draws && !panic_in_progress)
		return;			/* somebody has raised it already */
	if (thread_draws && !panic_in_progress)
		irq_work_raise(IRQ_WORK_SCREEN);
	else
		draw_if_possible();
}

/* --- writing --------------------------------------------------------------------------------------------------------------------------- */

static void fb_process(const u8 *buf, size_t n, bool newline_mode)
{
	unsigned long flags;
	bool held = true;

	if (likely(!READ_ONCE(panic_in_progress))) {
		flags = spin_lock_irqsave(&fb_lock);
	} else {
		flags = local_irq_save();
		held = spin_trylock(&fb_lock);
		fb.state = PARSE_TEXT;
	}
	/* The log starts a new line where a program left off within one. */
	if (newline_mode && !fb.newline_mode && fb.cur.x) {
		fb.cur.x = 0;
		line_feed();
	}
	fb.newline_mode = newline_mode;
	fb.view = 0;
	while (n--)
		terminal_byte(*buf++);
	bool answer = fb.answer[0];
	if (held)
		spin_unlock_irqrestore(&fb_lock, flags);
	else
		local_irq_restore(flags);

	changed();
	if (unlikely(answer))
		irq_work_raise(IRQ_WORK_SCREEN);
}

static void fb_console_write(struct console *con, const char *buf, size_t n)
{
	(void)con;
	fb_process((const u8 *)buf, n, true);
}

/* In pieces, so that interrupts are never off for long. */
static size_t fb_port_write(struct chardev_port *port, const u8 *buf, size_t n)
{
	(void)port;
	for (size_t done = 0; done < n; ) {
		size_t part = min(n - done, (size_t)256);
		fb_process(buf + done, part, false);
		done += part;
	}
	return n;
}

static bool fb_always(struct chardev_port *port)
{
	(void)port;
	return true;
}

void fbcon_input(const u8 *buf, size_t n)
{
	void (*receive)(void *ctx, const u8 *b, size_t len) = __atomic_load_n(&fb_port.receive, __ATOMIC_ACQUIRE);

	if (receive)
		receive(fb_port.ctx, buf, n);
}

bool fbcon_app_cursor_keys(void)
{
	return READ_ONCE(fb.app_cursor);
}

void fbcon_scrollback(int half_screens)
{
	unsigned long flags = spin_lock_irqsave(&fb_lock);
	int view = (int)fb.view + half_screens * (int)(fb.rows / 2);

	fb.view = (unsigned int)clamp(view, 0, (int)fb.history_used);
	spin_unlock_irqrestore(&fb_lock, flags);
	changed();
}

/* --- start ------------------------------------------------------------------------------------------------------------------------------- */

static bool usable_mode(const struct framebuffer_info *i)
{
	return i->phys && i->width >= 40 * FONT_W && i->height >= 10 * FONT_H &&
	       (i->bpp == 15 || i->bpp == 16 || i->bpp == 24 || i->bpp == 32) && i->pitch >= i->width * ((i->bpp + 7u) / 8);
}

static void make_palette(void)
{
	for (unsigned int i = 0; i < 16; i++) {
		unsigned int on = i & 8 ? 255 : 170, off = i & 8 ? 85 : 0;
		fb.palette[i] = pixel(i & 1 ? on : off, i & 2 ? on : off, i & 4 ? on : off);
	}
	fb.palette[3] = pixel(170, 85, 0);		/* brown, as on every PC */
}

void fbcon_early_init(void)
{
	fb.info = boot_info.fb;
	if (!usable_mode(&fb.info))
		return;
	fb.cols = min(fb.info.width / FONT_W, (u32)MAX_COLS);
	fb.rows = min(fb.info.height / FONT_H, (u32)MAX_ROWS);
	fb.mem = boot_window_map(fb.info.phys, (size_t)fb.info.pitch * fb.info.height);
	fb.early_window = true;
	make_palette();
	for (unsigned int y = 0; y < fb.rows; y++)
		fb.row[y] = fb.cells[y];
	memset(fb.drawn, 0xff, sizeof(fb.drawn));
	fb.drawn_cursor.x = MAX_COLS;
	reset_terminal();
	/* What the grid does not cover, and whatever the loader left. */
	if (fb.mem)
		memset((void *)fb.mem, 0, (size_t)fb.info.pitch * fb.info.height);
	console_register(&fb_console);
}

void fbcon_init(void)
{
	if (!fb.cols)
		return;
	volatile u8 *mem = ioremap_wc(fb.info.phys, (size_t)fb.info.pitch * fb.info.height);
	fb.early_window = false;
	fb.mem = mem;
	if (!mem) {
		pr_warn("screen: no memory to map the framebuffer");
		return;
	}
	changed();
	fb.history = kvmalloc((size_t)SCROLLBACK * fb.cols * sizeof(cell_t), GFP_KERNEL);
	pr_info("screen: %ux%u, %u bits, %ux%u characters", fb.info.width, fb.info.height, fb.info.bpp, fb.cols, fb.rows);
}

void fbcon_start(void)
{
	if (!fb.cols)
		return;
	fb_port.winsize = (struct winsize){ (u16)fb.rows, (u16)fb.cols, (u16)(fb.cols * FONT_W), (u16)(fb.rows * FONT_H) };
	port_register(&fb_port);
	irq_work_set(IRQ_WORK_SCREEN, deferred);
	if (kthread_run(draw_thread, NULL, "screen"))
		thread_draws = true;
	changed();
}
