/* transfer.c - tests of engine/remote/transfer_in.c, transfer_out.c: values
 * between two ends whose messages the test carries, in the order it likes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/remote/transfer_impl.h"
#include "tests/check.h"

/* ---- a channel that is a list -------------------------------------------- */

typedef struct parcel {
  struct line *to;
  td_lane lane;
  int n;
  td_raw frames[4];
} parcel;

typedef struct line {
  td_channel base;
  td_link link;
  struct line *other;
  const char *name;
  TD_VEC(parcel) under_way; /* to it */
  bool gone;                /* it was freed */
  int takes;                /* data messages it still takes; -1: all */
} line;

static bool deliver_here; /* drain delivers nothing while it is false */

static td_status *line_dial(td_channel *c, const td_dial *to, td_link **out) {
  line *l = (line *)c;
  (void)to;
  l->link = (td_link){.of = c, .dialled = true};
  *out = &l->link;
  return NULL;
}

static td_status *line_dial_data(td_link *l, const char *address) {
  (void)l, (void)address;
  return NULL;
}

/* The frames become the test's own: they may be delivered twice. */
static td_status *line_send(td_link *k, td_lane lane, td_raw *frames, int n) {
  line *l = (line *)k->of;
  parcel p = {l->other, lane, n, {{0}}};
  bool full = lane == TD_LANE_DATA && l->takes == 0;
  assert_true(n <= 4);
  if (lane == TD_LANE_DATA && l->takes > 0) l->takes--;
  for (int i = 0; i < n; i++) {
    char *copy = malloc(frames[i].len + 1);
    if (frames[i].len) memcpy(copy, frames[i].at, frames[i].len);
    p.frames[i] = (td_raw){copy, frames[i].len, free, copy};
    td_raw_release(&frames[i]);
    if (full) td_raw_release(&p.frames[i]);
  }
  if (full) return td_error(TD_RESOURCE_EXHAUSTED, "it takes no data");
  if (l->other->gone) {
    for (int i = 0; i < n; i++) td_raw_release(&p.frames[i]);
    return NULL;
  }
  assert_true(td_vec_push(&l->other->under_way, p));
  return NULL;
}

static void line_hang_up(td_link *l) {
  (void)l;
}

static const char *line_address(const td_channel *c, td_lane lane) {
  (void)lane;
  return ((const line *)c)->name;
}

static void hand_over(line *l, parcel *p) {
  td_raw frames[4];
  for (int i = 0; i < p->n; i++) {
    char *copy = malloc(p->frames[i].len + 1);
    if (p->frames[i].len) memcpy(copy, p->frames[i].at, p->frames[i].len);
    frames[i] = (td_raw){copy, p->frames[i].len, free, copy};
  }
  l->base.events.message(l->base.events.arg, &l->link, p->lane, frames, p->n);
}

static void forget(line *l, size_t i) {
  parcel *p = &l->under_way.at[i];
  for (int k = 0; k < p->n; k++) td_raw_release(&p->frames[k]);
  memmove(p, p + 1, (--l->under_way.len - i) * sizeof *p);
}

static bool line_drain(td_channel *c, int most) {
  line *l = (line *)c;
  (void)most;
  if (!deliver_here || l->under_way.len == 0) return false;
  parcel p = l->under_way.at[0];
  memmove(l->under_way.at, l->under_way.at + 1, --l->under_way.len * sizeof p);
  hand_over(l, &p);
  for (int k = 0; k < p.n; k++) td_raw_release(&p.frames[k]);
  return true;
}

static void line_wait(td_channel *c, int64_t until) {
  (void)c, (void)until;
}

static void line_wake(td_channel *c) {
  (void)c;
}

static void line_free(td_channel *c) {
  line *l = (line *)c;
  while (l->under_way.len) forget(l, 0);
  td_vec_free(&l->under_way);
  ((line *)c)->gone = true;
}

static const td_channel_ops line_ops = {
    line_dial,  line_dial_data, line_send, line_hang_up, line_address,
    line_drain, line_wait,      line_wake, line_free};

/* ---- two ends ------------------------------------------------------------ */

