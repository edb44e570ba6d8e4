/* queue_stress.c - queues under many threads, and what they then did looked at.
 *
 * In each round up to eight producers and eight consumers meet at a small queue
 * of a drawn kind. They put and take one, many, up to many, lose patience and
 * cancel, until the queue is closed in a drawn way. Every element has a number
 * of its own, every operation is noted with when it began and ended. Then:
 * nothing is lost and nothing comes twice; no FIFO queue turned around two
 * elements of which one was in before the other came, no priority queue gave
 * one while a smaller one was there; never was there more than fits; errors
 * came only to who was cancelled or came too late.
 *
 * At no moment does anybody wait who could go on.
 *
 * TIDE_SECONDS says for how long (20, or 600 in make soak), and TIDE_HISTORY
 * names a file for what short rounds did, for tests/lua/shared/queue_model.lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/clock.h"
#include "tests/kernels/net.h"
#include "tests/kernels/queues.h"

enum { THREADS = 8, MOST = 6, OPERATIONS = 4096, STUCK = 30 /* seconds */ };
enum { SHORT = 300 /* elements of a round that is written */ };

static const char *const kinds[] = {"FIFOQueueV2", "PaddingFIFOQueueV2",
                                    "RandomShuffleQueueV2", "PriorityQueueV2"};

typedef enum way { CLOSED, CANCELLED, FAILED, WAYS } way;
typedef enum act { PUT, PUT_MANY, TAKE, MANY, UP_TO, END, ACTS } act;

/* What somebody did. */
typedef struct operation {
  act act;
  int thread;
  bool stopped; /* its step was cancelled */
  int64_t begin, end;
  td_code code;
  int n;
  int gone; /* taken by a batch that nobody reads */
  int64_t id[MOST];
} operation;

typedef struct round {
  net w;
  int kind;
  queue_spec spec;
  way way;
  int producers, consumers, quota;
  bool patient; /* no consumer gives back: none cancels, or asks for all or
                   nothing */
  td_kernel kernel[ACTS];
  td_tensor handle;
  int64_t clock; /* atomic: counts beginnings and ends */
} round;

typedef struct worker {
  round *round;
  int number;
  uint64_t random;
  pthread_t thread;
  operation *did;
  int n;
} worker;

static int64_t tick(round *r) {
  return __atomic_fetch_add(&r->clock, 1, __ATOMIC_SEQ_CST);
}

static int below(uint64_t *random, int n) {
  return (int)(draw(random) % (uint64_t)n);
}

/* ---- one operation ------------------------------------------------------- */

typedef struct call {
  net_wait wait;
  td_cancel *cancel;
  td_step step;
  td_kernel_ctx ctx;
  td_tensor in[3], out[1];
} call;

/* False when it is not over after so many microseconds. */
static bool is_over(call *c, int64_t us) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t ns = t.tv_nsec + us * 1000;
  t.tv_sec += ns / 1000000000;
  t.tv_nsec = ns % 1000000000;
  int error = 0;
  pthread_mutex_lock(&c->wait.mutex);
  while (!c->wait.over && error != ETIMEDOUT)
    error = pthread_cond_timedwait(&c->wait.cond, &c->wait.mutex, &t);
  bool over = c->wait.over;
  pthread_mutex_unlock(&c->wait.mutex);
  return over;
}

static td_tensor of_ids(const operation *o) {
  td_tensor t;
  td_shape shape = o->act == PUT ? td_shape_scalar() : td_shape_vector(o->n);
  OK(td_tensor_from(TD_INT64, &shape, o->id, &t));
  return t;
}

static void fill_inputs(call *c, const round *r, const operation *o) {
  td_tensor_retain(&r->handle, &c->in[0]);
  if (o->act == PUT || o->act == PUT_MANY) c->in[1] = of_ids(o);
  if (o->act == MANY || o->act == UP_TO)
    OK(td_tensor_scalar_i(TD_INT32, o->n, &c->in[1]));
  if (o->act == END && r->way == FAILED) {
    const char *why = "no more";
    size_t len = strlen(why);
    td_shape scalar = td_shape_scalar();
    OK(td_tensor_scalar_i(TD_INT32, TD_DATA_LOSS, &c->in[1]));
    OK(td_tensor_strings(&scalar, &why, &len, &c->in[2]));
  }
}

