/* remote_fetch.c - values of a worker, as contestants of the benchmarks:
 * remote_fetch ROW FOLDER.
 *
 *   fetch_ipc, fetch_curve   100 MiB of a worker's variable are fetched, in
 *                            chunks, from another process
 *   fetch_shm                the same through shared memory
 *   fetch_memcpy             100 MiB are copied twice
 *   send_recv                a step that has a scalar go to the worker and come
 *                            back
 *
 * TIDE_REMOTE_OFF is set by the row. remote_channel.c has bare ZeroMQ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/graph/build.h"
#include "engine/remote/remote.h"
#include "engine/run/callable.h"

enum { BULK = 100 << 20, STEPS = 500 };

static void end(td_status *s) {
  if (td_ok(s)) return;
  fprintf(stderr, "%s\n", td_status_message(s));
  exit(1);
}

typedef struct keys {
  char public_key[41], secret[41];
} keys;

static struct {
  bool curve, small;
  char address[300];
  keys keys[2]; /* the worker's, the client's */
  td_graph *graph;
  td_session *session;
} row;

static td_remote *open_end(int i, td_runtime *rt, const char *listen) {
  td_channel *c;
  td_remote *r;
  td_channel_zmq_options o = {.listen = listen};
  if (row.curve)
    o.public_key = row.keys[i].public_key, o.secret = row.keys[i].secret;
  end(td_channel_zmq_new(&o, &c));
  end(td_remote_new(&(td_remote_options){.runtime = rt,
                                         .channel = c,
                                         .public_key = o.public_key,
                                         .serve = i == 0,
                                         .thread = true},
                    &r));
  return r;
}

/* In a process of its own; says where it listens. */
static void be_worker(int to) {
  td_runtime *rt;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  end(td_runtime_new(
      &(td_runtime_options){.place = "/job:worker/replica:0/task:0"}, &rt));
  td_remote *r = open_end(0, rt, row.address);
  const char *at = td_remote_address(r);
  if (write(to, at, strlen(at) + 1) < 0) exit(1);
  for (;;) pause();
}

static void start_worker(void) {
  int p[2];
  if (pipe(p)) exit(1);
  if (fork() == 0) be_worker(p[1]);
  if (read(p[0], row.address, sizeof row.address) <= 0) exit(1);
}

static td_edge node(const char *op, bool far, const td_edge *in, int n,
                    const char *attr, td_attr value) {
  td_build b;
  td_node *out;
  td_build_init(&b, row.graph, op, NULL);
  td_build_flat(&b, in, n);
  if (attr) td_build_attr(&b, attr, value);
  if (far) b.device = "/job:worker/task:0/device:CPU:0";
  end(td_build_node(&b, &out));
  return (td_edge){out, 0};
}

static td_edge constant(bool far, const td_tensor *t) {
  td_build b;
  td_node *out;
  td_build_init(&b, row.graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(t->dtype));
  td_build_attr(&b, "value", td_attr_tensor(t));
  if (far) b.device = "/job:worker/task:0/device:CPU:0";
  end(td_build_node(&b, &out));
  return (td_edge){out, 0};
}

static td_edge variable(void) {
  td_shape one = td_shape_vector(1), all = td_shape_vector(BULK / 4);
  td_tensor size, value;
  td_build b;
  td_node *handle;
  end(td_tensor_new(NULL, TD_INT32, &one, &size));
  *(int32_t *)size.data = BULK / 4;
  end(td_tensor_scalar_f(TD_FLOAT32, 1.5, &value));
  td_build_init(&b, row.graph, "VarHandleOp", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&all));
  b.device = "/job:worker/task:0/device:CPU:0";
  end(td_build_node(&b, &handle));
  td_edge h = {handle, 0};
  td_edge fill = node("Fill", true,
                      (td_edge[]){constant(true, &size), constant(true, &value)},
                      2, NULL, (td_attr){0});
  td_edge set = node("AssignVariableOp", true, (td_edge[]){h, fill}, 2, NULL,
                     (td_attr){0});
  td_signature sig = {.targets = &set.node, .n_targets = 1};
  end(td_session_run(row.session, &sig, NULL, NULL, NULL));
  return node("ReadVariableOp", true, &h, 1, "dtype",
              td_attr_type(TD_FLOAT32));
}

/* There, and here again. */
static td_edge round_trip(void) {
  td_tensor two;
  end(td_tensor_scalar_f(TD_FLOAT32, 2, &two));
  td_edge x = node("Placeholder", false, NULL, 0, "dtype",
                   td_attr_type(TD_FLOAT32));
  td_edge y = constant(false, &two);
  td_edge here = node("Mul", false, (td_edge[]){x, y}, 2, NULL, (td_attr){0});
  td_edge far = node("Neg", true, &here, 1, NULL, (td_attr){0});
  return node("Mul", false, (td_edge[]){far, x}, 2, NULL, (td_attr){0});
}

static td_callable *start(void) {
  td_runtime *rt;
  td_callable *c;
  td_member *m;
  start_worker();
  end(td_runtime_new(NULL, &rt));
  td_remote *r = open_end(1, rt, NULL);
  end(td_graph_new(&row.graph));
  end(td_session_new(rt, row.graph, NULL, &row.session));
  td_attach_options o = {.to = {.control = row.address}};
  if (row.curve) o.to.key = row.keys[0].public_key;
  end(td_remote_attach(r, row.session, &o, &m));
  td_edge fetch = row.small ? round_trip() : variable();
  td_edge feed = {td_graph_find(row.graph, "Placeholder"), 0};
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  if (row.small) sig.feeds = &feed, sig.n_feeds = 1;
  end(td_callable_new(row.session, &sig, &c));
  return c;
}

static void work(td_callable *c) {
  td_tensor feed = {0}, value;
  int n = row.small ? STEPS : 1;
  if (row.small) end(td_tensor_scalar_f(TD_FLOAT32, 3, &feed));
  for (int i = 0; i < n; i++) {
    end(td_callable_run(c, row.small ? &feed : NULL, &value, NULL));
    td_tensor_release(&value);
  }
  td_tensor_release(&feed);
}

static char *bytes[3];

static void copy(void) {
  memcpy(bytes[1], bytes[0], BULK);
  memcpy(bytes[2], bytes[1], BULK);
}

static void read_row(const char *name, const char *folder) {
  row.curve = strstr(name, "curve") != NULL;
  row.small = strstr(name, "send_recv") != NULL;
  if (row.curve)
    snprintf(row.address, sizeof row.address, "tcp://127.0.0.1:0");
  else
    snprintf(row.address, sizeof row.address, "ipc://%s/%s", folder, name);
  if (!strstr(name, "shm")) setenv("TIDE_REMOTE_OFF", "shm", 1);
  for (int i = 0; i < 2; i++)
    zmq_curve_keypair(row.keys[i].public_key, row.keys[i].secret);
}

int main(int argc, char **argv) {
  char line[64];
  if (argc < 3) return 1;
  bool plain = strstr(argv[1], "memcpy") != NULL;
  td_callable *c = NULL;
  read_row(argv[1], argv[2]);
  for (int i = 0; plain && i < 3; i++) memset(bytes[i] = malloc(BULK), i, BULK);
  if (!plain) c = start();
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int64_t start_ns = td_clock_now();
    plain ? copy() : work(c);
    printf("%.9g\n",
           (double)(td_clock_now() - start_ns) * 1e-9 / (row.small ? STEPS : 1));
    fflush(stdout);
  }
  return 0;
}
