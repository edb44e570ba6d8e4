/* pair.h - a client and workers of one process, over ZeroMQ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_REMOTE_PAIR_H
#define TEST_REMOTE_PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/remote/remote.h"
#include "engine/run/session_impl.h"
#include "tests/engine/run/rig.h"

enum { MOST_WORKERS = 4 };

typedef struct worker {
  td_runtime *runtime;
  td_remote *remote;
  char place[64], address[128];
} worker;

typedef struct cluster {
  rig r;
  char folder[32];
  td_remote *remote;
  td_session *s;
  worker worker[MOST_WORKERS];
  int n;
} cluster;

static inline void worker_start(cluster *c, worker *w, int task) {
  td_channel *channel;
  snprintf(w->place, sizeof w->place, "/job:worker/replica:0/task:%d", task);
  snprintf(w->address, sizeof w->address, "ipc://%s/w%d", c->folder, task);
  OK(td_runtime_new(&(td_runtime_options){.place = w->place}, &w->runtime));
  OK(td_channel_zmq_new(&(td_channel_zmq_options){.listen = w->address},
                        &channel));
  OK(td_remote_new(&(td_remote_options){.runtime = w->runtime,
                                        .channel = channel,
                                        .serve = true,
                                        .thread = true},
                   &w->remote));
}

static inline void worker_stop(worker *w) {
  td_remote_close(w->remote);
  td_remote_release(w->remote);
  td_runtime_release(w->runtime);
  w->remote = NULL;
}

static inline void cluster_init(cluster *c, int workers) {
  td_channel *channel;
  td_member *m;
  rig_init(&c->r);
  strcpy(c->folder, "/tmp/tide-test-XXXXXX");
  assert_non_null(mkdtemp(c->folder));
  OK(td_channel_zmq_new(&(td_channel_zmq_options){0}, &channel));
  OK(td_remote_new(&(td_remote_options){.runtime = c->r.runtime,
                                        .channel = channel,
                                        .thread = true},
                   &c->remote));
  OK(td_session_new(c->r.runtime, c->r.graph, NULL, &c->s));
  c->n = workers;
  for (int i = 0; i < workers; i++) {
    td_attach_options o = {0};
    worker_start(c, &c->worker[i], i);
    o.to.control = c->worker[i].address;
    OK(td_remote_attach(c->remote, c->s, &o, &m));
  }
}

static inline void cluster_deinit(cluster *c) {
  td_session_close(c->s);
  td_session_release(c->s);
  for (int i = 0; i < c->n; i++)
    if (c->worker[i].remote) worker_stop(&c->worker[i]);
  td_remote_close(c->remote);
  td_remote_release(c->remote);
  rig_deinit(&c->r);
  rmdir(c->folder);
}

/* A node of a worker. */
static inline td_edge far_node(cluster *c, int task, const char *op,
                               const char *name, const td_edge *in, int n) {
  td_build b;
  td_node *node;
  char device[64];
  snprintf(device, sizeof device, "/job:worker/task:%d/device:CPU:0", task);
  td_build_init(&b, c->r.graph, op, name);
  td_build_flat(&b, in, n);
  b.device = device;
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

#endif