typedef struct end {
  line line;
  td_runtime *runtime;
  td_remote *remote;
  td_peer *peer; /* the other */
} end;

typedef struct ends {
  end a, b; /* a has values, b wants them */
  td_session_id session;
} ends;

static void end_init(end *e, const char *place, end *other) {
  e->line.base.ops = &line_ops;
  e->line.link.of = &e->line.base;
  e->line.other = &other->line;
  e->line.name = place;
  e->line.takes = -1;
  OK(td_runtime_new(&(td_runtime_options){.place = place}, &e->runtime));
  OK(td_remote_new(&(td_remote_options){.runtime = e->runtime,
                                        .channel = &e->line.base,
                                        .serve = true},
                   &e->remote));
}

/* In order, until nothing is under way. */
static void settle(ends *t) {
  deliver_here = true;
  for (int i = 0; i < 10000; i++) {
    td_remote_turn(t->a.remote);
    td_remote_turn(t->b.remote);
    if (!t->a.line.under_way.len && !t->b.line.under_way.len) break;
  }
  deliver_here = false;
}

static void ends_init(ends *t, const char *off) {
  setenv("TIDE_REMOTE_OFF", off, 1);
  *t = (ends){.session = {1, 2}};
  end_init(&t->a, "/job:a/replica:0/task:0", &t->b);
  end_init(&t->b, "/job:b/replica:0/task:0", &t->a);
  unsetenv("TIDE_REMOTE_OFF");
  td_remote_enter(t->a.remote);
  OK(td_peer_dial(t->a.remote, &(td_dial){.control = "b", .data = "b"},
                  &t->a.peer));
  td_remote_leave(t->a.remote);
  settle(t);
  assert_true(t->a.peer->welcomed);
  t->b.peer = td_peer_retain(t->b.remote->peers.at[0]);
}

static void end_deinit(end *e) {
  td_remote_close(e->remote);
  td_peer_release(e->peer);
  td_remote_release(e->remote);
  td_runtime_release(e->runtime);
}

static void ends_deinit(ends *t) {
  end_deinit(&t->a);
  end_deinit(&t->b);
}

static td_remote_traffic traffic(end *e) {
  td_remote_traffic out;
  td_remote_read_traffic(e->remote, &out);
  return out;
}

/* ---- values -------------------------------------------------------------- */

typedef struct wanted {
  td_transfer base; /* first */
  int times, failed, derived;
  bool dead;
  td_tensor value;
  int rank; /* how many came before it */
} wanted;
static int n_came;

static void got(td_transfer *t, td_tensor *value, bool dead, td_status *s) {
  wanted *w = (wanted *)t;
  w->times++;
  w->dead = dead;
  w->failed += !td_ok(s);
  w->derived += !td_ok(s) && td_status_derived(s);
  td_tensor_release(&w->value);
  w->value = *value;
  w->rank = n_came++;
  td_status_release(s);
}

static td_tensor numbers(int64_t n) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  for (int64_t i = 0; i < n; i++)
    ((float *)t.data)[i] = (float)i + (float)i * 1e-3f;
  return t;
}

static uint64_t slow_link; /* of what `tell` sends */

/* What a message of `a` says of `value` is told to `b`. */
static bool tell(ends *t, const td_tensor *value, bool narrow, wanted *w) {
  td_arena arena;
  td_message m = {0};
  Td__Remote__Value *v;
  td_sending to = {.to = t->a.peer,
                   .session = &t->session,
                   .step = 7,
                   .narrow = narrow,
                   .slow_link = slow_link};
  td_arena_init(&arena);
  td_remote_enter(t->a.remote);
  OK(td_transfer_out(&to, value, &arena, m.frames, &m.n, &v));
  td_remote_leave(t->a.remote);
  w->base.got = got;
  td_remote_enter(t->b.remote);
  bool waits = td_transfer_in(t->b.peer, v, &m, &w->base);
  td_remote_leave(t->b.remote);
  for (int i = m.taken; i < m.n; i++) td_raw_release(&m.frames[i]);
  td_arena_deinit(&arena);
  return waits;
}

