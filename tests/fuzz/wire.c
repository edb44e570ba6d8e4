/* wire.c - libFuzzer: nothing that peers say, in any order, may break a worker
 * or a master, or leave anything behind when it has ended.
 *
 * The first byte chooses: a worker that serves and keeps sessions, a client
 * with a step to run on a worker or with its session there, or bytes that are
 * read as one message. What the others say is made of the rest (wire_talk.h)
 * and comes through a channel that has nobody at its other ends. The engine is
 * the real one, on the simulator's one thread and clock: pool tasks run to
 * their end between messages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/device.h"
#include "engine/graph/build.h"
#include "engine/graphdef/graphdef_impl.h"
#include "engine/remote/far_session.h"
#include "engine/remote/remote_impl.h"
#include "engine/run/session.h"
#include "tests/fuzz/wire_talk.h"
#include "tests/sim/base/sim.h"

/* Some kept loops would go on for ever: so many events between two messages. */
enum { LINKS = 4, MESSAGES = 200, EVENTS = 1000 };
static const int64_t ms = 1000000, second = 1000000000;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(td_status *s) {
  if (td_ok(s)) return;
  fprintf(stderr, "%s\n", td_status_message(s));
  __builtin_trap();
}

/* ---- a channel without other ends ---------------------------------------- */

typedef struct fake {
  td_channel base;
  td_link *link[LINKS];
  talk talk;
  td_remote *remote;
  int queued[8], n_queued; /* kinds of messages that an honest peer says next */
  int said;
  bool ready;    /* one message may come */
  int64_t pause; /* ns that are to pass before the next */
} fake;

static td_status *fake_dial(td_channel *c, const td_dial *to, td_link **out) {
  fake *f = (fake *)c;
  (void)to;
  td_link *l = td_calloc(1, sizeof *l);
  if (!l) return td_oom();
  *l = (td_link){.of = c, .dialled = true};
  if (!f->link[0]) f->link[0] = l;
  *out = l;
  return NULL;
}

static td_status *fake_dial_data(td_link *l, const char *address) {
  (void)l, (void)address;
  return NULL;
}

static void fake_hang_up(td_link *l) {
  fake *f = (fake *)l->of;
  for (int i = 0; i < LINKS; i++)
    if (f->link[i] == l) f->link[i] = NULL;
  td_free(l);
}

static void be_honest(fake *f, int what) {
  if (f->n_queued < 8) f->queued[f->n_queued++] = what;
}

/* Graphs and what is told of loops come out of the input. */
static bool is_short(const Td__Remote__KeepAsk *q) {
  return q->what != TD__REMOTE__KEEP_ASK__WHAT__GRAPH &&
         q->what != TD__REMOTE__KEEP_ASK__WHAT__LOOP_STATE &&
         q->what != TD__REMOTE__KEEP_ASK__WHAT__LOOP_LOG;
}

/* What it heard is remembered, and a client's handshake is answered. */
static td_status *fake_send(td_link *l, td_lane lane, td_raw *frames, int n) {
  fake *f = (fake *)l->of;
  td_arena a;
  td_head *h;
  (void)lane;
  td_arena_init(&a);
  must(td_graphdef_unpack(&td__remote__message__descriptor, &a, frames[0].at,
                          frames[0].len, &h));
  talk_hear(&f->talk, h);
  if (h->body_case == TD__REMOTE__MESSAGE__BODY_HELLO)
    be_honest(f, TD__REMOTE__MESSAGE__BODY_WELCOME);
  if (h->body_case == TD__REMOTE__MESSAGE__BODY_OPEN ||
      h->body_case == TD__REMOTE__MESSAGE__BODY_KEEP)
    be_honest(f, TD__REMOTE__MESSAGE__BODY_OPENED);
  if (h->body_case == TD__REMOTE__MESSAGE__BODY_KEEP_ASK &&
      is_short(h->keep_ask))
    be_honest(f, TD__REMOTE__MESSAGE__BODY_KEEP_ANSWER);
  td_arena_deinit(&a);
  for (int i = 0; i < n; i++) td_raw_release(&frames[i]);
  return NULL;
}