/* What it took, if it did. The batch of a step that was cancelled meanwhile is
 * perhaps not filled in: its elements are gone with the step. */
static void read_output(call *c, operation *o) {
  const td_tensor *t = &c->out[0];
  bool takes = o->act == TAKE || o->act == MANY || o->act == UP_TO;
  if (!takes) return;
  o->n = o->code == TD_OK ? (int)td_tensor_count(t) : 0;
  if (o->stopped && o->act != TAKE) {
    o->gone = o->n;
    o->n = 0;
  }
  for (int i = 0; i < o->n; i++) o->id[i] = td_tensor_get_i(t, i);
}

/* `patience` in microseconds; -1: no end of it. */
static void operate(round *r, operation *o, int patience) {
  const td_kernel *k = &r->kernel[o->act];
  call c = {.wait = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                     .cond = PTHREAD_COND_INITIALIZER},
            .step = r->w.step};
  OK(td_cancel_new(&c.cancel));
  c.step.cancel = c.cancel;
  c.step.stop = td_cancel_flag(c.cancel);
  fill_inputs(&c, r, o);
  c.ctx = (td_kernel_ctx){.kernel = k,
                          .step = &c.step,
                          .in = c.in,
                          .out = c.out,
                          .n_in = k->node->n_in,
                          .n_out = k->node->n_out,
                          .done = net_done,
                          .owner = &c.wait};
  o->begin = tick(r);
  td_kernel_start(&c.ctx);
  if (patience >= 0 && !is_over(&c, patience)) {
    o->stopped = true;
    td_cancel_fire(c.cancel, NULL);
    td_kernel_cancel(&c.ctx);
  }
  if (!is_over(&c, STUCK * (int64_t)1000000)) {
    print_error("thread %d is stuck in act %d of %s\n", o->thread, o->act,
                r->spec.op);
    abort();
  }
  o->end = tick(r);
  o->code = td_status_code(c.wait.status);
  read_output(&c, o);
  td_status_release(c.wait.status);
  for (int i = 0; i < 3; i++) td_tensor_release(&c.in[i]);
  td_tensor_release(&c.out[0]);
  td_cancel_release(c.cancel);
}

/* ---- threads ------------------------------------------------------------- */

static operation *next_operation(worker *w, act a, int n) {
  assert_true(w->n < OPERATIONS);
  operation *o = &w->did[w->n++];
  *o = (operation){.act = a, .thread = w->number, .n = n};
  return o;
}

static void *produce(void *arg) {
  worker *w = arg;
  round *r = w->round;
  for (int made = 0; made < r->quota;) {
    bool many = below(&w->random, 2);
    operation *o = next_operation(w, many ? PUT_MANY : PUT,
                                  many ? 1 + below(&w->random, MOST) : 1);
    /* a smaller rank may come after a greater one */
    for (int i = 0; i < o->n; i++)
      o->id[i] =
          (int64_t)(draw(&w->random) >> 40) << 32 | w->number << 16 | made++;
    operate(r, o, below(&w->random, 4) ? -1 : below(&w->random, 300));
    if (o->code != TD_OK && !o->stopped) break;
  }
  return NULL;
}

static void *consume(void *arg) {
  worker *w = arg;
  round *r = w->round;
  for (bool over = false; !over && w->n < OPERATIONS;) {
    act a = (act)(TAKE + below(&w->random, 3));
    if (r->patient && a == MANY) a = TAKE;
    bool waits = r->patient || below(&w->random, 4);
    operation *o =
        next_operation(w, a, a == TAKE ? 1 : 1 + below(&w->random, MOST));
    operate(r, o, waits ? -1 : below(&w->random, 300));
    over = o->code != TD_OK && a != MANY && !o->stopped;
  }
  return NULL;
}

static void look(const round *r) {
  td_queue *q = (td_queue *)td_tensor_get_object(&r->handle);
  if (queue_forgot(q))
    fail_msg("%s: somebody waits who could go on", r->spec.op);
}

static void nap(uint64_t *random, int us) {
  struct timespec t = {.tv_nsec = below(random, us) * 1000L};
  nanosleep(&t, NULL);
}

/* ---- a round ------------------------------------------------------------- */

