/* peer_bundle.c - tests of messages that come as one (engine/remote/
 * peer_bundle.c, remote.c), over a channel that is none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/remote_impl.h"
#include "tests/engine/run/rig.h"

/* Links end with the call, as those of any channel may. */
typedef struct mute {
  td_channel base; /* first */
  int hung_up;
} mute;

static td_status *mute_send(td_link *l, td_lane lane, td_raw *frames, int n) {
  (void)l;
  (void)lane;
  for (int i = 0; i < n; i++) td_raw_release(&frames[i]);
  return NULL;
}
static void mute_hang_up(td_link *l) {
  ((mute *)l->of)->hung_up++;
  free(l);
}
static const char *mute_address(const td_channel *c, td_lane lane) {
  (void)c;
  (void)lane;
  return NULL;
}
static bool mute_drain(td_channel *c, int most) {
  (void)c;
  (void)most;
  return false;
}
static void mute_free(td_channel *c) {
  (void)c;
}
static const td_channel_ops ops = {.send = mute_send,
                                   .hang_up = mute_hang_up,
                                   .address = mute_address,
                                   .drain = mute_drain,
                                   .free = mute_free};

static td_link *met(mute *c) {
  td_link *l = calloc(1, sizeof *l);
  assert_non_null(l);
  l->of = &c->base;
  return l;
}

/* Each head is all there is of its message. */
static void pack(td_head *head, uint64_t to, td_raw *out) {
  head->version = TD_WIRE_VERSION;
  head->from = 77;
  head->to = to;
  head->own = 1;
  OK(td_wire_pack(head, out));
}

static void say(td_remote *r, td_link *l, td_raw *frames, int n) {
  const td_channel_events *e = &r->channel->events;
  td_remote_enter(r);
  e->message(e->arg, l, TD_LANE_CONTROL, frames, n);
  td_remote_leave(r);
}

static void begin(rig *g, mute *c, td_remote **r) {
  rig_init(g);
  *c = (mute){.base.ops = &ops};
  OK(td_remote_new(
      &(td_remote_options){.runtime = g->runtime, .channel = &c->base}, r));
}

static void end(rig *g, td_remote *r) {
  td_remote_close(r);
  td_remote_release(r);
  rig_deinit(g);
}

/* A link that does not begin with a HELLO ends at the first of three. */
static void test_no_hello(void **state) {
  rig g;
  mute c;
  td_remote *r;
  td_raw frames[3];
  Td__Remote__Ping ping = TD__REMOTE__PING__INIT;
  (void)state;
  begin(&g, &c, &r);
  for (int i = 0; i < 3; i++) {
    td_head head;
    td_head_init(&head, NULL);
    head.body_case = TD__REMOTE__MESSAGE__BODY_PING;
    head.ping = &ping;
    pack(&head, td_remote_incarnation(r), &frames[i]);
  }
  say(r, met(&c), frames, 3);
  assert_int_equal(c.hung_up, 1);
  assert_int_equal(r->peers.len, 0);
  end(&g, r);
}

/* And a peer that says goodbye in the middle of what it says is heard no more.
 */
static void test_goodbye(void **state) {
  rig g;
  mute c;
  td_remote *r;
  td_raw frames[3];
  Td__Remote__Hello hello = TD__REMOTE__HELLO__INIT;
  Td__Remote__Text text = TD__REMOTE__TEXT__INIT;
  (void)state;
  begin(&g, &c, &r);
  for (int i = 0; i < 3; i++) {
    td_head head;
    td_head_init(&head, NULL);
    head.body_case =
        i ? TD__REMOTE__MESSAGE__BODY_BYE : TD__REMOTE__MESSAGE__BODY_HELLO;
    if (i)
      head.bye = &text;
    else
      head.hello = &hello;
    hello.proto_min = hello.proto_max = TD_WIRE_VERSION;
    pack(&head, i ? td_remote_incarnation(r) : 0, &frames[i]);
  }
  say(r, met(&c), frames, 3);
  assert_int_equal(c.hung_up, 1);
  end(&g, r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_hello),
      cmocka_unit_test(test_goodbye),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