/* Nothing is left of what was offered, at either end. */
static void check_clean(ends *t) {
  assert_int_equal(t->a.peer->values.offers.count, 0);
  assert_int_equal(t->a.peer->values.offered, 0);
  assert_null(t->a.remote->transfers->offers);
  assert_int_equal(t->b.peer->values.transfers.count, 0);
  assert_int_equal(t->b.peer->values.pulling, 0);
  assert_null(t->b.peer->values.first);
}

static void check_way(const char *off, td_remote_traffic *sent,
                      td_remote_traffic *came) {
  static const int64_t sizes[] = {0,     1,      16384,  16385,
                                  65536, 262144, 262145, 1000003};
  ends t;
  ends_init(&t, off);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    wanted w = {0};
    td_tensor value = numbers(sizes[i]);
    assert_false(tell(&t, &value, false, &w));
    settle(&t);
    assert_int_equal(w.times, 1);
    assert_int_equal(w.failed, 0);
    assert_true(td_tensor_same(&value, &w.value));
    td_tensor_release(&value);
    td_tensor_release(&w.value);
    check_clean(&t);
  }
  *sent = traffic(&t.a);
  *came = traffic(&t.b);
  assert_int_equal(came->copied,
                   4 * (1 + 16384 + 16385 + 65536 + 262144 + 262145 + 1000003));
  ends_deinit(&t);
}

static void test_ways(void **state) {
  td_remote_traffic sent, came;
  (void)state;
  check_way("", &sent, &came);
  assert_int_equal(sent.eager, 3);
  assert_int_equal(sent.offered, 5);
  assert_int_equal(came.shared + came.pulled, 5);
  assert_int_equal(came.unshared, 0);
  check_way("shm", &sent, &came);
  assert_int_equal(came.shared, 0);
  assert_int_equal(came.pulled, 5);
  check_way("shm,eager", &sent, &came);
  assert_int_equal(sent.eager, 1); /* there is nothing in it */
  assert_int_equal(came.pulled, 7);
}

static void test_dead_and_text(void **state) {
  ends t;
  wanted w = {0};
  td_tensor value;
  td_shape shape = td_shape_vector(3);
  (void)state;
  ends_init(&t, "shm,eager");
  assert_false(tell(&t, NULL, false, &w));
  assert_true(w.times == 1 && w.dead && !td_tensor_valid(&w.value));
  OK(td_tensor_strings(&shape, (const char *[]){"tide", "", "moon"},
                       (size_t[]){4, 0, 4}, &value));
  assert_false(tell(&t, &value, false, &w));
  settle(&t);
  assert_true(w.times == 2 && td_tensor_same(&value, &w.value));
  td_tensor rows;
  OK(td_tensor_rows(&value, 1, 2, &rows));
  assert_false(tell(&t, &rows, false, &w));
  settle(&t);
  assert_true(w.times == 3 && td_tensor_same(&rows, &w.value));
  td_tensor_release(&rows);
  td_tensor_release(&value);
  td_tensor_release(&w.value);
  check_clean(&t);
  ends_deinit(&t);
}

/* Half the bytes, and what is left of the numbers; eager and pulled. */
static void test_narrow(void **state) {
  static const int64_t sizes[] = {3, 1000, 300000};
  ends t;
  (void)state;
  ends_init(&t, "");
  for (size_t i = 0; i < 3; i++) {
    wanted w = {0};
    td_tensor value = numbers(sizes[i]);
    assert_false(tell(&t, &value, true, &w));
    settle(&t);
    assert_true(w.times == 1 && !w.failed);
    assert_int_equal(w.value.dtype, TD_FLOAT32);
    for (int64_t k = 0; k < sizes[i]; k++) {
      double want = td_tensor_get_f(&value, k);
      double is = td_tensor_get_f(&w.value, k);
      assert_true(fabs(is - want) <= want / 256);
    }
    td_tensor_release(&value);
    td_tensor_release(&w.value);
    check_clean(&t);
  }
  assert_int_equal(traffic(&t.b).copied, 2 * (3 + 1000 + 300000));
  assert_int_equal(traffic(&t.a).narrowed, 3);
  ends_deinit(&t);
  ends_init(&t, "narrow");
  wanted w = {0};
  td_tensor value = numbers(1000);
  assert_false(tell(&t, &value, true, &w));
  assert_true(td_tensor_same(&value, &w.value));
  td_tensor_release(&value);
  td_tensor_release(&w.value);
  ends_deinit(&t);
}

