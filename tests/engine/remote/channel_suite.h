/* channel_suite.h - what every channel must do, whatever carries it.
 *
 * A channel's test says how a pair of channels is made, one that listens and
 * one that dials, and how time passes; `channel_suite(name)` are the tests
 * then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_CHANNEL_SUITE_H
#define TD_TEST_CHANNEL_SUITE_H

#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/remote/channel.h"
#include "tests/check.h"
#include "tests/rounds.h"

typedef struct got {
  td_link *link;
  td_lane lane;
  int n;
  td_raw *frames;
} got;

/* One side: a channel, and what came. */
typedef struct side {
  td_channel *c;
  TD_VEC(got) got;
  TD_VEC(td_link *) links; /* that the peer made */
  int troubles[6];
  td_link *hang_up_in_message; /* told in a callback */
} side;

typedef struct channel_pair {
  side listener, dialler;
  td_dial to; /* the listener */
  /* Lets time pass, until something may have come. */
  void (*rest)(struct channel_pair *p);
  void (*end)(struct channel_pair *p);
  void *own; /* the maker's */
} channel_pair;

typedef void channel_pair_make(channel_pair *p);

/* ---- sides --------------------------------------------------------------- */

static inline void side_message(void *arg, td_link *l, td_lane lane,
                                td_raw *frames, int n) {
  side *s = arg;
  got g = {l, lane, n, calloc((size_t)n, sizeof *frames)};
  memcpy(g.frames, frames, (size_t)n * sizeof *frames);
  if (!l->owner && !l->dialled) {
    l->owner = s;
    assert_true(td_vec_push(&s->links, l));
  }
  assert_ptr_equal(l->of, s->c);
  assert_true(td_vec_push(&s->got, g));
  if (s->hang_up_in_message == l) {
    s->hang_up_in_message = NULL;
    s->c->ops->hang_up(l);
  }
}

static inline void side_trouble(void *arg, td_link *l, td_trouble what) {
  side *s = arg;
  assert_ptr_equal(l->of, s->c);
  s->troubles[what]++;
}

static inline void side_init(side *s, td_channel *c) {
  *s = (side){.c = c};
  c->events = (td_channel_events){side_message, side_trouble, s};
}

static inline void side_forget(side *s) {
  for (size_t i = 0; i < s->got.len; i++) {
    for (int k = 0; k < s->got.at[i].n; k++)
      td_raw_release(&s->got.at[i].frames[k]);
    free(s->got.at[i].frames);
  }
  s->got.len = 0;
}

static inline void side_deinit(side *s) {
  if (s->c) s->c->ops->free(s->c); /* frames outlive it */
  side_forget(s);
  td_vec_free(&s->got);
  td_vec_free(&s->links);
  s->c = NULL;
}

static inline void pair_end(channel_pair *p) {
  side_deinit(&p->dialler);
  side_deinit(&p->listener);
  if (p->end) p->end(p);
}

/* Both drain until neither has more. */
static inline void pair_drain(channel_pair *p) {
  bool more = true;
  while (more) {
    more = p->listener.c && p->listener.c->ops->drain(p->listener.c, 100);
    more |= p->dialler.c && p->dialler.c->ops->drain(p->dialler.c, 100);
  }
}

