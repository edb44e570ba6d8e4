/* fleet.h - workers for a whole test program, which TIDE_FLEET asks for.
 *
 *   worker-ipc   one in this process, over ipc
 *   worker-tcp   one in this process, over tcp with CURVE; keys are made
 *   two          two, one of each, the second with two devices
 *   ADDRESS      a process that was started by somebody: tcp://host:port with its
 *                public key (Z85) in TIDE_FLEET_KEY, or ipc:///path
 *
 * Workers of this process have a runtime and a thread each, and live until it
 * ends. A client is of one runtime, whose sessions attach; its own keys are made.
 * What requests no device goes to FLEET_FIRST, if the session says so.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_REMOTE_FLEET_H
#define TEST_REMOTE_FLEET_H

#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/remote/remote.h"

#define FLEET_FIRST "/job:worker"

enum { FLEET_MOST = 2 };

typedef struct fleet_keys {
  char public_key[41], secret[41];
} fleet_keys;

typedef struct fleet_worker {
  td_runtime *runtime;
  td_remote *remote;
  fleet_keys keys;
  td_dial at;
} fleet_worker;

/* The workers of this process, or the address of another's. */
typedef struct fleet {
  char folder[32];
  fleet_worker worker[FLEET_MOST];
  int n;
} fleet;

/* What the environment asks for; NULL: nothing. */
static inline const char *fleet_wanted(void) {
  const char *what = getenv("TIDE_FLEET");
  return what && *what ? what : NULL;
}

/* ---- workers ------------------------------------------------------------- */

static inline void fleet_worker_start(fleet *f, bool tcp, int cpus) {
  fleet_worker *w = &f->worker[f->n];
  char place[64], path[64];
  td_channel *channel;
  td_channel_zmq_options o = {.listen = path,
                              .public_key = w->keys.public_key,
                              .secret = w->keys.secret};
  snprintf(place, sizeof place, "/job:worker/replica:0/task:%d", f->n);
  snprintf(path, sizeof path, "ipc://%s/w%d", f->folder, f->n);
  if (tcp) o.listen = "tcp://127.0.0.1:0";
  zmq_curve_keypair(w->keys.public_key, w->keys.secret);
  OK(td_runtime_new(&(td_runtime_options){.place = place}, &w->runtime));
  OK(td_channel_zmq_new(&o, &channel));
  OK(td_remote_new(&(td_remote_options){.runtime = w->runtime,
                                        .channel = channel,
                                        .public_key = o.public_key,
                                        .serve = true,
                                        .cpu_devices = cpus,
                                        .thread = true},
                   &w->remote));
  w->at = (td_dial){.control = td_remote_address(w->remote),
                    .key = tcp ? o.public_key : NULL};
  f->n++;
}

static inline void fleet_start(fleet *f, const char *what) {
  memset(f, 0, sizeof *f);
  strcpy(f->folder, "/tmp/tide-test-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  if (strcmp(what, "worker-ipc") == 0) {
    fleet_worker_start(f, false, 2);
  } else if (strcmp(what, "worker-tcp") == 0) {
    fleet_worker_start(f, true, 2);
  } else if (strcmp(what, "two") == 0) {
    fleet_worker_start(f, false, 1);
    fleet_worker_start(f, true, 2);
  } else {
    f->worker[f->n++].at =
        (td_dial){.control = what, .key = getenv("TIDE_FLEET_KEY")};
  }
}

static inline void fleet_stop(fleet *f) {
  for (int i = 0; i < f->n; i++) {
    fleet_worker *w = &f->worker[i];
    if (!w->remote) continue;
    td_remote_close(w->remote);
    td_remote_release(w->remote);
    td_runtime_release(w->runtime);
  }
  f->n = 0;
  rmdir(f->folder);
}

/* The last of them, where a test puts what it can. */
static inline const char *fleet_device(void) {
  const char *what = fleet_wanted();
  return what && strcmp(what, "two") == 0 ? FLEET_FIRST "/task:1/device:CPU:0"
                                          : FLEET_FIRST "/device:CPU:0";
}

static inline bool fleet_has(const td_device *d) {
  return strncmp(d->name, FLEET_FIRST "/", sizeof FLEET_FIRST) == 0;
}

/* ---- who uses them ------------------------------------------------------- */

/* Caller owns the result (fleet_leave). */
static inline td_remote *fleet_client(td_runtime *rt) {
  fleet_keys keys;
  td_channel *channel;
  td_remote *client;
  zmq_curve_keypair(keys.public_key, keys.secret);
  OK(td_channel_zmq_new(&(td_channel_zmq_options){.public_key = keys.public_key,
                                                  .secret = keys.secret},
                        &channel));
  OK(td_remote_new(&(td_remote_options){.runtime = rt,
                                        .channel = channel,
                                        .public_key = keys.public_key,
                                        .thread = true},
                   &client));
  return client;
}

static inline void fleet_leave(td_remote *client) {
  td_remote_close(client);
  td_remote_release(client);
}

/* All of them run parts for `s` from now on. */
static inline void fleet_attach(const fleet *f, td_remote *client,
                                td_session *s) {
  for (int i = 0; i < f->n; i++) {
    td_member *m;
    td_attach_options o = {.to = f->worker[i].at};
    OK(td_remote_attach(client, s, &o, &m));
  }
}

/* ---- for tests that know nothing of workers ------------------------------ */

/* One fleet for the program, and the client of each runtime. */
static struct {
  fleet workers;
  bool started;
  struct {
    td_runtime *runtime;
    td_remote *client;
  } user[64];
} fleet_all;

static inline void fleet_end(void) {
  fleet_stop(&fleet_all.workers);
}

static inline td_remote *fleet_client_of(td_runtime *rt) {
  int free_one = -1;
  for (int i = 0; i < 64; i++) {
    if (fleet_all.user[i].runtime == rt) return fleet_all.user[i].client;
    if (!fleet_all.user[i].runtime) free_one = i;
  }
  assert_true(free_one >= 0);
  if (!fleet_all.started) {
    fleet_start(&fleet_all.workers, fleet_wanted());
    fleet_all.started = atexit(fleet_end) == 0;
  }
  fleet_all.user[free_one].runtime = rt;
  return fleet_all.user[free_one].client = fleet_client(rt);
}

/* As td_session_new; with TIDE_FLEET its nodes are on workers, as far as they
 * request nothing of this process. */
static inline td_status *session_new(td_runtime *rt, td_graph *g,
                                     const td_session_options *o,
                                     td_session **out) {
  td_session_options own = {0};
  if (!fleet_wanted()) return td_session_new(rt, g, o, out);
  if (o) own = *o;
  own.first = FLEET_FIRST;
  TD_TRY(td_session_new(rt, g, &own, out));
  td_remote *client = fleet_client_of(rt);
  fleet_attach(&fleet_all.workers, client, *out);
  return NULL;
}

/* Before the last session's runtime is let go of. */
static inline void session_runtime_ends(td_runtime *rt) {
  for (int i = 0; i < 64; i++)
    if (fleet_all.user[i].runtime == rt) {
      fleet_leave(fleet_all.user[i].client);
      fleet_all.user[i].runtime = NULL;
    }
}

#endif