static const char *fake_address(const td_channel *c, td_lane lane) {
  (void)c;
  return lane == TD_LANE_CONTROL ? "fake://here" : "fake://here/data";
}

static td_link *choose(fake *f, int i) {
  if (f->link[i]) return f->link[i];
  td_link *l = td_calloc(1, sizeof *l);
  if (!l) abort();
  *l = (td_link){.of = &f->base};
  return f->link[i] = l;
}

static void say(fake *f, td_link *l, int what, td_lane lane) {
  td_raw frames[TALK_FRAMES + 1];
  int n = talk_say(&f->talk, what, frames);
  f->base.events.message(f->base.events.arg, l, lane, frames, n);
}

/* What an honest peer says does not come out of the input. */
static void say_honest(fake *f) {
  static const uint8_t plain[64];
  const uint8_t *at = f->talk.at, *end = f->talk.end;
  int what = f->queued[0];
  memmove(f->queued, f->queued + 1, sizeof f->queued - sizeof *f->queued);
  f->n_queued--;
  if (!f->link[0]) return;
  f->talk.at = plain;
  f->talk.end = plain + sizeof plain;
  static const uint8_t welcome[] = {0, 0x10, 4, 0, 0, 1, 1};
  static const uint8_t opened[] = {0, 1, 1};
  if (what == TD__REMOTE__MESSAGE__BODY_WELCOME)
    f->talk.at = welcome, f->talk.end = welcome + sizeof welcome;
  else if (what == TD__REMOTE__MESSAGE__BODY_OPENED)
    f->talk.at = opened, f->talk.end = opened + sizeof opened;
  say(f, f->link[0], what, TD_LANE_CONTROL);
  f->talk.at = at;
  f->talk.end = end;
}

static bool fake_drain(td_channel *c, int most) {
  fake *f = (fake *)c;
  (void)most;
  if (f->n_queued) {
    say_honest(f);
    return true;
  }
  if (!f->ready || f->pause || f->talk.at >= f->talk.end || f->said >= MESSAGES)
    return false;
  int how = talk_byte(&f->talk);
  f->ready = false;
  if (how >= 0xf0) {
    f->pause = (how & 15) * 300 * ms + ms;
    return false;
  }
  f->said++;
  int i = how & 0x40 ? how >> 2 & 3 : 0;
  f->talk.from = 1000 + (uint64_t)i;
  td_link *l = choose(f, i);
  bool first = !l->owner && !l->dialled;
  if (how & 0x80 && how & 0x20 && l->owner) {
    f->base.events.trouble(f->base.events.arg, l, (td_trouble)(how % 5));
    return true;
  }
  say(f, l, first && !(how & 2) ? TD__REMOTE__MESSAGE__BODY_HELLO : 0,
      how & 1 ? TD_LANE_DATA : TD_LANE_CONTROL);
  return true;
}

static void fake_wait(td_channel *c, int64_t until) {
  fake *f = (fake *)c;
  bool more = f->talk.at < f->talk.end && f->said < MESSAGES;
  if (f->pause)
    until = sim_now() + f->pause;
  else if (f->n_queued || more)
    until = sim_now();
  f->pause = 0;
  for (int i = 0; i < EVENTS && (sim_waiting() || sim_now() < until); i++)
    sim_step(until);
  f->ready = true;
}

static void fake_wake(td_channel *c) {
  (void)c;
}

static void fake_free(td_channel *c) {
  fake *f = (fake *)c;
  for (int i = 0; i < LINKS; i++) td_free(f->link[i]);
  talk_deinit(&f->talk);
  td_free(f);
}

static const td_channel_ops fake_ops = {
    .dial = fake_dial,
    .dial_data = fake_dial_data,
    .send = fake_send,
    .hang_up = fake_hang_up,
    .address = fake_address,
    .drain = fake_drain,
    .wait = fake_wait,
    .wake = fake_wake,
    .free = fake_free,
};