/* How many of two large values and a small one went in 16 bits since the link
 * is slow: below `least` bytes a second. */
static uint64_t slowed(const char *off, uint64_t least) {
  static const int64_t sizes[] = {300000, 300000, 16384};
  ends t;
  ends_init(&t, off);
  slow_link = least;
  for (size_t i = 0; i < 3; i++) {
    wanted w = {0};
    td_tensor value = numbers(sizes[i]);
    uint64_t before = traffic(&t.a).slowed;
    assert_false(tell(&t, &value, false, &w));
    settle(&t);
    assert_true(w.times == 1 && !w.failed);
    bool same = td_tensor_same(&value, &w.value);
    assert_int_equal(same, traffic(&t.a).slowed == before);
    td_tensor_release(&value);
    td_tensor_release(&w.value);
    check_clean(&t);
  }
  slow_link = 0;
  uint64_t n = traffic(&t.a).slowed;
  assert_int_equal(traffic(&t.a).narrowed, n);
  assert_int_equal(t.a.peer->values.rate > 0, strcmp(off, "") != 0);
  ends_deinit(&t);
  return n;
}

/* Only what comes after the link was measured, is large and was asked for. */
static void test_slow_link(void **state) {
  (void)state;
  assert_int_equal(slowed("shm", INT64_MAX), 1);
  assert_int_equal(slowed("shm", 1), 0);
  assert_int_equal(slowed("shm", 0), 0);
  assert_int_equal(slowed("shm,narrow", INT64_MAX), 0);
  assert_int_equal(slowed("", INT64_MAX), 0);
}

/* ---- orders -------------------------------------------------------------- */

static size_t of_lane(const line *l, td_lane lane) {
  size_t n = 0;
  for (size_t i = 0; i < l->under_way.len; i++)
    n += l->under_way.at[i].lane == lane;
  return n;
}

/* Some message, twice now and then; those of control stay in order. */
static void shuffle_one(line *l, td_remote *r) {
  size_t i = (size_t)rand() % l->under_way.len;
  if (l->under_way.at[i].lane == TD_LANE_CONTROL)
    for (i = 0; l->under_way.at[i].lane != TD_LANE_CONTROL; i++) {
    }
  parcel p = l->under_way.at[i];
  bool again = p.lane == TD_LANE_DATA && rand() % 4 == 0;
  td_remote_enter(r);
  if (!again) {
    memmove(&l->under_way.at[i], &l->under_way.at[i + 1],
            (--l->under_way.len - i) * sizeof p);
  }
  hand_over(l, &p);
  for (int k = 0; !again && k < p.n; k++) td_raw_release(&p.frames[k]);
  td_remote_leave(r);
}

static void test_any_order(void **state) {
  enum { VALUES = 40 };
  ends t;
  (void)state;
  for (int seed = 0; seed < 10; seed++) {
    wanted w[VALUES] = {{.times = 0}};
    td_tensor value[VALUES];
    size_t most = 0;
    ends_init(&t, "shm");
    srand((unsigned)seed);
    for (int i = 0; i < VALUES; i++) {
      value[i] = numbers(16385 + rand() % 400000);
      (void)tell(&t, &value[i], false, &w[i]);
      assert_true(t.b.peer->values.pulling <= TD_PULLS_MOST);
    }
    while (t.a.line.under_way.len || t.b.line.under_way.len) {
      bool to_a = rand() % 2 && t.a.line.under_way.len;
      if (to_a || !t.b.line.under_way.len)
        shuffle_one(&t.a.line, t.a.remote);
      else
        shuffle_one(&t.b.line, t.b.remote);
      size_t chunks = of_lane(&t.b.line, TD_LANE_DATA);
      if (chunks > most) most = chunks;
    }
    assert_true(most <= TD_PULLS_MOST * (TD_WINDOW / TD_CHUNK) * 2);
    for (int i = 0; i < VALUES; i++) {
      assert_int_equal(w[i].times, 1);
      assert_true(td_tensor_same(&value[i], &w[i].value));
      td_tensor_release(&value[i]);
      td_tensor_release(&w[i].value);
    }
    check_clean(&t);
    ends_deinit(&t);
  }
}

