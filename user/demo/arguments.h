/* What the demonstration programs take: a few numbers, or nothing. */
#ifndef DEMO_ARGUMENTS_H
#define DEMO_ARGUMENTS_H

#include <stdio.h>
#include <stdlib.h>

static inline void usage(const char *line)
{
	fprintf(stderr, "usage: %s\n", line);
	exit(2);
}

/* argv[i] as a number from 1 to @max; @otherwise if there is none. What is no such number is answered by the usage line. */
static inline unsigned long number_argument(int argc, char **argv, int i, unsigned long otherwise, unsigned long max, const char *line)
{
	unsigned long n = otherwise;
	char *end = NULL;

	if (i < argc) {
		n = strtoul(argv[i], &end, 10);
		if (argv[i][0] < '0' || argv[i][0] > '9' || *end || n < 1 || n > max)
			usage(line);
	}
	return n;
}

#endif