static fake *fake_new(const uint8_t *data, size_t size) {
  fake *f = td_calloc(1, sizeof *f);
  if (!f) abort();
  f->base.ops = &fake_ops;
  f->talk.at = data;
  f->talk.end = data + size;
  f->talk.from = 1000;
  return f;
}

/* ---- a worker ------------------------------------------------------------ */

static void settle(void) {
  while (sim_waiting()) sim_step(0);
}

static void end_remote(td_remote *r) {
  td_remote_close(r);
  settle();
  if (r->refs != 1) {
    fprintf(stderr, "%d shares of a closed remote are left\n", r->refs);
    __builtin_trap();
  }
  td_remote_release(r);
}

static void be_worker(const uint8_t *data, size_t size, bool keeps) {
  td_runtime *rt;
  td_remote *r;
  td_device *d;
  fake *f = fake_new(data, size);
  const char *place = "/job:worker/replica:0/task:0";
  must(td_runtime_new(
      &(td_runtime_options){.place = place, .memory_limit = 64 << 20}, &rt));
  must(td_runtime_cpu(rt, 0, &d));
  f->talk.device = d->incarnation;
  f->talk.keeps = keeps;
  must(td_remote_new(
      &(td_remote_options){
          .runtime = rt, .channel = &f->base, .serve = true, .threads = 2},
      &r));
  f->talk.to = r->incarnation;
  f->talk.session[1] = 1;
  while (f->talk.at < f->talk.end && f->said < MESSAGES) {
    fake_wait(&f->base, sim_now());
    td_remote_turn(r);
  }
  end_remote(r);
  td_runtime_release(rt);
}

/* ---- a client ------------------------------------------------------------ */

static td_edge node(td_graph *g, const char *op, const char *device,
                    const td_edge *in, int n) {
  td_build b;
  td_node *out;
  td_build_init(&b, g, op, NULL);
  td_build_flat(&b, in, n);
  if (device) b.device = device;
  must(td_build_node(&b, &out));
  return (td_edge){out, 0};
}

