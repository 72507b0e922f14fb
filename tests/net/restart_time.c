/*
 * How long is the network away when netd is killed? Runs in a guest: restart_time ADDRESS PORT ROUNDS, where somebody listens
 * beyond the card at ADDRESS:PORT. Each round kills netd and connects to a listener of its own over loopback, which only needs a netd that runs,
 * and then to ADDRESS, which needs the card and an IP address too. Prints the median and the longest of both, in milliseconds of the guest's clock.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX	2000
#define LONGEST		30.0	/* seconds: then it does not come back */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* 0: there is none just now. */
static pid_t find_netd(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	if (!d)
		fail("/proc");
	while (!found && (e = readdir(d))) {
		char path[300], name[16] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !(f = fopen(path, "r")))
			continue;
		if (fgets(name, sizeof(name), f) && !strcmp(name, "netd\n"))
			found = atoi(e->d_name);
		fclose(f);
	}
	closedir(d);
	return found;
}

/* Until it succeeds. Errors are what a program sees while there is no network yet: it tries again. */
static void connect_to(const struct sockaddr_in *to, double start)
{
	struct timespec pause = { .tv_nsec = 1000000 };

	for (;;) {
		int s = socket(AF_INET, SOCK_STREAM, 0);

		if (s >= 0 && !connect(s, (const struct sockaddr *)to, sizeof(*to))) {
			close(s);
			return;
		}
		if (now() - start > LONGEST)
			fail("no connection");
		close(s);
		nanosleep(&pause, NULL);
	}
}

/* A listener that outlives every netd. */
static struct sockaddr_in listen_here(int *listener)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9) };

	while ((*listener = socket(AF_INET, SOCK_STREAM, 0)) < 0 && errno == EAFNOSUPPORT)
		usleep(10000);			/* no netd yet */
	if (*listener < 0 || bind(*listener, (struct sockaddr *)&a, sizeof(a)) || listen(*listener, 5))
		fail("listen");
	return a;
}

static int by_size(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

static void tell(const char *what, double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_size);
	printf("%s %.1f %.1f\n", what, v[n / 2] * 1e3, v[n - 1] * 1e3);
}

int main(int argc, char **argv)
{
	static double loopback[ROUNDS_MAX], card[ROUNDS_MAX];
	struct sockaddr_in far = { .sin_family = AF_INET };
	struct timespec moment = { .tv_nsec = 200000000 };
	int rounds = argc == 4 ? atoi(argv[3]) : 0, listener;

	if (rounds < 1 || rounds > ROUNDS_MAX || !inet_aton(argv[1], &far.sin_addr))
		return 2;
	far.sin_port = htons((uint16_t)atoi(argv[2]));
	struct sockaddr_in near = listen_here(&listener);

	connect_to(&far, now());
	for (int i = 0; i < rounds; i++) {
		pid_t netd;

		nanosleep(&moment, NULL);
		while (!(netd = find_netd()))
			nanosleep(&moment, NULL);
		double start = now();

		if (kill(netd, SIGKILL))
			fail("kill");
		connect_to(&near, start);
		loopback[i] = now() - start;
		connect_to(&far, start);
		card[i] = now() - start;
		int s = accept(listener, NULL, NULL);

		if (s < 0)
			fail("accept");
		close(s);
	}
	tell("loopback", loopback, rounds);
	tell("card", card, rounds);
}