/* `condition` holds before long, by the machine's clock: a rest may be none. */
#define AWAIT(p, condition)                                                    \
  do {                                                                         \
    int64_t until_ = real_now() + PATIENCE;                                    \
    for (pair_drain(p); !(condition); pair_drain(p)) {                         \
      if (real_now() > until_) fail_msg("never: %s", #condition);              \
      (p)->rest(p);                                                            \
    }                                                                          \
  } while (0)

/* Time for what should not come. */
static inline void pair_idle(channel_pair *p) {
  for (int i = 0; i < 10; i++) {
    p->rest(p);
    pair_drain(p);
  }
}

/* ---- frames -------------------------------------------------------------- */

static int frames_out; /* atomic: not yet released */

typedef struct block {
  size_t len;
  char at[];
} block;

static inline void block_free(void *arg) {
  free(arg);
  __atomic_fetch_sub(&frames_out, 1, __ATOMIC_ACQ_REL);
}

/* `len` bytes that follow from `seed`. */
static inline td_raw frame_of(size_t len, unsigned seed) {
  char *at = malloc(len ? len : 1);
  for (size_t i = 0; i < len; i++) at[i] = (char)(seed + i * 7 + i / 251);
  __atomic_fetch_add(&frames_out, 1, __ATOMIC_ACQ_REL);
  return (td_raw){at, len, block_free, at};
}

static inline void check_frame(const td_raw *f, size_t len, unsigned seed) {
  assert_int_equal(f->len, len);
  const char *at = f->at;
  for (size_t i = 0; i < len; i++)
    if (at[i] != (char)(seed + i * 7 + i / 251))
      fail_msg("byte %zu of a frame of %zu is another", i, len);
}

static inline td_status *send_one(td_link *l, td_lane lane, size_t len,
                           unsigned seed) {
  td_raw f = frame_of(len, seed);
  td_status *s = l->of->ops->send(l, lane, &f, 1);
  if (td_status_code(s) == TD_UNAVAILABLE) { /* it is still ours */
    check_frame(&f, len, seed);
    td_raw_release(&f);
  }
  return s;
}

/* Sends when there is a connection. */
static inline void send_first(channel_pair *p, td_link *l, td_lane lane,
                              unsigned seed) {
  td_status *s = NULL;
  for (int64_t until = real_now() + PATIENCE; real_now() < until;) {
    td_status_release(s);
    s = send_one(l, lane, 10, seed);
    if (td_ok(s)) return;
    assert_int_equal(td_status_code(s), TD_UNAVAILABLE);
    p->rest(p);
    pair_drain(p);
  }
  fail_msg("%s", td_status_message(s));
}

static inline td_link *dial_to(channel_pair *p) {
  td_link *l = NULL;
  OK(p->dialler.c->ops->dial(p->dialler.c, &p->to, &l));
  assert_true(l->dialled);
  assert_null(l->owner);
  assert_ptr_equal(l->of, p->dialler.c);
  return l;
}

/* Sends until there is no connection. */
static inline td_status *send_last(channel_pair *p, td_link *l, td_lane lane) {
  td_status *s = NULL;
  for (int64_t until = real_now() + PATIENCE; td_ok(s) && real_now() < until;) {
    p->rest(p);
    pair_drain(p);
    s = send_one(l, lane, 5, 1);
  }
  return s;
}

/* A link with both lanes up. */
static inline td_link *dial_up(channel_pair *p, td_link **back) {
  td_link *l = dial_to(p);
  size_t links = p->listener.links.len, n = p->listener.got.len;
  send_first(p, l, TD_LANE_CONTROL, 1);
  send_first(p, l, TD_LANE_DATA, 2);
  AWAIT(p, p->listener.got.len == n + 2);
  assert_int_equal(p->listener.links.len, links + 1);
  *back = p->listener.links.at[links];
  side_forget(&p->listener);
  return l;
}

static inline void all_released(channel_pair *p) {
  pair_end(p);
  assert_int_equal(__atomic_load_n(&frames_out, __ATOMIC_ACQUIRE), 0);
}

/* ---- the tests ----------------------------------------------------------- */

/* Both ways, both lanes: every frame, in order, on the link it was sent. */
static inline void suite_both_ways(channel_pair_make *make) {
  static const size_t sizes[] = {
      0, 1, 33, 34, 511, 512, 2047, 2048, 8193, 65536, TD_CHUNK, TD_FRAME_MOST};
  channel_pair p;
  td_link *back;
  make(&p);
  td_link *there = dial_up(&p, &back);
  there->owner = &p;
  for (int way = 0; way < 2; way++) {
    side *to = way ? &p.dialler : &p.listener;
    td_link *l = way ? back : there;
    for (unsigned i = 0; i < TD_COUNT(sizes); i++)
      for (int lane = 0; lane < TD_LANES; lane++) {
        OK(send_one(l, lane, sizes[i], i));
        AWAIT(&p, to->got.len > 0); /* the fuse of control is 4 MiB */
        assert_int_equal(to->got.len, 1);
        assert_int_equal(to->got.at[0].lane, lane);
        assert_int_equal(to->got.at[0].n, 1);
        assert_ptr_equal(to->got.at[0].link, way ? there : back);
        check_frame(&to->got.at[0].frames[0], sizes[i], i);
        side_forget(to);
      }
  }
  assert_ptr_equal(there->owner, &p);
  assert_ptr_equal(back->owner, &p.listener);
  assert_false(back->dialled);
  all_released(&p);
}

/* The frames of a message stay together, however many. */
static inline void suite_many_frames(channel_pair_make *make) {
  channel_pair p;
  td_link *back;
  make(&p);
  td_link *there = dial_up(&p, &back);
  for (int n = 1; n <= TD_MESSAGE_FRAMES; n++) {
    td_raw f[TD_MESSAGE_FRAMES];
    for (int i = 0; i < n; i++)
      f[i] = frame_of((size_t)(i * n) % 700, (unsigned)(i + n));
    OK(p.dialler.c->ops->send(there, n % 2, f, n));
  }
  AWAIT(&p, p.listener.got.len == TD_MESSAGE_FRAMES);
  int last[TD_LANES] = {0};
  for (size_t k = 0; k < p.listener.got.len; k++) {
    got *g = &p.listener.got.at[k];
    assert_int_equal(g->n % 2, g->lane);
    assert_true(g->n > last[g->lane]); /* in order */
    last[g->lane] = g->n;
    for (int i = 0; i < g->n; i++)
      check_frame(&g->frames[i], (size_t)(i * g->n) % 700,
                  (unsigned)(i + g->n));
  }
  all_released(&p);
}

/* Several links between two channels are several. */
static inline void suite_links(channel_pair_make *make) {
  enum { N = 5 };
  channel_pair p;
  td_link *there[N], *back[N];
  make(&p);
  for (int i = 0; i < N; i++) there[i] = dial_up(&p, &back[i]);
  for (unsigned i = 0; i < N; i++) OK(send_one(back[i], i % 2, 9, i));
  AWAIT(&p, p.dialler.got.len == N);
  for (size_t k = 0; k < N; k++) {
    const got *g = &p.dialler.got.at[k];
    unsigned i = 0;
    while (there[i] != g->link) i++;
    check_frame(&g->frames[0], 9, i);
  }
  all_released(&p);
}

/* A message that may not be is refused, and its frames go. */
static inline void suite_refusals(channel_pair_make *make) {
  channel_pair p;
  td_link *back;
  td_raw f[TD_MESSAGE_FRAMES + 1];
  make(&p);
  td_link *there = dial_up(&p, &back);
  const td_channel_ops *ops = p.dialler.c->ops;
  for (int i = 0; i <= TD_MESSAGE_FRAMES; i++) f[i] = frame_of(3, 0);
  FAILS(ops->send(there, 0, f, TD_MESSAGE_FRAMES + 1), TD_INVALID_ARGUMENT,
        "81 frames");
  FAILS(ops->send(there, 0, f, 0), TD_INVALID_ARGUMENT, "0 frames");
  f[0] = frame_of(2, 0), f[1] = frame_of(TD_FRAME_MOST + 1, 0);
  FAILS(ops->send(there, 1, f, 2), TD_INVALID_ARGUMENT, "1048577 bytes");
  for (int i = 0; i < 17; i++) f[i] = frame_of(TD_FRAME_MOST, 0);
  FAILS(ops->send(there, 1, f, 17), TD_INVALID_ARGUMENT, "17825792 bytes");
  /* Those of before are let go of by ZeroMQ's thread. */
  AWAIT(&p, __atomic_load_n(&frames_out, __ATOMIC_ACQUIRE) == 0);
  pair_idle(&p);
  assert_int_equal(p.listener.got.len, 0);
  all_released(&p);
}

/* A peer that takes nothing: an error at the limit of P6, and once it takes
 * again, all that was accepted, in order. */
static inline void suite_slow_peer(channel_pair_make *make) {
  channel_pair p;
  td_link *back;
  make(&p);
  td_link *there = dial_up(&p, &back);
  for (int lane = 0; lane < TD_LANES; lane++) {
    unsigned sent = 0;
    td_status *s = NULL;
    while (td_ok(s = send_one(there, lane, TD_CHUNK, sent))) {
      if (++sent > 4000) fail_msg("1 GiB is kept for who takes nothing");
      if (sent % 8 == 0) p.rest(&p);
    }
    FAILS(s, TD_RESOURCE_EXHAUSTED, "takes no");
    assert_true(sent >= 16);
    AWAIT(&p, p.listener.got.len == sent);
    for (unsigned i = 0; i < sent; i++)
      check_frame(&p.listener.got.at[i].frames[0], TD_CHUNK, i);
    side_forget(&p.listener);
    OK(send_one(there, lane, TD_CHUNK, 1));
    AWAIT(&p, p.listener.got.len == 1);
    side_forget(&p.listener);
  }
  all_released(&p);
}

/* `drain` hands over as many as it was told, and says when there is no more. */
static inline void suite_drains_few(channel_pair_make *make) {
  enum { N = 20 };
  channel_pair p;
  td_link *back;
  make(&p);
  td_link *there = dial_up(&p, &back);
  for (unsigned i = 0; i < N; i++) OK(send_one(there, i % 2, 5, i));
  size_t had = 0;
  for (int64_t until = real_now() + PATIENCE; had < N && real_now() < until;) {
    bool any = p.listener.c->ops->drain(p.listener.c, 3);
    assert_int_equal(any, p.listener.got.len > had);
    assert_true(p.listener.got.len <= had + 3);
    had = p.listener.got.len;
    if (!any) p.rest(&p);
  }
  assert_int_equal(had, N);
  assert_false(p.listener.c->ops->drain(p.listener.c, 3));
  all_released(&p);
}

/* Who hung up hears nothing more of that link, in whatever moment he did: what
 * is sent to it all the same comes by another, which is nobody's. */
static inline void suite_hang_up(channel_pair_make *make) {
  channel_pair p;
  td_link *back, *other_back;
  make(&p);
  td_link *there = dial_up(&p, &back), *other = dial_up(&p, &other_back);
  /* A link that a peer made, in a callback, with messages behind that one. */
  p.listener.hang_up_in_message = back;
  for (unsigned i = 0; i < 10; i++) OK(send_one(there, i % 2, 5, i));
  AWAIT(&p, p.listener.got.len == 10);
  assert_int_equal(p.listener.links.len, 3);
  p.listener.c->ops->hang_up(p.listener.links.at[2]);
  OK(send_one(there, TD_LANE_CONTROL, 5, 1));
  AWAIT(&p, p.listener.got.len == 11);
  assert_int_equal(p.listener.links.len, 4);
  side_forget(&p.listener);
  /* The other link goes on. */
  OK(send_one(other, TD_LANE_CONTROL, 5, 7));
  OK(send_one(other_back, TD_LANE_DATA, 5, 8));
  AWAIT(&p, p.listener.got.len == 1 && p.dialler.got.len == 1);
  side_forget(&p.dialler);
  /* A dialled one: the other side has nowhere to send to, soon. */
  p.dialler.c->ops->hang_up(other);
  FAILS(send_last(&p, other_back, TD_LANE_DATA), TD_UNAVAILABLE,
        "no connection");
  assert_int_equal(p.dialler.got.len, 0);
  p.dialler.c->ops->hang_up(there);
  all_released(&p);
}

/* The data's address told later. */
static inline void suite_data_later(channel_pair_make *make) {
  channel_pair p;
  make(&p);
  const char *data = p.to.data;
  p.to.data = NULL;
  td_link *l = dial_to(&p);
  send_first(&p, l, TD_LANE_CONTROL, 3);
  FAILS(send_one(l, TD_LANE_DATA, 3, 3), TD_UNAVAILABLE, "no connection");
  OK(p.dialler.c->ops->dial_data(l, data));
  send_first(&p, l, TD_LANE_DATA, 4);
  AWAIT(&p, p.listener.got.len == 2);
  assert_int_equal(p.listener.links.len, 1);
  all_released(&p);
}

/* Who listened is gone: LOST, and sends say so; then nobody answers. */
static inline void suite_peer_gone(channel_pair_make *make) {
  channel_pair p;
  td_link *back;
  make(&p);
  td_link *there = dial_up(&p, &back);
  side_deinit(&p.listener);
  AWAIT(&p, p.dialler.troubles[TD_TROUBLE_LOST] > 0);
  FAILS(send_last(&p, there, TD_LANE_CONTROL), TD_UNAVAILABLE,
        "no connection");
  AWAIT(&p, p.dialler.troubles[TD_TROUBLE_UNREACHED] > 0);
  assert_int_equal(p.dialler.troubles[TD_TROUBLE_KEY], 0);
  all_released(&p);
}

#define SUITE_TEST(name, what)                                                 \
  static void name##_##what(void **state) {                                    \
    (void)state;                                                               \
    suite_##what(name);                                                        \
  }
#define SUITE_TESTS(name)                                                      \
  SUITE_TEST(name, both_ways)                                                  \
  SUITE_TEST(name, many_frames)                                                \
  SUITE_TEST(name, links)                                                      \
  SUITE_TEST(name, refusals)                                                   \
  SUITE_TEST(name, slow_peer)                                                  \
  SUITE_TEST(name, drains_few)                                                 \
  SUITE_TEST(name, hang_up)                                                    \
  SUITE_TEST(name, data_later)                                                 \
  SUITE_TEST(name, peer_gone)
#define SUITE(name)                                                            \
  cmocka_unit_test(name##_both_ways), cmocka_unit_test(name##_many_frames),    \
      cmocka_unit_test(name##_links), cmocka_unit_test(name##_refusals),       \
      cmocka_unit_test(name##_slow_peer), cmocka_unit_test(name##_drains_few), \
      cmocka_unit_test(name##_hang_up), cmocka_unit_test(name##_data_later),   \
      cmocka_unit_test(name##_peer_gone)

#endif
