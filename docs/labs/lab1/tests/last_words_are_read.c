/*
 * What is said to a socket before it is closed is read: the program of tests/guest.
 * build: debug
 * budget: 4000
 */
#include "tests/guest/unix_last_words_are_heard.c"