static void make_kernels(round *r) {
  td_graph *g = r->w.graph;
  td_dtype type = TD_INT64;
  td_tensor t;
  td_edge q, e[ACTS];
  OK(queue_node(g, &r->spec, &q));
  OK(net_run(&r->w, q, &r->handle));
  td_edge id = net_feed(&r->w, scalar_f(TD_INT64, 0));
  td_edge n = net_feed(&r->w, scalar_f(TD_INT32, 0));
  OK(enqueue_node(g, false, q, &id, 1, &e[PUT]));
  OK(enqueue_node(g, true, q, &id, 1, &e[PUT_MANY]));
  OK(dequeue_node(g, q, NULL, false, &type, 1, &e[TAKE]));
  OK(dequeue_node(g, q, &n, false, &type, 1, &e[MANY]));
  OK(dequeue_node(g, q, &n, true, &type, 1, &e[UP_TO]));
  OK(close_node(g, q, r->way == CANCELLED, &e[END]));
  if (r->way == FAILED) {
    td_shape scalar = td_shape_scalar();
    OK(td_tensor_strings(&scalar, (const char *const[]){""}, (size_t[]){0},
                         &t));
    td_edge in[] = {q, n, net_feed(&r->w, t)};
    e[END] = net_node(&r->w, "QueueFail", in, 3, NULL, 0);
  }
  for (int i = 0; i < ACTS; i++)
    OK(td_kernel_init(&r->kernel[i], e[i].node, r->w.device, r->w.states));
}

static void draw_round(round *r, int kind, uint64_t *random) {
  static const int capacities[] = {1, 2, 5, -1}, quotas[] = {4, 16, 64};
  *r = (round){.kind = kind};
  r->spec = int_queue(kinds[kind], capacities[below(random, 4)]);
  r->spec.seed = 1;
  r->spec.keep = r->spec.capacity > 1 ? 1 : 0;
  r->way = (way)below(random, WAYS);
  r->producers = 1 + below(random, THREADS);
  r->consumers = 1 + below(random, THREADS);
  r->quota = quotas[below(random, 3)];
  r->patient = below(random, 2);
  net_init(&r->w, 1);
  make_kernels(r);
}

static void end_round(round *r, worker *w) {
  for (int i = 0; i < ACTS; i++) td_kernel_deinit(&r->kernel[i]);
  td_tensor_release(&r->handle);
  net_deinit(&r->w);
  for (int i = 0; i <= r->producers + r->consumers; i++) td_free(w[i].did);
}

/* The last of `w` is the one who closes, this thread. */
static void run_round(round *r, worker *w, uint64_t *random) {
  int n = r->producers + r->consumers;
  for (int i = 0; i <= n; i++) {
    w[i] = (worker){.round = r, .number = i, .random = draw(random)};
    w[i].did = td_calloc(i < n ? OPERATIONS : 1, sizeof(operation));
    assert_non_null(w[i].did);
  }
  for (int i = 0; i < n; i++)
    assert_int_equal(pthread_create(&w[i].thread, NULL,
                                    i < r->producers ? produce : consume,
                                    &w[i]),
                     0);
  for (int i = below(random, 20); i >= 0; i--) {
    nap(random, 300);
    look(r);
  }
  operate(r, next_operation(&w[n], END, 0), -1);
  for (int i = 0; i < n; i++) pthread_join(w[i].thread, NULL);
}

/* ---- what was done ------------------------------------------------------- */

/* An element: when it was put, and taken. */
typedef struct element {
  int64_t id;
  const operation *put, *took;
  int put_at, took_at; /* places within those */
} element;

typedef struct elements {
  element *at;
  int n;
} elements;

static void complain(const round *r, const char *what, const element *a,
                     const element *b) {
  const element *both[] = {a, b};
  for (int i = 0; i < 2; i++) {
    const element *e = both[i];
    if (!e) continue;
    print_error("element %llx", (long long)e->id);
    if (e->put)
      print_error(", put from %d to %d", (int)e->put->begin, (int)e->put->end);
    if (e->took)
      print_error(", taken from %d to %d", (int)e->took->begin,
                  (int)e->took->end);
    print_error("\n");
  }
  fail_msg("%s of capacity %d: %s", r->spec.op, (int)r->spec.capacity, what);
}

static int by_id(const void *a, const void *b) {
  int64_t x = ((const element *)a)->id, y = ((const element *)b)->id;
  return (x > y) - (x < y);
}

