/*
 * PS/2 keyboard through the i8042 (or its emulation for a USB keyboard by the firmware): scan code set 1, US layout.
 *
 * The rule: the controller may not be there, or may never answer. Every wait is bounded, and a machine without a keyboard
 * is told so and goes on. IBM PS/2 Technical Reference, keyboard and auxiliary device controller.
 */
#include "kernel/x86/keyboard.h"
#include "kernel/console.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/time.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/fbcon.h"
#include "kernel/x86/irq.h"

#define I8042_DATA	0x60
#define I8042_STATUS	0x64
#define I8042_COMMAND	0x64
#define STATUS_OUTPUT	0x01		/* a byte waits for us */
#define STATUS_INPUT	0x02		/* the controller has not taken our last byte */
#define STATUS_MOUSE	0x20		/* the byte is the mouse's */
#define CMD_READ_CONFIG	0x20
#define CMD_WRITE_CONFIG 0x60
#define CMD_DISABLE_MOUSE 0xa7
#define CMD_SELF_TEST	0xaa
#define CMD_TEST_PORT	0xab
#define CMD_DISABLE	0xad
#define CMD_ENABLE	0xae
#define CONFIG_IRQ	0x01
#define CONFIG_MOUSE_IRQ 0x02
#define CONFIG_CLOCK_OFF 0x10
#define CONFIG_TRANSLATE 0x40		/* set 2 from the keyboard becomes set 1 */
#define KBD_SET_LEDS	0xed
#define KBD_ENABLE	0xf4
#define KBD_ACK		0xfa
#define WAIT_US		50000
#define KEYBOARD_IRQ	1

#define KEY_RELEASED	0x80
#define KEY_EXTENDED	0xe0
#define KEY_PAUSE	0xe1

static struct {				/* touched by the interrupt handler only */
	bool	shift_l, shift_r, ctrl_l, ctrl_r, alt, alt_gr;
	bool	caps, num;
	bool	extended;		/* 0xe0 came before */
	u8	skip;			/* bytes of a Pause sequence still to come */
} kbd;

/* Without and with Shift; 0: a special key. Index: scan code of set 1. */
static const char plain[0x54] = {
	0, 27, '1', '2', '3', '4', '5', '6', '7', '8', '9', '0', '-', '=', 127, '\t',
	'q', 'w', 'e', 'r', 't', 'y', 'u', 'i', 'o', 'p', '[', ']', '\r', 0, 'a', 's',
	'd', 'f', 'g', 'h', 'j', 'k', 'l', ';', '\'', '`', 0, '\\', 'z', 'x', 'c', 'v',
	'b', 'n', 'm', ',', '.', '/', 0, '*', 0, ' ', [0x4a] = '-', [0x4e] = '+',
};
static const char shifted[0x54] = {
	0, 27, '!', '@', '#', '$', '%', '^', '&', '*', '(', ')', '_', '+', 127, '\t',
	'Q', 'W', 'E', 'R', 'T', 'Y', 'U', 'I', 'O', 'P', '{', '}', '\r', 0, 'A', 'S',
	'D', 'F', 'G', 'H', 'J', 'K', 'L', ':', '"', '~', 0, '|', 'Z', 'X', 'C', 'V',
	'B', 'N', 'M', '<', '>', '?', 0, '*', 0, ' ', [0x4a] = '-', [0x4e] = '+',
};
static const char keypad[] = "789-456+1230.";	/* scan codes 0x47 to 0x53 */

/* --- controller --------------------------------------------------------------------------------------------------------------- */

static bool wait_status(u8 mask, u8 value)
{
	u64 end = ktime_get_ns() + WAIT_US * NSEC_PER_USEC;

	do {
		if ((inb(I8042_STATUS) & mask) == value)
			return true;
		cpu_relax();
	} while (ktime_get_ns() < end);
	return false;
}

static bool command(u8 c)
{
	if (!wait_status(STATUS_INPUT, 0))
		return false;
	outb(I8042_COMMAND, c);
	return true;
}

static bool send_data(u8 v)
{
	if (!wait_status(STATUS_INPUT, 0))
		return false;
	outb(I8042_DATA, v);
	return true;
}