static td_edge constant(td_graph *g) {
  td_build b;
  td_node *out;
  td_tensor t;
  td_shape shape = td_shape_of(0, NULL);
  must(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  *(float *)t.data = 2;
  td_build_init(&b, g, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "value", td_attr_tensor(&t));
  must(td_build_node(&b, &out));
  td_tensor_release(&t);
  return (td_edge){out, 0};
}

/* Two here, doubled there, doubled here, once more there. */
static td_edge step_graph(td_graph *g) {
  static const char *there = "/job:worker/task:3/device:CPU:0",
                    *here = "/job:localhost/task:0/device:CPU:0";
  td_edge two = constant(g);
  td_edge a = node(g, "AddV2", there, (td_edge[]){two, two}, 2);
  td_edge b = node(g, "AddV2", here, (td_edge[]){a, two}, 2);
  return node(g, "AddV2", there, (td_edge[]){b, a}, 2);
}

static td_status *run_some(td_session *s, const td_signature *sig) {
  td_step_options how = {.timeout = second};
  td_tensor value = {0};
  td_status *st = NULL;
  for (int i = 0; td_ok(st) && i < 3; i++) {
    st = td_session_run(s, sig, NULL, &value, &how);
    td_tensor_release(&value);
  }
  return st;
}

static td_status *run_attached(td_remote *r, td_session *s, td_graph *g) {
  td_member *m;
  td_attach_options o = {.to = {.control = "fake://peer"}, .timeout = second};
  TD_TRY(td_remote_attach(r, s, &o, &m));
  td_edge fetch = step_graph(g);
  return run_some(s, &(td_signature){.fetches = &fetch, .n_fetches = 1});
}

/* A loop there, looked at. */
static td_status *loop_far(td_far_session *f, td_callable *c) {
  td_far_loop *l;
  td_far_loop_now now;
  td_far_loop_kept kept;
  static const int heard = 1; /* who waits does not wait long */
  td_loop_options how = {.steps = 3};
  TD_TRY(td_far_loop_start(f, c, &how, NULL, &l));
  td_status *st = td_far_loop_look(l, NULL, &now);
  if (td_ok(st)) td_status_release(now.error);
  if (td_ok(st)) st = td_far_loop_log(l, NULL, &kept);
  if (td_ok(st)) td_far_loop_kept_deinit(&kept);
  if (td_ok(st)) st = td_far_loop_wait(l, 0, &heard);
  td_far_loop_release(l);
  return st;
}

static td_status *run_far(td_remote *r, td_session *s, td_graph *g, bool join) {
  td_far_options o = {.name = "kept", .join = join};
  td_callable *c;
  td_str text = {0};
  o.at =
      (td_attach_options){.to = {.control = "fake://peer"}, .timeout = second};
  TD_TRY(td_far_open(r, s, g, &o));
  td_far_session *f = td_far_session_of(s);
  for (int what = TD_FAR_WHY; what < TD_FAR_ATTACH; what++) {
    td_far_question q = {.what = (td_far_what)what};
    td_status_release(td_far_ask(f, &q, &text));
  }
  td_str_deinit(&text);
  td_edge fetch = step_graph(g);
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_status *st = run_some(s, &sig);
  if (td_ok(st)) st = td_callable_new(s, &sig, &c);
  TD_TRY(st);
  st = loop_far(f, c);
  td_callable_release(c);
  return st;
}

static void be_client(const uint8_t *data, size_t size, int how) {
  td_runtime *rt;
  td_remote *r;
  td_graph *g;
  td_session *s;
  fake *f = fake_new(data, size);
  must(td_runtime_new(NULL, &rt));
  must(td_remote_new(&(td_remote_options){.runtime = rt, .channel = &f->base},
                     &r));
  must(td_graph_new(&g));
  must(td_session_new(rt, g, &(td_session_options){.threads = 2}, &s));
  td_status_release(how & 4 ? run_far(r, s, g, (how & 8) != 0)
                            : run_attached(r, s, g));
  td_session_close(s);
  td_session_release(s);
  td_graph_release(g);
  end_remote(r);
  td_runtime_release(rt);
}

/* ---- bytes --------------------------------------------------------------- */

static td_status *read_value(const Td__Remote__Value *v, const td_raw *f) {
  td_tensor t;
  TD_TRY(td_wire_value_read(v, &t));
  td_status *s = v->dead || v->bytes != f->len
                     ? NULL
                     : td_wire_value_room(&t, v->bytes, NULL);
  if (td_ok(s) && t.data && !v->narrow && f->len) {
    memcpy(t.data, f->at, f->len);
    if (t.dtype == TD_STRING) s = td_tensor_strings_check(&t);
  }
  td_tensor_release(&t);
  return s;
}

static void be_reader(const uint8_t *data, size_t size) {
  td_raw frames[2];
  td_message m;
  size_t first = size ? (size_t)data[0] * size / 256 : 0;
  must(td_raw_copy(data, first, &frames[0]));
  must(td_raw_copy(data + first, size - first, &frames[1]));
  td_status *s = td_wire_read(frames, 2, &m);
  if (td_ok(s)) {
    if (m.n > 0 && m.head->body_case == TD__REMOTE__MESSAGE__BODY_TENSOR &&
        m.head->tensor->value)
      s = read_value(m.head->tensor->value, &m.frames[0]);
    if (m.next < 2) td_raw_release(&frames[1]);
    td_message_deinit(&m);
  }
  td_status_release(s);
}

/* ---- libFuzzer ----------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  setenv("TIDE_MEMORY_LIMIT", "268435456", 1);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  sim_begin(1, true);
  switch (data[0] % 4) {
  case 0:
    be_reader(data + 1, size - 1);
    break;
  case 1:
    be_client(data + 1, size - 1, data[0]);
    break;
  default:
    be_worker(data + 1, size - 1, (data[0] & 4) != 0);
    break;
  }
  settle();
  return 0;
}
