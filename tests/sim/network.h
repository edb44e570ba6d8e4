/* network.h - channels between simulated processes, and their faults.
 *
 * A td_channel (engine/remote/channel.h) belongs to a node. Its addresses are
 * "sim://name"; the data lane is "sim://name/data". Bytes are copied when they
 * are sent; the sender's frames are let go then or, drawn by the seed, when the
 * message has arrived or is lost, inside of the sender's node; bytes that
 * changed before end the process. A message takes 20 to 500 us, two in a
 * thousand 0.1 to 3 s. On a lane they come in order and at most once, unless a
 * fault below is switched on.
 *
 * A connection is made some time after `dial`, and made again after it was
 * lost; it is lost when the other process died or there was a cut. What is
 * under way then is lost, and what is sent until somebody notices vanishes. A
 * new process that listens where an old one did is connected to.
 *
 * Nodes are paused with sim_pause; they are killed with sim_network_kill.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_NETWORK_H
#define TEST_SIM_NETWORK_H

#include "engine/remote/channel.h"
#include "tests/sim/base/node.h"

typedef struct sim_network sim_network;

enum { SIM_ANY = -1 }; /* node: all, also those that are still to be made */

/* Caller owns the result. */
sim_network *sim_network_new(void);
/* No channel may be left. */
void sim_network_free(sim_network *net);

/* An end of the network in a node; address NULL: it dials only. One that a
 * living process has is an error. Caller owns the result (ops->free, inside of
 * the node: see sim_tidy). */
td_status *sim_channel_new(sim_network *net, sim_node_t node,
                           const char *address, td_channel **out) TD_MUST_USE;
/* Calls ready(arg) inside of the node, as an event, when something has come,
 * also while `drain` has left something, and after `wake`. */
void sim_channel_on_ready(td_channel *c, void (*ready)(void *arg), void *arg);

/* ---- faults -------------------------------------------------------------- */

typedef enum sim_fault {
  SIM_DROP,      /* a message is lost, and nothing else */
  SIM_DUPLICATE, /* it comes twice, the second time up to 2 s later */
  SIM_REORDER,   /* later ones may overtake it */
  SIM_SLOW,      /* it takes 0.1 to 3 s, and what comes behind it too */
  SIM_FAULTS
} sim_fault;

/* How many in a thousand messages from one node to another. */
void sim_network_fault(sim_network *net, sim_node_t from, sim_node_t to,
                       sim_fault what, int per_mille);
/* Nothing passes that way; connections between the two break, and none is made
 * until it is healed. For both ways call it twice. */
void sim_network_cut(sim_network *net, sim_node_t from, sim_node_t to);
/* New connections of the first to the second are refused: TD_TROUBLE_KEY,
 * TD_TROUBLE_MECHANISM or TD_TROUBLE_HANDSHAKE. Those that are there stay. */
void sim_network_refuse(sim_network *net, sim_node_t dialler,
                        sim_node_t listener, td_trouble how);
/* All of the above ends between the two. */
void sim_network_heal(sim_network *net, sim_node_t a, sim_node_t b);
/* A process that takes the place of another has the faults of its machine. */
void sim_network_inherit(sim_network *net, sim_node_t old, sim_node_t young);
/* sim_kill, and those that it was connected to notice within 50 ms. Of what it
 * had sent some arrives. */
void sim_network_kill(sim_network *net, sim_node_t n);

/* ---- who looks on ---- */

/* Called outside of virtual time: when a message is lost, where it is sent
 * (SIM_DROP, a broken connection) or would arrive; from where it is handed to
 * its owner, before, with who sent it and to whom; and after that owner's turn
 * with it, or with trouble of a connection. Draws nothing, changes nothing. */
typedef struct sim_onlooker {
  void (*lost)(void *arg, const td_raw *frames, int n);
  void (*before)(void *arg, sim_node_t from, sim_node_t to,
                 const td_raw *frames, int n);
  void (*after)(void *arg, sim_node_t node);
  void *arg;
} sim_onlooker;
void sim_network_watch(sim_network *net, const sim_onlooker *who);
/* The wire of a link, which lives as long as the network, and which of its ends
 * it is; when, by the world's clock, something came last to that end, heard or
 * not (-1: never). */
typedef struct sim_end {
  const void *wire;
  int side;
} sim_end;
sim_end sim_link_end(const td_link *l);
int64_t sim_end_heard(sim_end e);

/* ---- what happened ------------------------------------------------------- */

typedef enum sim_saw {
  SAW_SENT,
  SAW_CAME,
  SAW_DROPPED,
  SAW_DUPLICATED,
  SAW_OVERTAKEN,
  SAW_SLOW,
  SAW_VANISHED, /* on a connection that is broken */
  SAW_CONNECTED,
  SAW_LOST,
  SAW_UNREACHED,
  SAW_REFUSED,
  SAW_KILLED,
  SAW_UNCONNECTED, /* sends that failed: UNAVAILABLE */
  SAW_FULL,        /* RESOURCE_EXHAUSTED */
  SAW_KINDS
} sim_saw;

extern const char *const sim_saw_names[SAW_KINDS];
int64_t sim_network_saw(const sim_network *net, sim_saw what);
/* Frames that owners of channels have not released yet, of all networks. */
int64_t sim_frames_left(void);

#endif