static int receive_data(void)
{
	return wait_status(STATUS_OUTPUT, STATUS_OUTPUT) ? inb(I8042_DATA) : -1;
}

static void drain(void)
{
	for (int i = 0; i < 64 && (inb(I8042_STATUS) & STATUS_OUTPUT); i++)
		inb(I8042_DATA);
}

/* NULL: ready. Else why not. */
static const char *controller_init(void)
{
	if (acpi.no_8042)
		return "ACPI says that there is no PS/2 controller";
	if (inb(I8042_STATUS) == 0xff)		/* an empty bus */
		return "no PS/2 controller";
	if (!command(CMD_DISABLE) || !command(CMD_DISABLE_MOUSE))
		return "the PS/2 controller does not take commands";
	drain();

	if (!command(CMD_READ_CONFIG))
		return "the PS/2 controller does not take commands";
	int config = receive_data();
	if (config < 0)
		return "the PS/2 controller does not answer";
	if (!command(CMD_SELF_TEST) || receive_data() != 0x55)
		return "the PS/2 controller fails its self-test";

	config = (config | CONFIG_IRQ | CONFIG_TRANSLATE) & ~(CONFIG_MOUSE_IRQ | CONFIG_CLOCK_OFF);
	if (!command(CMD_WRITE_CONFIG) || !send_data((u8)config))
		return "the PS/2 controller does not take commands";
	if (!command(CMD_TEST_PORT) || receive_data() != 0)
		return "the PS/2 controller's keyboard port is broken";
	if (!command(CMD_ENABLE))
		return "the PS/2 controller does not take commands";
	/* Some firmware emulations do not acknowledge; scan codes come all the same. */
	if (!send_data(KBD_ENABLE) || receive_data() != KBD_ACK)
		return "no keyboard answers at the PS/2 port";
	return NULL;
}

static void set_leds(void)
{
	/* Best effort, from the interrupt handler; the acknowledgements arrive as scan codes and are ignored there. */
	if (inb(I8042_STATUS) & STATUS_INPUT)
		return;
	outb(I8042_DATA, KBD_SET_LEDS);
	for (int i = 0; i < 1000 && (inb(I8042_STATUS) & STATUS_INPUT); i++)
		cpu_relax();
	outb(I8042_DATA, (u8)((kbd.num ? 2 : 0) | (kbd.caps ? 4 : 0)));
}

/* --- keys ------------------------------------------------------------------------------------------------------------------------ */

static void emit_text(const char *text)
{
	fbcon_input((const u8 *)text, strlen(text));
}

static void emit_char(char c)
{
	char out[3] = { 27, c, 0 };		/* Alt sends ESC first, as the Linux console */

	fbcon_input((const u8 *)(kbd.alt ? out : out + 1), kbd.alt ? 2 : 1);
}

/* Keys that send sequences, by scan code (the same with and without 0xe0). */
static bool emit_sequence(u8 code, bool shift)
{
	static const char *const function[] = {		/* F1 to F10 */
		"\x1b[[A", "\x1b[[B", "\x1b[[C", "\x1b[[D", "\x1b[[E", "\x1b[17~", "\x1b[18~", "\x1b[19~", "\x1b[20~", "\x1b[21~",
	};

	switch (code) {
	case 0x3b ... 0x44: emit_text(function[code - 0x3b]); return true;
	case 0x57: emit_text("\x1b[23~"); return true;
	case 0x58: emit_text("\x1b[24~"); return true;
	case 0x47: emit_text("\x1b[1~"); return true;
	case 0x4f: emit_text("\x1b[4~"); return true;
	case 0x52: emit_text("\x1b[2~"); return true;
	case 0x53: emit_text("\x1b[3~"); return true;
	case 0x48: emit_text(fbcon_app_cursor_keys() ? "\x1bOA" : "\x1b[A"); return true;
	case 0x50: emit_text(fbcon_app_cursor_keys() ? "\x1bOB" : "\x1b[B"); return true;
	case 0x4d: emit_text(fbcon_app_cursor_keys() ? "\x1bOC" : "\x1b[C"); return true;
	case 0x4b: emit_text(fbcon_app_cursor_keys() ? "\x1bOD" : "\x1b[D"); return true;
	case 0x49:
		if (shift)
			fbcon_scrollback(1);
		else
			emit_text("\x1b[5~");
		return true;
	case 0x51:
		if (shift)
			fbcon_scrollback(-1);
		else
			emit_text("\x1b[6~");
		return true;
	}
	return false;
}

