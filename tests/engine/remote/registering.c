/* registering.c - tests of engine/remote: what it takes to tell a worker of
 * 36,000 nodes, and to tell it again.
 *
 * What comes from the worker is counted by its kind: each NEED, and each answer
 * that something else waits for, is a way there and back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/remote_impl.h"
#include "pair.h"

enum { NODES = 36000, AGAIN_MOST = 3 };

static struct {
  td_channel_events to;
  int needs, answers;
  struct {
    int what;
    uint64_t id;
  } answer[16]; /* what is asked again on silence is answered again */
} heard;        /* the turn's */

static void note(int what, uint64_t id) {
  for (int i = 0; i < heard.answers; i++)
    if (heard.answer[i].what == what && heard.answer[i].id == id) return;
  assert_in_range(heard.answers, 0, 15);
  heard.answer[heard.answers].what = what;
  heard.answer[heard.answers++].id = id;
}

static void count(const td_raw *head) {
  td_head *h =
      td__remote__message__unpack(NULL, head->len, (const uint8_t *)head->at);
  assert_non_null(h);
  if (h->body_case == TD__REMOTE__MESSAGE__BODY_NEED) heard.needs++;
  if (h->body_case == TD__REMOTE__MESSAGE__BODY_OPENED ||
      h->body_case == TD__REMOTE__MESSAGE__BODY_REGISTERED)
    note((int)h->body_case, h->opened->id);
  if (h->body_case == TD__REMOTE__MESSAGE__BODY_DONE)
    note((int)h->body_case, h->done->step);
  td__remote__message__free_unpacked(h, NULL);
}

static void on_message(void *arg, td_link *l, td_lane lane, td_raw *frames,
                       int n) {
  count(&frames[0]);
  heard.to.message(arg, l, lane, frames, n);
}

static void listen_in(td_remote *r) {
  td_remote_enter(r);
  heard.to = r->channel->events;
  r->channel->events.message = on_message;
  td_remote_leave(r);
}

static void listen_no_more(td_remote *r) {
  td_remote_enter(r);
  r->channel->events = heard.to;
  td_remote_leave(r);
}

static td_edge make_chain(cluster *c) {
  char name[32];
  td_edge last = make_const(&c->r, TD_FLOAT32, 3, NULL);
  for (int i = 0; i < NODES; i++) {
    snprintf(name, sizeof name, "n%d", i);
    last = far_node(c, 0, "Neg", name, &last, 1);
  }
  return last;
}

static void run(td_session *s, td_edge fetch) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor value;
  OK(td_session_run(s, &sig, NULL, &value, NULL));
  assert_true(td_tensor_get_f(&value, 0) == 3);
  td_tensor_release(&value);
}

/* Another session of the same graph: by hash. */
static void test_again(void **state) {
  cluster c;
  td_session *s;
  td_member *m;
  (void)state;
  cluster_init(&c, 1);
  td_session_options o = {.threads = 2, .passes_off = ~0u};
  c.s->options.passes_off = ~0u;
  td_edge last = make_chain(&c);
  listen_in(c.remote);
  run(c.s, last);
  td_remote_enter(c.remote);
  assert_true(heard.needs > 0);
  heard.needs = heard.answers = 0;
  td_remote_leave(c.remote);
  OK(td_session_new(c.r.runtime, c.r.graph, &o, &s));
  OK(td_remote_attach(c.remote, s,
                      &(td_attach_options){.to.control = c.worker[0].address},
                      &m));
  run(s, last);
  listen_no_more(c.remote);
  assert_int_equal(heard.needs, 0);
  assert_in_range(heard.answers, 1, AGAIN_MOST);
  td_session_close(s);
  td_session_release(s);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
