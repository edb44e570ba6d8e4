/* channel_zmq_pair.h - two channels over ZeroMQ, joined by ipc or by tcp, with
 * keys and a folder of their own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_CHANNEL_ZMQ_PAIR_H
#define TD_TEST_CHANNEL_ZMQ_PAIR_H

#include "tests/engine/remote/channel_suite.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"

enum { MS = 1000000 }; /* in ns */

/* ---- keys, folders ------------------------------------------------------- */

static struct {
  char public_key[41], secret[41];
} keys[3]; /* of who listens, who dials, and another */

static inline int make_keys(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(keys); i++)
    zmq_curve_keypair(keys[i].public_key, keys[i].secret);
  return 0;
}

/* A folder of ours alone. */
typedef struct folder {
  td_str path;
  char address[200]; /* "ipc://" and a path in it */
} folder;

static inline void folder_init(folder *f) {
  td_str_init(&f->path);
  OK(td_file_temp_dir(80, &f->path));
  assert_int_equal(chmod(td_str_c(&f->path), 0700), 0);
  snprintf(f->address, sizeof f->address, "ipc://%s/s", td_str_c(&f->path));
}

static inline void folder_deinit(folder *f) {
  assert_int_equal(rmdir(td_str_c(&f->path)), 0);
  td_str_deinit(&f->path);
}

/* ---- pairs --------------------------------------------------------------- */

static inline void rest(channel_pair *p) {
  int64_t until = td_clock_now() + 2 * MS;
  td_channel *c = p->dialler.c;
  c->ops->wait(c, until);
  if ((c = p->listener.c)) c->ops->wait(c, until);
}

static inline void end(channel_pair *p) {
  folder_deinit(p->own);
  free(p->own);
}

static inline void open_side(side *s, const td_channel_zmq_options *o) {
  td_channel *c;
  OK(td_channel_zmq_new(o, &c));
  side_init(s, c);
}

static inline void join(channel_pair *p, const td_channel_zmq_options *listener,
                        const td_channel_zmq_options *dialler) {
  *p = (channel_pair){.rest = rest, .end = end, .own = malloc(sizeof(folder))};
  folder *f = p->own;
  folder_init(f);
  td_channel_zmq_options o = *listener;
  if (!o.listen) o.listen = f->address;
  open_side(&p->listener, &o);
  open_side(&p->dialler, dialler);
  td_channel *c = p->listener.c;
  p->to = (td_dial){c->ops->address(c, TD_LANE_CONTROL),
                    c->ops->address(c, TD_LANE_DATA), o.public_key};
}

static inline void ipc(channel_pair *p) {
  join(p, &(td_channel_zmq_options){0}, &(td_channel_zmq_options){0});
}

static inline td_channel_zmq_options with_key(int i, const char *listen) {
  return (td_channel_zmq_options){.listen = listen,
                                  .public_key = keys[i].public_key,
                                  .secret = keys[i].secret};
}

static inline void tcp(channel_pair *p) {
  td_channel_zmq_options a = with_key(0, "tcp://127.0.0.1:0"),
                         b = with_key(1, NULL);
  join(p, &a, &b);
}

#endif