static char with_ctrl(char c)
{
	if (c >= 'a' && c <= 'z')
		return (char)(c - 'a' + 1);
	if (c >= '@' && c <= '_')
		return (char)(c - '@');
	switch (c) {
	case ' ': case '2': return 0;
	case '3': return 27;
	case '4': return 28;
	case '5': return 29;
	case '6': return 30;
	case '7': case '/': case '-': return 31;
	case '8': case '?': return 127;
	default: return c;
	}
}

static void key_pressed(u8 code, bool extended)
{
	bool shift = kbd.shift_l || kbd.shift_r, ctrl = kbd.ctrl_l || kbd.ctrl_r;

	if (extended && code == 0x1c) {		/* keypad Enter */
		emit_char('\r');
		return;
	}
	if (extended && code == 0x35) {		/* keypad / */
		emit_char('/');
		return;
	}
	if (!extended && kbd.num && code >= 0x47 && code <= 0x53) {
		emit_char(keypad[code - 0x47]);
		return;
	}
	if (!extended && code == 0x56) {	/* the extra key of 102-key boards */
		emit_char(shift ? '>' : '<');
		return;
	}
	if (code < sizeof(plain) && plain[code] && !extended) {
		char c = shift ? shifted[code] : plain[code];
		bool letter = plain[code] >= 'a' && plain[code] <= 'z';
		if (letter && kbd.caps)
			c = shift ? plain[code] : shifted[code];
		if (ctrl)
			c = with_ctrl(letter ? plain[code] : c);
		emit_char(c);
		return;
	}
	emit_sequence(code, shift);
}

/* True if @code is a modifier; then it has been noted. */
static bool modifier(u8 code, bool extended, bool down)
{
	switch (code) {
	case 0x2a:
		if (!extended)			/* 0xe0 0x2a is a fake Shift around grey keys */
			kbd.shift_l = down;
		return true;
	case 0x36:
		if (!extended)
			kbd.shift_r = down;
		return true;
	case 0x1d:
		*(extended ? &kbd.ctrl_r : &kbd.ctrl_l) = down;
		return true;
	case 0x38:
		*(extended ? &kbd.alt_gr : &kbd.alt) = down;
		return true;
	case 0x3a:
		kbd.caps ^= down;
		break;
	case 0x45:
		kbd.num ^= down;
		break;
	default:
		return false;
	}
	if (down)
		set_leds();
	return true;
}

static void scan_code(u8 code)
{
	if (kbd.skip) {
		kbd.skip--;
		return;
	}
	if (code == KEY_PAUSE) {
		kbd.skip = 5;
		return;
	}
	if (code == KEY_EXTENDED) {
		kbd.extended = true;
		return;
	}
	bool extended = kbd.extended, down = !(code & KEY_RELEASED);
	kbd.extended = false;
	if (code == KBD_ACK || code == 0xfe || code == 0x00 || code == 0xff)
		return;				/* answers and errors, not keys */
	code &= (u8)~KEY_RELEASED;
	if (!modifier(code, extended, down) && down)
		key_pressed(code, extended);
}

static void keyboard_interrupt(void *unused)
{
	(void)unused;
	for (int i = 0; i < 32; i++) {
		u8 status = inb(I8042_STATUS);
		if (!(status & STATUS_OUTPUT))
			return;
		u8 code = inb(I8042_DATA);
		if (!(status & STATUS_MOUSE))
			scan_code(code);
	}
}

static struct irq_action keyboard_action = { .handler = keyboard_interrupt, .name = "keyboard" };

void keyboard_init(void)
{
	const char *problem = controller_init();

	if (problem) {
		pr_warn("keyboard: none found (%s); use the serial console", problem);
		return;
	}
	if (irq_request_isa(KEYBOARD_IRQ, &keyboard_action)) {
		pr_warn("keyboard: no interrupt line, cannot be used");
		return;
	}
	drain();
	pr_info("keyboard: PS/2, US layout");
}
