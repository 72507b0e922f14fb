/*
 * Kernel parameters: words separated by blanks; "name=value" or a bare "name". A value may be put in double quotes to
 * hold blanks. Everything after a word "--" belongs to init.
 */
#include "kernel/cmdline.h"
#include "kernel/boot_info.h"
#include "kernel/printk.h"
#include "kernel/string.h"

/*
 * The word at or after *pos: [start, start + len), *pos moved behind it. False at the end of the kernel's part.
 */
static bool next_word(const char **pos, const char **start, size_t *len)
{
	const char *p = *pos;
	bool quoted = false;

	while (*p == ' ' || *p == '\t' || *p == '\n')
		p++;
	*start = p;
	while (*p && (quoted || (*p != ' ' && *p != '\t' && *p != '\n'))) {
		if (*p == '"')
			quoted = !quoted;
		p++;
	}
	*len = (size_t)(p - *start);
	*pos = p;
	return *len && !(*len == 2 && (*start)[0] == '-' && (*start)[1] == '-');
}

/* The value part of a word "name=value", or NULL if the word is another. */
static const char *value_of(const char *word, size_t len, const char *name)
{
	size_t n = strlen(name);

	if (len <= n || strncmp(word, name, n) != 0 || word[n] != '=')
		return NULL;
	return word + n + 1;
}

static void copy_unquoted(char *buf, size_t size, const char *from, const char *end)
{
	size_t n = 0;

	for (; from < end; from++) {
		if (*from != '"' && n + 1 < size)
			buf[n++] = *from;
	}
	if (size)
		buf[n] = '\0';
}

bool cmdline_get(const char *name, char *buf, size_t size)
{
	const char *pos = boot_info.cmdline, *word;
	bool found = false;
	size_t len;

	while (next_word(&pos, &word, &len)) {
		const char *value = value_of(word, len, name);
		if (value) {
			copy_unquoted(buf, size, value, word + len);
			found = true;
		}
	}
	return found;
}

bool cmdline_flag(const char *name)
{
	const char *pos = boot_info.cmdline, *word;
	size_t len, n = strlen(name);

	while (next_word(&pos, &word, &len)) {
		if (len == n && strncmp(word, name, n) == 0)
			return true;
	}
	return false;
}

bool cmdline_on(const char *name, bool def)
{
	char value[16];

	if (!cmdline_get(name, value, sizeof(value)))
		return cmdline_flag(name) ? true : def;
	if (strcmp(value, "on") == 0 || strcmp(value, "1") == 0)
		return true;
	if (strcmp(value, "off") == 0 || strcmp(value, "0") == 0)
		return false;
	pr_warn("parameter %s=%s: neither on nor off, ignored", name, value);
	return def;
}

u64 cmdline_u64(const char *name, u64 def, u64 lo, u64 hi)
{
	char value[32];
	u64 v;

	if (!cmdline_get(name, value, sizeof(value)))
		return def;
	if (kstrtou64(value, 0, &v) || v < lo || v > hi) {
		pr_warn("parameter %s=%s: not a number from %lu to %lu, ignored", name, value, lo, hi);
		return def;
	}
	return v;
}

int cmdline_rank(const char *name, const char *value)
{
	const char *pos = boot_info.cmdline, *word;
	int n = 0, found = 0;
	size_t len, vlen = strlen(value);

	while (next_word(&pos, &word, &len)) {
		const char *v = value_of(word, len, name);
		if (!v)
			continue;
		n++;
		size_t rest = (size_t)(word + len - v);
		if (rest >= vlen && strncmp(v, value, vlen) == 0 && (rest == vlen || v[vlen] == ','))
			found = n;
	}
	return found;
}

void cmdline_for_each(void (*fn)(void *arg, const char *name, const char *value), void *arg)
{
	const char *pos = boot_info.cmdline, *word;
	size_t len;

	while (next_word(&pos, &word, &len)) {
		const char *equals = memchr(word, '=', len), *end = word + len;
		char name[64], value[64] = "";

		copy_unquoted(name, sizeof(name), word, equals ? equals : end);
		if (equals)
			copy_unquoted(value, sizeof(value), equals + 1, end);
		fn(arg, name, value);
	}
}
