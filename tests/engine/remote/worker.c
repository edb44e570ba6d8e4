/* worker.c - tests of engine/remote/worker.c: a session that was dropped is not
 * begun anew behind its master's back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/master_impl.h"
#include "engine/remote/worker_impl.h"
#include "pair.h"

/* As when nothing was heard of its master for a minute. */
static void drop_session(worker *w) {
  td_remote_enter(w->remote);
  td_worker_tick(w->remote, td_clock_now() + INT64_C(60000000000), true);
  td_remote_leave(w->remote);
}

/* What its master calls the session's place there; 0: there is none. */
static uint64_t place_at(worker *w) {
  td_remote_enter(w->remote);
  uint64_t place = w->remote->hosted.len ? w->remote->hosted.at[0]->place : 0;
  td_remote_leave(w->remote);
  return place;
}

static void attach(cluster *c, int task) {
  td_member *m;
  td_attach_options o = {.to.control = c->worker[task].address};
  worker_start(c, &c->worker[task], task);
  OK(td_remote_attach(c->remote, c->s, &o, &m));
  c->n = task + 1;
}

/* It hears of another worker, and says that it has dropped the session: the
 * master has it again at a place of its own. */
static void test_dropped(void **state) {
  cluster c = {0};
  (void)state;
  cluster_init(&c, 1);
  assert_int_equal(place_at(&c.worker[0]), 1);
  drop_session(&c.worker[0]);
  assert_int_equal(place_at(&c.worker[0]), 0);
  attach(&c, 1);
  uint64_t place = 0;
  for (int64_t until = td_clock_now() + PATIENCE;
       !(place = place_at(&c.worker[0])) && td_clock_now() < until;)
    usleep(1000);
  assert_int_equal(place, 3);
  assert_int_equal(place_at(&c.worker[1]), 2);
  cluster_deinit(&c);
}

/* One of a place that is over goes before the next is opened. */
static void test_begun_anew(void **state) {
  cluster c = {0};
  (void)state;
  cluster_init(&c, 1);
  worker *w = &c.worker[0];
  td_remote_enter(w->remote);
  w->remote->hosted.at[0]->place = 0; /* as if it had been opened before */
  td_remote_leave(w->remote);
  attach(&c, 1);
  for (int64_t until = td_clock_now() + PATIENCE;
       place_at(w) == 0 && td_clock_now() < until;)
    usleep(1000);
  assert_int_equal(place_at(w), 3);
  cluster_deinit(&c);
}

static td_member_state stale(cluster *c, uint64_t count) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  uint64_t which[] = {TD_LANE_CONTROL, count};
  td_remote_enter(c->remote);
  td_member *w = c->remote->masters.at[0]->members.at[0];
  td_head_init(&head, &w->master->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_STALE;
  head.stale = &body;
  body.n_handle = TD_COUNT(which);
  body.handle = which;
  assert_true(td_master_message(w->peer, &(td_message){.head = &head}));
  td_member_state state = w->state;
  td_remote_leave(c->remote);
  return state;
}

/* What answers a message from before it was opened does not end it. */
static void test_old_answers(void **state) {
  cluster c = {0};
  (void)state;
  cluster_init(&c, 1);
  uint64_t before =
      c.remote->masters.at[0]->members.at[0]->before[TD_LANE_CONTROL];
  assert_true(before > 0); /* HELLO */
  assert_int_equal(stale(&c, before), TD_MEMBER_OPEN);
  assert_int_equal(stale(&c, before + 1), TD_MEMBER_ENDED);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dropped),
      cmocka_unit_test(test_begun_anew),
      cmocka_unit_test(test_old_answers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