static elements put_elements(const round *r, const worker *w) {
  elements all = {.n = 0};
  for (int i = 0; i < r->producers; i++)
    for (int k = 0; k < w[i].n; k++) all.n += w[i].did[k].n;
  all.at = td_calloc((size_t)all.n + 1, sizeof *all.at);
  assert_non_null(all.at);
  element *next = all.at;
  for (int i = 0; i < r->producers; i++)
    for (int k = 0; k < w[i].n; k++)
      for (int m = 0; m < w[i].did[k].n; m++)
        *next++ = (element){
            .id = w[i].did[k].id[m], .put = &w[i].did[k], .put_at = m};
  qsort(all.at, (size_t)all.n, sizeof *all.at, by_id);
  return all;
}

static void match_taken(const round *r, const worker *w, elements *all) {
  for (int i = r->producers; i < r->producers + r->consumers; i++)
    for (int k = 0; k < w[i].n; k++)
      for (int m = 0; m < w[i].did[k].n; m++) {
        element key = {.id = w[i].did[k].id[m], .took = &w[i].did[k]};
        element *e = bsearch(&key, all->at, (size_t)all->n, sizeof key, by_id);
        if (!e) complain(r, "nobody put it", &key, NULL);
        if (e->took) complain(r, "it came twice", e, &key);
        e->took = key.took;
        e->took_at = m;
      }
}

static int count_gone(const round *r, const worker *w) {
  int n = 0;
  for (int i = r->producers; i < r->producers + r->consumers; i++)
    for (int k = 0; k < w[i].n; k++) n += w[i].did[k].gone;
  return n;
}

/* Was it in the queue, of all that an enqueue_many which failed was to put?
 * Those before one that came out were. */
static const element *behind(const elements *all, const element *e) {
  for (int k = 0; k < all->n; k++) {
    const element *x = &all->at[k];
    if (x->took && x->put == e->put && x->put_at > e->put_at) return x;
  }
  return NULL;
}

/* Of an enqueue that failed none comes out, of many perhaps the first few. Each
 * that is missing is one of the `gone`. */
static void check_lost(const round *r, const elements *all, int gone) {
  for (int i = 0; i < all->n; i++) {
    const element *e = &all->at[i];
    bool ok = e->put->code == TD_OK;
    const element *other = ok || e->took ? NULL : behind(all, e);
    if (ok && !e->took && gone-- <= 0) complain(r, "it is lost", e, NULL);
    if (other && gone-- <= 0) complain(r, "one before it is lost", other, e);
    if (!ok && e->took && e->put->act == PUT)
      complain(r, "its enqueue failed", e, NULL);
    if (e->took && e->took->end < e->put->begin)
      complain(r, "it came before it was put", e, NULL);
  }
}

/* What was taken was in by then, however long its enqueue went on; and was not
 * taken before its enqueue began. */
static bool put_before(const element *a, const element *b) {
  return a->put->end < b->put->begin ||
         (a->took && a->took->end < b->put->begin) ||
         (a->put == b->put && a->put_at < b->put_at);
}

static bool took_before(const element *a, const element *b) {
  return a->took->end < b->took->begin || a->took->end < b->put->begin ||
         (a->took == b->took && a->took_at < b->took_at);
}

static void check_fifo(const round *r, const elements *all) {
  for (int i = 0; i < all->n; i++)
    for (int k = 0; k < all->n; k++) {
      const element *a = &all->at[i], *b = &all->at[k];
      if (a->took && b->took && put_before(a, b) && took_before(b, a))
        complain(r, "two were turned around", a, b);
    }
}

/* In order of id, which is their rank. */
static void check_ranks(const round *r, const elements *all) {
  for (int k = 0; k < all->n; k++)
    for (int i = 0; i < k; i++) {
      const element *a = &all->at[i], *b = &all->at[k];
      if (!a->took || !b->took || a->put->code != TD_OK) continue;
      if (a->put->end < b->took->begin && took_before(b, a))
        complain(r, "a smaller one was there", a, b);
    }
}

/* Until it is closed, what was surely put and surely not yet taken fits; who
 * gives back what it took may overfill it. */
