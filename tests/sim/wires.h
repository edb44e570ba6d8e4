/* wires.h - the inside of the simulated network: what is under way.
 *
 * A *wire* is what one dial made: an end here, one there, and a connection for
 * each lane. A *line* is one direction of a connection: messages under way,
 * sorted by when they arrive. Wires live as long as the network, so that a
 * timer never meets one that is gone; timers are the world's. What has arrived
 * waits in the channel's inbox for `drain`. Only network.c and wires.c see
 * this.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_WIRES_H
#define TEST_SIM_WIRES_H

#include "tests/sim/network.h"

enum { MOST = 64 }; /* nodes that faults can name */

typedef struct wire wire;
typedef struct channel channel;

/* A message, or trouble (frame NULL). */
typedef struct item {
  struct item *next, *prev;
  wire *wire;
  td_lane lane;
  int side; /* the sender's: 0 dialled */
  td_trouble what;
  sim_node_t sender;
  uint64_t number; /* on its line */
  uint32_t epoch;  /* of its line */
  int64_t at;
  channel *from; /* has `sent` to let go; NULL: nothing is left of it */
  channel *to;   /* NULL: gone */
  td_raw *sent, *frame;
  int n;
  size_t bytes;
  bool copy; /* the second of two */
} item;

typedef struct list {
  item *first, *last;
} list;

typedef struct line {
  struct connection *of;
  list items;
  bool broken;    /* what is sent vanishes, until the connection is lost */
  uint32_t epoch; /* what is of an older one is lost */
  uint64_t sent, came;
  int64_t last;   /* when the last that keeps the order arrives */
  size_t bytes;   /* under way or in the inbox */
  uint64_t timer; /* of the first; 0: none */
} line;

typedef struct connection {
  wire *of;
  td_lane lane;
  char *address; /* NULL: not told yet */
  channel *to;   /* that it leads to, or led to */
  bool up;
  int refused;            /* times, one after the other */
  uint64_t attempt, loss; /* timers; 0: none */
  line line[2];           /* by the sender's side */
} connection;

typedef struct end {
  td_link link;
  wire *wire;
  int side;
  struct end *next; /* of its channel */
} end;

struct wire {
  sim_network *net;
  channel *dialler; /* NULL: hung up */
  end *end[2];      /* NULL: hung up, or nothing came yet */
  int64_t heard[2]; /* by end: when something came last; -1: never */
  connection lane[TD_LANES];
  wire *next;
};

struct channel {
  td_channel base;
  sim_network *net;
  sim_node_t node;
  char *address[TD_LANES]; /* NULL: it does not listen */
  end *ends;
  list inbox;
  td_raw *spent; /* to be let go */
  int n_spent, room;
  uint64_t letting; /* an event of the node; 0: none */
  void (*ready)(void *arg);
  void *ready_arg;
  uint64_t posted; /* the same */
  bool woken;
  channel *next;
};

typedef struct rule {
  short fault[SIM_FAULTS]; /* in a thousand */
  bool cut;
  signed char refuse; /* td_trouble; -1: no */
} rule;

struct sim_network {
  rule rule[MOST][MOST]; /* from, to */
  channel *channels;
  wire *wires;
  sim_onlooker onlooker; /* NULL functions: nobody looks */
  int64_t saw[SAW_KINDS];
};

/* Zeroed; never NULL. */
void *sim_memory(size_t n);
/* Cancels a timer, if there is one. */
void sim_stop(uint64_t *timer);

/* ---- faults ---- */

rule *wire_rule(sim_network *net, sim_node_t from, sim_node_t to);
/* Draws, and counts. */
bool wire_happens(sim_network *net, const rule *r, sim_fault what);

/* ---- messages ---- */

void wire_unlink(list *l, item *m);
void wire_free_item(item *m);
void wire_release(td_raw *frames, int n);
/* The message is over: the sender's frames are to be released... */
void wire_spend(item *m);
/* ...and are, inside of the channel's node. */
void wire_let_go(void *channel);
/* Tells the owner that there is something. */
void wire_notify(channel *c);
/* Sends: `like` says by which line. Takes ownership of the frames. */
void wire_put(item *like, td_raw *frames, channel *from, channel *to);

/* ---- connections ---- */

wire *wire_new(sim_network *net, channel *dialler);
void wire_free(wire *w);
/* The living channel that listens there; NULL: none. */
channel *wire_listener(sim_network *net, td_lane lane, const char *address);
/* Tries to connect, between two moments from now. */
void wire_try(connection *k, int64_t low, int64_t high);
/* What is under way on a line is lost. */
void wire_cut_off(line *l);
/* What is sent from now on too; between two moments the dialler hears of it. */
void wire_break(connection *k, int side, int64_t low, int64_t high);
/* One side is gone: perhaps what it had sent arrives. */
void wire_leave(connection *k, int side);

#endif
