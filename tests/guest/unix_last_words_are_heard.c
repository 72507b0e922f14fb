/*
 * What a peer writes before it closes is read, and then comes the end: also when both happen while the reader has just found
 * nothing. In the debug kernel the reader is held there until it has happened: before it asks for the end, and after.
 *
 * build: debug
 */
#include "unix_test.h"

static int ends[2];

static void race_command(const char *command)
{
	int fd = open("/sys/kernel/faultline/race", O_WRONLY);

	if (fd < 0)
		return;			/* Linux */
	MUST(write(fd, command, strlen(command)) == (ssize_t)strlen(command));
	close(fd);
}

static void *say_and_leave(void *arg)
{
	const char word[4] = "word";

	(void)arg;
	usleep(20000);			/* the reader has found nothing */
	MUST(write(ends[1], word, sizeof(word)) == sizeof(word));
	close(ends[1]);
	race_command("pass words_were_said");
	return NULL;
}

static void last_words(int type, const char *window)
{
	char hold[80];

	snprintf(hold, sizeof(hold), "hold %s until words_were_said", window);
	for (int i = 0; i < 10; i++) {
		pthread_t peer;
		char word[8];

		MUST(socketpair(AF_UNIX, type, 0, ends) == 0);
		race_command("clear");
		race_command(hold);
		MUST(pthread_create(&peer, NULL, say_and_leave, NULL) == 0);
		CHECK_EQUAL(4, read(ends[0], word, sizeof(word)));
		CHECK_EQUAL(0, read(ends[0], word, sizeof(word)));
		pthread_join(peer, NULL);
		close(ends[0]);
	}
	race_command("clear");
}

int main(void)
{
	last_words(SOCK_STREAM, "unix_nothing_queued");
	last_words(SOCK_STREAM, "unix_end_seen_or_not");
	last_words(SOCK_SEQPACKET, "unix_nothing_queued");
	last_words(SOCK_SEQPACKET, "unix_end_seen_or_not");
	test_end();
}