/* What comes first is pulled first; the others take no memory meanwhile. */
static void test_line(void **state) {
  enum { VALUES = 100 };
  ends t;
  wanted w[VALUES] = {{.times = 0}};
  td_tensor value = numbers(300000);
  (void)state;
  ends_init(&t, "shm");
  n_came = 0;
  for (int i = 0; i < VALUES; i++) (void)tell(&t, &value, false, &w[i]);
  assert_int_equal(t.b.peer->values.pulling, TD_PULLS_MOST);
  assert_int_equal(t.a.peer->values.offered, VALUES * 1200000);
  int rooms = 0;
  for (int i = 0; i < VALUES; i++) rooms += w[i].base.value.data != NULL;
  assert_int_equal(rooms, TD_PULLS_MOST);
  /* Two of them, one waiting and one under way, are not wanted any more. */
  td_remote_enter(t.b.remote);
  td_transfer_stop(&w[3].base);
  td_transfer_stop(&w[50].base);
  td_transfer_stop(&w[50].base);
  td_remote_leave(t.b.remote);
  settle(&t);
  for (int i = 0; i < VALUES; i++) {
    bool stopped = i == 3 || i == 50;
    assert_int_equal(w[i].times, !stopped);
    if (i > 50) assert_true(w[i].rank > w[0].rank);
    td_tensor_release(&w[i].value);
  }
  assert_int_equal(traffic(&t.b).dropped, 2);
  check_clean(&t);
  td_tensor_release(&value);
  ends_deinit(&t);
}

/* A channel that is full for a while loses nothing. */
static void test_full_channel(void **state) {
  ends t;
  wanted w = {0};
  td_tensor value = numbers(1000000);
  (void)state;
  ends_init(&t, "shm");
  t.a.line.takes = 2;
  (void)tell(&t, &value, false, &w);
  settle(&t);
  assert_int_equal(w.times, 0);
  assert_int_equal(t.a.peer->values.owed.len, 4);
  t.a.line.takes = -1;
  td_remote_enter(t.a.remote);
  td_transfer_tick(t.a.remote, td_clock_now());
  td_remote_leave(t.a.remote);
  settle(&t);
  assert_true(w.times == 1 && td_tensor_same(&value, &w.value));
  td_tensor_release(&w.value);
  td_tensor_release(&value);
  check_clean(&t);
  ends_deinit(&t);
}

/* ---- later, and never ---------------------------------------------------- */

static void test_later(void **state) {
  ends t;
  wanted w = {.base = {.later = true}};
  td_tensor value = numbers(100000);
  (void)state;
  ends_init(&t, "shm");
  assert_true(tell(&t, &value, false, &w));
  settle(&t);
  assert_true(w.times == 0 && w.base.value.data == NULL);
  td_remote_enter(t.b.remote);
  td_transfer_go(&w.base);
  td_transfer_go(&w.base);
  td_remote_leave(t.b.remote);
  settle(&t);
  assert_true(w.times == 1 && td_tensor_same(&value, &w.value));
  /* Again, and it is not wanted in the end. */
  assert_true(tell(&t, &value, false, &w));
  td_remote_enter(t.b.remote);
  td_transfer_stop(&w.base);
  td_remote_leave(t.b.remote);
  settle(&t);
  assert_int_equal(w.times, 1);
  check_clean(&t);
  /* Once more: it is taken back before it is wanted. */
  assert_true(tell(&t, &value, false, &w));
  td_remote_enter(t.a.remote);
  td_transfer_withdraw(t.a.remote, &t.session, 8);
  assert_int_equal(t.a.peer->values.offers.count, 1);
  td_transfer_withdraw(t.a.remote, &t.session, 7);
  td_remote_leave(t.a.remote);
  td_remote_enter(t.b.remote);
  td_transfer_go(&w.base);
  td_remote_leave(t.b.remote);
  settle(&t);
  assert_true(w.times == 2 && w.derived == 1);
  check_clean(&t);
  td_tensor_release(&w.value);
  td_tensor_release(&value);
  ends_deinit(&t);
}

