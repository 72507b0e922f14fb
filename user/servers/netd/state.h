/* A snapshot for people: state.c. */
#ifndef NETD_STATE_H
#define NETD_STATE_H

void write_state(void);

#endif
