/* printf formatting, without floats. A number is built backwards in a small buffer, then padded out. */
#include "kernel/ksym.h"
#include "kernel/printk.h"
#include "kernel/string.h"

struct out {
	char	*buf;
	size_t	 size;
	size_t	 n;		/* what has been produced, may exceed size */
};

struct spec {
	bool	left, plus, space, alt, zero, upper;
	int	width;
	int	precision;	/* -1: none given */
	int	length;		/* sizes in bytes: 1 hh, 2 h, 4, 8 l ll z */
};

static void put(struct out *o, char c)
{
	if (o->n < o->size)
		o->buf[o->n] = c;
	o->n++;
}

static void pad(struct out *o, char c, int n)
{
	while (n-- > 0)
		put(o, c);
}

static void put_string(struct out *o, const struct spec *s, const char *str)
{
	size_t max = s->precision >= 0 ? (size_t)s->precision : (size_t)-1;
	size_t n = strnlen(str, max);

	if (!s->left)
		pad(o, ' ', s->width - (int)n);
	for (size_t i = 0; i < n; i++)
		put(o, str[i]);
	if (s->left)
		pad(o, ' ', s->width - (int)n);
}

static void put_number(struct out *o, const struct spec *s, u64 v, unsigned int base, const char *sign)
{
	const char *digits = s->upper ? "0123456789ABCDEF" : "0123456789abcdef";
	char tmp[24];
	int n = 0;
	const char *prefix = "";

	if (s->alt && base == 16 && v)
		prefix = s->upper ? "0X" : "0x";
	else if (s->alt && base == 8)
		prefix = "0";
	if (v || s->precision != 0) {
		do {
			tmp[n++] = digits[v % base];
			v /= base;
		} while (v);
	}
	int zeros = s->precision > n ? s->precision - n : 0;
	int total = (int)strlen(sign) + (int)strlen(prefix) + zeros + n;
	if (s->zero && !s->left && s->precision < 0 && s->width > total) {
		zeros = s->width - total;
		total = s->width;
	}
	if (!s->left)
		pad(o, ' ', s->width - total);
	while (*sign)
		put(o, *sign++);
	while (*prefix)
		put(o, *prefix++);
	pad(o, '0', zeros);
	while (n)
		put(o, tmp[--n]);
	if (s->left)
		pad(o, ' ', s->width - total);
}

static void put_symbol(struct out *o, const struct spec *s, uintptr_t addr)
{
	char text[96];
	const char *name;
	size_t offset, size;

	if (ksym_lookup(addr, &name, &offset, &size))
		snprintf(text, sizeof(text), "%s+0x%zx/0x%zx", name, offset, size);
	else
		snprintf(text, sizeof(text), "0x%016lx", addr);
	put_string(o, s, text);
}

static const char *parse_spec(const char *f, struct spec *s, va_list *ap)
{
	*s = (struct spec){ .precision = -1, .length = 4 };
	for (;; f++) {
		if (*f == '-')
			s->left = true;
		else if (*f == '+')
			s->plus = true;
		else if (*f == ' ')
			s->space = true;
		else if (*f == '#')
			s->alt = true;
		else if (*f == '0')
			s->zero = true;
		else
			break;
	}
	if (*f == '*') {
		s->width = va_arg(*ap, int);
		if (s->width < 0) {
			s->left = true;
			s->width = -s->width;
		}
		f++;
	} else {
		while (*f >= '0' && *f <= '9')
			s->width = s->width * 10 + *f++ - '0';
	}
	if (*f == '.') {
		f++;
		s->precision = 0;
		if (*f == '*') {
			s->precision = va_arg(*ap, int);
			f++;
		} else {
			while (*f >= '0' && *f <= '9')
				s->precision = s->precision * 10 + *f++ - '0';
		}
	}
	for (;; f++) {
		if (*f == 'h')
			s->length = s->length == 2 ? 1 : 2;
		else if (*f == 'l' || *f == 'z' || *f == 'j' || *f == 't')
			s->length = 8;
		else
			return f;
	}
}

static u64 unsigned_arg(const struct spec *s, va_list *ap)
{
	switch (s->length) {
	case 1: return (u8)va_arg(*ap, unsigned int);
	case 2: return (u16)va_arg(*ap, unsigned int);
	case 8: return va_arg(*ap, u64);
	default: return va_arg(*ap, unsigned int);
	}
}

static s64 signed_arg(const struct spec *s, va_list *ap)
{
	switch (s->length) {
	case 1: return (s8)va_arg(*ap, int);
	case 2: return (s16)va_arg(*ap, int);
	case 8: return va_arg(*ap, s64);
	default: return va_arg(*ap, int);
	}
}

static const char *put_conversion(struct out *o, const char *f, va_list *ap)
{
	struct spec s;

	f = parse_spec(f, &s, ap);
	switch (*f) {
	case 'd':
	case 'i': {
		s64 v = signed_arg(&s, ap);
		const char *sign = v < 0 ? "-" : s.plus ? "+" : s.space ? " " : "";
		put_number(o, &s, v < 0 ? -(u64)v : (u64)v, 10, sign);
		break;
	}
	case 'u':
		put_number(o, &s, unsigned_arg(&s, ap), 10, "");
		break;
	case 'X':
		s.upper = true;
		__attribute__((fallthrough));
	case 'x':
		put_number(o, &s, unsigned_arg(&s, ap), 16, "");
		break;
	case 'o':
		put_number(o, &s, unsigned_arg(&s, ap), 8, "");
		break;
	case 'c': {
		char c[2] = { (char)va_arg(*ap, int), '\0' };
		if (!s.left)
			pad(o, ' ', s.width - 1);
		put(o, c[0]);
		if (s.left)
			pad(o, ' ', s.width - 1);
		break;
	}
	case 's': {
		const char *str = va_arg(*ap, const char *);
		put_string(o, &s, str ? str : "(null)");
		break;
	}
	case 'p': {
		uintptr_t p = (uintptr_t)va_arg(*ap, void *);
		if (f[1] == 'S') {
			f++;
			put_symbol(o, &s, p);
			break;
		}
		s.alt = true;
		s.zero = true;
		if (!s.width)
			s.width = 18;
		put_number(o, &s, p, 16, p ? "" : "0x");
		break;
	}
	case '%':
		put(o, '%');
		break;
	case '\0':
		return f;
	default:			/* unknown: show it, so that somebody notices */
		put(o, '%');
		put(o, *f);
	}
	return f + 1;
}

int vsnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	struct out o = { buf, size, 0 };
	va_list ap;

	va_copy(ap, args);
	while (*fmt) {
		if (*fmt != '%')
			put(&o, *fmt++);
		else
			fmt = put_conversion(&o, fmt + 1, &ap);
	}
	va_end(ap);
	if (size)
		buf[o.n < size ? o.n : size - 1] = '\0';
	return (int)o.n;
}

int snprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	return n;
}

int scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;

	if (!size)
		return 0;
	va_start(ap, fmt);
	int n = vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	return (size_t)n < size ? n : (int)size - 1;
}