static void test_death(void **state) {
  enum { VALUES = 20 };
  ends t;
  wanted w[VALUES] = {{.times = 0}};
  td_tensor value = numbers(400000);
  (void)state;
  ends_init(&t, "");
  for (int i = 0; i < VALUES; i++) {
    w[i].base.later = true;
    (void)tell(&t, &value, false, &w[i]);
  }
  assert_int_equal(
      td_segments_read_stats(t.a.remote->transfers->segments).blocks, VALUES);
  td_remote_enter(t.b.remote);
  td_peer_end(t.b.peer, TD_ENDED, td_error(TD_UNAVAILABLE, "a died"));
  td_remote_leave(t.b.remote);
  for (int i = 0; i < VALUES; i++) {
    assert_int_equal(w[i].times, 1);
    assert_true(w[i].failed == 1 && w[i].derived == 0);
  }
  td_remote_enter(t.a.remote);
  td_peer_end(t.a.peer, TD_ENDED, td_error(TD_UNAVAILABLE, "b died"));
  td_remote_leave(t.a.remote);
  assert_int_equal(td_segments_read_stats(t.a.remote->transfers->segments).held,
                   0);
  check_clean(&t);
  td_tensor_release(&value);
  ends_deinit(&t);
}

/* ---- who does not keep to the rules -------------------------------------- */

static void say_chunk(ends *t, uint64_t offer, uint64_t offset, uint64_t says,
                      size_t is, bool pull) {
  static const char bytes[TD_CHUNK + 1];
  td_head head;
  Td__Remote__Chunk body = TD__REMOTE__CHUNK__INIT;
  td_message m = {.head = &head};
  td_head_init(&head, NULL);
  head.chunk = &body;
  body.offer = offer;
  body.offset = offset;
  body.bytes = says;
  m.frames[0] = (td_raw){bytes, is, NULL, NULL};
  m.n = 1;
  td_remote_enter(pull ? t->a.remote : t->b.remote);
  if (pull)
    td_transfer_pulled(t->a.peer, &body);
  else
    td_transfer_chunk(t->b.peer, &m);
  td_remote_leave(pull ? t->a.remote : t->b.remote);
}