static void check_room(const round *r, const elements *all, int64_t closing) {
  int32_t *change = td_calloc((size_t)r->clock + 1, sizeof *change);
  assert_non_null(change);
  for (int i = 0; i < all->n; i++) {
    const element *e = &all->at[i];
    if (e->put->code != TD_OK || !e->took) continue;
    change[e->put->end]++;
    change[e->took->begin < e->put->end ? e->put->end : e->took->begin]--;
  }
  int64_t n = 0;
  for (int64_t t = 0; t < closing; t++)
    if ((n += change[t]) > r->spec.capacity)
      fail_msg("%s: %d elements in room for %d", r->spec.op, (int)n,
               (int)r->spec.capacity);
  td_free(change);
}

static bool is_allowed(const round *r, const operation *o, int64_t closing) {
  td_code late = o->act <= PUT_MANY ? TD_CANCELLED : TD_OUT_OF_RANGE;
  if (r->way == FAILED) late = TD_DATA_LOSS;
  if (o->code == TD_OK || o->act == END) return o->code == TD_OK;
  return (o->code == late && o->end > closing) ||
         (o->code == TD_CANCELLED && o->stopped);
}

static void check_operations(const round *r, const worker *w, int64_t closing) {
  for (int i = 0; i <= r->producers + r->consumers; i++)
    for (int k = 0; k < w[i].n; k++)
      if (!is_allowed(r, &w[i].did[k], closing))
        fail_msg("%s: act %d from %d to %d ended with code %d; closing began "
                 "at %d",
                 r->spec.op, w[i].did[k].act, (int)w[i].did[k].begin,
                 (int)w[i].did[k].end, (int)w[i].did[k].code, (int)closing);
}

static void check_empty(round *r) {
  const td_queue *q = (td_queue *)td_tensor_get_object(&r->handle);
  assert_int_equal(q->count, 0);
  assert_int_equal(q->lent, 0);
  for (int i = 0; i < TD_ATTEMPT_LINES; i++)
    assert_int_equal(q->attempts.waiting[i], 0);
}

static int check_round(round *r, const worker *w) {
  elements all = put_elements(r, w);
  int64_t closing = w[r->producers + r->consumers].did[0].begin;
  match_taken(r, w, &all);
  check_lost(r, &all, count_gone(r, w));
  if (r->kind <= 1) check_fifo(r, &all);
  if (r->kind == 3) check_ranks(r, &all);
  if (r->spec.capacity >= 0 && r->patient) check_room(r, &all, closing);
  check_operations(r, w, closing);
  check_empty(r);
  td_free(all.at);
  return all.n;
}

/* ---- the history --------------------------------------------------------- */

static void write_round(FILE *f, const round *r, const worker *w) {
  static const char *const acts[] = {"put",  "put_many", "take",
                                     "many", "up_to",    "close"};
  fprintf(f, "queue %s %d %d\n", r->spec.op, (int)r->spec.capacity, r->way);
  for (int i = 0; i <= r->producers + r->consumers; i++)
    for (int k = 0; k < w[i].n; k++) {
      const operation *o = &w[i].did[k];
      fprintf(f, "%s %d %lld %lld %d %d %d", acts[o->act], o->thread,
              (long long)o->begin, (long long)o->end, (int)o->code, o->stopped,
              o->gone);
      for (int m = 0; m < o->n; m++) fprintf(f, " %lld", (long long)o->id[m]);
      fprintf(f, "\n");
    }
}

static int64_t duration(void) {
  const char *seconds = getenv("TIDE_SECONDS");
  double s = getenv("TIDE_SOAK") ? 600 : 20;
  return (int64_t)((seconds ? atof(seconds) : s) * 1e9);
}

static void test_stress(void **state) {
  (void)state;
  const char *to = getenv("TIDE_HISTORY");
  int64_t end = td_clock_now() + duration();
  uint64_t random = (uint64_t)td_clock_now();
  FILE *f = to ? fopen(to, "w") : NULL;
  int rounds = 0;
  int64_t total = 0;
  print_message("seed %llu\n", (unsigned long long)random);
  while (td_clock_now() < end) {
    round r;
    worker w[2 * THREADS + 1];
    draw_round(&r, rounds % (int)TD_COUNT(kinds), &random);
    run_round(&r, w, &random);
    int n = 0;
    for (int i = 0; i < r.producers; i++) n += w[i].n;
    if (f && n < SHORT / MOST) write_round(f, &r, w);
    total += check_round(&r, w);
    end_round(&r, w);
    rounds++;
  }
  if (f) fclose(f);
  print_message("%d rounds, %lld elements\n", rounds, (long long)total);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stress)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