static void test_hostile(void **state) {
  enum { BYTES = 1200000, LAST = BYTES / TD_CHUNK * TD_CHUNK };
  ends t;
  wanted w = {0}, none = {0};
  td_tensor value = numbers(BYTES / 4);
  (void)state;
  ends_init(&t, "shm");
  (void)tell(&t, &value, false, &w);
  uint64_t n = w.base.offer;
  static const struct {
    uint64_t offer, offset, says;
    size_t is;
  } chunks[] = {
      {1, 0, TD_CHUNK, TD_CHUNK},            /* of an unknown offer */
      {0, 1, TD_CHUNK, TD_CHUNK},            /* between two */
      {0, 0, TD_CHUNK - 1, TD_CHUNK - 1},    /* too short */
      {0, 0, TD_CHUNK + 1, TD_CHUNK + 1},    /* too long */
      {0, 0, TD_CHUNK, 5},                   /* another length than it says */
      {0, LAST, BYTES - LAST, BYTES - LAST}, /* not asked for yet */
      {0, BYTES, 0, 0},                      /* beyond the end */
      {0, (uint64_t)-TD_CHUNK, TD_CHUNK, TD_CHUNK},
      {0, (uint64_t)1 << 63, TD_CHUNK, TD_CHUNK},
  };
  size_t n_chunks = sizeof chunks / sizeof *chunks;
  for (size_t i = 0; i < n_chunks; i++)
    say_chunk(&t, n + chunks[i].offer, chunks[i].offset, chunks[i].says,
              chunks[i].is, false);
  assert_int_equal(traffic(&t.b).strays, n_chunks);
  assert_int_equal(w.base.came, 0);
  assert_int_equal(w.base.ahead, 0);
  static const uint64_t pulls[][2] = {
      {1, TD_CHUNK},          {BYTES, 1},
      {0, TD_WINDOW + 1},     {LAST, TD_CHUNK},
      {TD_CHUNK, UINT64_MAX}, {(uint64_t)-TD_CHUNK, 2 * TD_CHUNK},
  };
  size_t n_pulls = sizeof pulls / sizeof *pulls;
  for (size_t i = 0; i < n_pulls; i++)
    say_chunk(&t, n, pulls[i][0], pulls[i][1], 0, true);
  assert_int_equal(traffic(&t.a).strays, n_pulls);
  assert_int_equal(of_lane(&t.b.line, TD_LANE_DATA), 0);
  /* Of an offer that is none: told so, and to a peer whom it was not made. */
  say_chunk(&t, n + 5, 0, TD_CHUNK, 0, true);
  assert_int_equal(of_lane(&t.b.line, TD_LANE_CONTROL), 1);
  uint64_t strange[2] = {n + 9, 0};
  Td__Remote__Handles drop = TD__REMOTE__HANDLES__INIT;
  drop.n_handle = 2;
  drop.handle = strange;
  td_remote_enter(t.a.remote);
  td_transfer_dropped(t.a.peer, &drop);
  td_remote_leave(t.a.remote);
  td_remote_enter(t.b.remote);
  td_transfer_dropped(t.b.peer, &drop);
  drop.n_handle = 1;
  drop.handle = &n;
  td_transfer_dropped(t.b.peer, &drop); /* it is b's own to end, not a's */
  td_transfer_gone(t.b.peer, &(Td__Remote__Handles){.n_handle = 0});
  td_remote_leave(t.b.remote);
  /* The same offer twice: the second is told that it comes already. */
  Td__Remote__Value again = TD__REMOTE__VALUE__INIT;
  int64_t dim = BYTES / 4;
  again.dtype = TD_FLOAT32;
  again.n_dim = 1;
  again.dim = &dim;
  again.bytes = BYTES;
  again.offer = n;
  td_message m = {0};
  none.base.got = got;
  td_remote_enter(t.b.remote);
  assert_false(td_transfer_in(t.b.peer, &again, &m, &none.base));
  again.bytes = BYTES - 4;
  assert_false(td_transfer_in(t.b.peer, &again, &m, &none.base));
  again.dtype = TD_INT32, again.bytes = BYTES, again.narrow = true;
  assert_false(td_transfer_in(t.b.peer, &again, &m, &none.base));
  td_remote_leave(t.b.remote);
  assert_true(none.times == 3 && none.failed == 3 && none.derived == 1);
  settle(&t);
  assert_true(w.times == 1 && td_tensor_same(&value, &w.value));
  /* And after its end. */
  say_chunk(&t, n, 0, TD_CHUNK, TD_CHUNK, false);
  td_tensor_release(&w.value);
  td_tensor_release(&value);
  check_clean(&t);
  ends_deinit(&t);
}

/* A place that is none: chunks do. */
static void test_no_segment(void **state) {
  ends t;
  td_tensor value = numbers(100000);
  static const char *const names[] = {"x", "tide-1-1@1/1",
                                      "tide-0000000000000001-1@99999999/9999"};
  (void)state;
  ends_init(&t, "");
  for (int i = 0; i < 3; i++) {
    wanted w = {.base = {.later = true}};
    assert_true(tell(&t, &value, false, &w));
    td_free(w.base.segment);
    w.base.segment = td_strdup(names[i]);
    td_remote_enter(t.b.remote);
    td_transfer_go(&w.base);
    td_remote_leave(t.b.remote);
    settle(&t);
    assert_true(w.times == 1 && td_tensor_same(&value, &w.value));
    td_tensor_release(&w.value);
  }
  assert_int_equal(traffic(&t.b).unshared, 3);
  assert_int_equal(traffic(&t.b).pulled, 3);
  check_clean(&t);
  td_tensor_release(&value);
  ends_deinit(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ways),         cmocka_unit_test(test_dead_and_text),
      cmocka_unit_test(test_slow_link),    cmocka_unit_test(test_narrow),
      cmocka_unit_test(test_any_order),    cmocka_unit_test(test_line),
      cmocka_unit_test(test_full_channel), cmocka_unit_test(test_later),
      cmocka_unit_test(test_death),        cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_no_segment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
