/* wire.c - tests of engine/remote/wire: what is read, and what is refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/wire_impl.h"

#include <stdlib.h>

#include "tests/check.h"

/* ---- messages ------------------------------------------------------------ */

static td_raw packed(uint32_t version, size_t text) {
  td_raw f;
  td_head head;
  Td__Remote__Text body = TD__REMOTE__TEXT__INIT;
  char *long_text = td_calloc(text + 1, 1);
  assert_non_null(long_text);
  memset(long_text, 'x', text);
  td__remote__message__init(&head);
  head.version = version;
  head.from = 7;
  head.body_case = TD__REMOTE__MESSAGE__BODY_BYE;
  head.bye = &body;
  body.text = long_text;
  OK(td_wire_pack(&head, &f));
  td_free(long_text);
  return f;
}

static int released;

static void count_release(void *arg) {
  (void)arg;
  released++;
}

static void frames_are_those_after_the_head(void **state) {
  td_message m;
  td_raw f[3] = {packed(TD_WIRE_VERSION, 3),
                 {"abc", 3, count_release, NULL},
                 {"de", 2, count_release, NULL}};
  (void)state;
  released = 0;
  OK(td_wire_read(f, 3, &m));
  assert_int_equal(m.n, 2);
  assert_string_equal(m.head->bye->text, "xxx");
  td_raw got;
  FAILS(td_message_take(&m, 4, &got), TD_INVALID_ARGUMENT,
        "a frame of 3 bytes, where 4 were announced");
  OK(td_message_take(&m, 3, &got));
  assert_memory_equal(got.at, "abc", 3);
  td_raw_release(&got);
  assert_int_equal(released, 1);
  td_message_deinit(&m);
  assert_int_equal(released, 2);
}

/* A head may say how many are its own: the others stay the caller's. */
static void frames_of_the_next_are_left(void **state) {
  td_message m;
  (void)state;
  for (uint32_t own = 1; own <= 4; own++) {
    td_raw f[3] = {
        {0}, {"abc", 3, count_release, NULL}, {"de", 2, count_release, NULL}};
    td_head head;
    td__remote__message__init(&head);
    head.version = TD_WIRE_VERSION;
    head.own = own;
    OK(td_wire_pack(&head, &f[0]));
    released = 0;
    if (own == 4) {
      FAILS(td_wire_read(f, 3, &m), TD_INVALID_ARGUMENT,
            "a message of 4 frames, of which 3 came");
      assert_int_equal(released, 2);
      continue;
    }
    OK(td_wire_read(f, 3, &m));
    assert_int_equal(m.next, (int)own);
    assert_int_equal(m.n, (int)own - 1);
    td_message_deinit(&m);
    assert_int_equal(released, (int)own - 1);
    for (int i = m.next; i < 3; i++) td_raw_release(&f[i]);
  }
}

static void a_frame_may_lack(void **state) {
  td_message m;
  td_raw got, f = packed(TD_WIRE_VERSION, 0);
  (void)state;
  OK(td_wire_read(&f, 1, &m));
  FAILS(td_message_take(&m, 0, &got), TD_INVALID_ARGUMENT, "lacks a frame");
  td_message_deinit(&m);
}

static void other_versions_are_refused(void **state) {
  td_message m;
  (void)state;
  for (uint32_t v = 0; v < 4; v++) {
    td_raw f = packed(v, 1);
    if (v == TD_WIRE_VERSION) {
      OK(td_wire_read(&f, 1, &m));
      td_message_deinit(&m);
    } else {
      FAILS(td_wire_read(&f, 1, &m), TD_INVALID_ARGUMENT, "protocol version");
    }
  }
}

static void heads_are_bounded(void **state) {
  td_message m;
  td_raw f = packed(TD_WIRE_VERSION, TD_WIRE_IMPL_HEAD_MOST);
  (void)state;
  FAILS(td_wire_read(&f, 1, &m), TD_INVALID_ARGUMENT, "more than 1048576");
  f = packed(TD_WIRE_VERSION, TD_WIRE_IMPL_HEAD_MOST - 100);
  OK(td_wire_read(&f, 1, &m));
  td_message_deinit(&m);
}

/* A head of several frames is read as one of one; the frames of values follow.
 */
static void long_heads_come_in_frames(void **state) {
  static const size_t len[] = {100, TD_FRAME_MOST - 10, TD_FRAME_MOST,
                               3 * TD_FRAME_MOST + 5};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(len); i++) {
    td_head head;
    td_message m;
    int n;
    Td__Remote__Answer body = TD__REMOTE__ANSWER__INIT;
    td_raw f[TD_MESSAGE_FRAMES], got;
    body.text.data = td_calloc(len[i], 1);
    body.text.len = len[i];
    body.id = 5;
    memset(body.text.data, 'x', len[i]);
    td__remote__message__init(&head);
    head.version = TD_WIRE_VERSION;
    head.from = 7;
    head.body_case = TD__REMOTE__MESSAGE__BODY_ANSWER;
    head.answer = &body;
    OK(td_wire_head(&head, TD_MESSAGE_FRAMES - 1, f, &n));
    assert_int_equal(n, i == 0 ? 1 : i == 3 ? 5 : 3);
    f[n] = (td_raw){"abc", 3, NULL, NULL};
    OK(td_wire_read(f, n + 1, &m));
    assert_int_equal(m.head->answer->id, 5);
    assert_int_equal(m.head->answer->text.len, len[i]);
    OK(td_message_take(&m, 3, &got));
    FAILS(td_message_take(&m, 3, &got), TD_INVALID_ARGUMENT, "lacks a frame");
    td_message_deinit(&m);
    if (i > 0)
      FAILS(td_wire_head(&head, 1, f, &n), TD_RESOURCE_EXHAUSTED,
            "there may be 10485760");
    td_free(body.text.data);
  }
}

/* What says that its head is elsewhere, and lies. */
static void forged_long_heads_are_refused(void **state) {
  static const uint32_t counts[] = {1, 2, 11, 80, UINT32_MAX};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(counts); i++)
    for (uint64_t from = 7; from < 9; from++) {
      td_head head;
      td_message m;
      td_raw f[2];
      td__remote__message__init(&head);
      head.version = TD_WIRE_VERSION;
      head.from = from;
      head.long_head = counts[i];
      OK(td_wire_pack(&head, &f[0]));
      f[1] = packed(TD_WIRE_VERSION, 3);
      td_status *s = td_wire_read(f, 2, &m);
      if (i == 0 && from == 7) {
        OK(s);
        assert_string_equal(m.head->bye->text, "xxx");
        td_message_deinit(&m);
      } else {
        FAILS(s, TD_INVALID_ARGUMENT, i ? "of them its head" : "two heads");
      }
    }
}

static void frames_are_counted_and_released(void **state) {
  td_message m;
  td_raw f[TD_MESSAGE_FRAMES + 1];
  (void)state;
  FAILS(td_wire_read(f, 0, &m), TD_INVALID_ARGUMENT, "a message of 0 frames");
  for (int n = TD_MESSAGE_FRAMES; n <= TD_MESSAGE_FRAMES + 1; n++) {
    released = 0;
    f[0] = packed(TD_WIRE_VERSION, 1);
    for (int i = 1; i < n; i++) f[i] = (td_raw){"", 0, count_release, NULL};
    td_status *s = td_wire_read(f, n, &m);
    assert_int_equal(td_ok(s), n == TD_MESSAGE_FRAMES);
    if (td_ok(s)) td_message_deinit(&m);
    td_status_release(s);
    assert_int_equal(released, n - 1);
  }
}

/* Every head that is cut off, or has a bit turned over, is read or refused. */
static void broken_heads_do_no_harm(void **state) {
  td_message m;
  td_raw whole = packed(TD_WIRE_VERSION, 30), f;
  int read = 0;
  (void)state;
  for (size_t i = 0; i < whole.len * 9; i++) {
    size_t at = i % whole.len, bit = i / whole.len;
    OK(td_raw_copy(whole.at, bit == 8 ? at : whole.len, &f));
    if (bit < 8) ((char *)f.arg)[at] ^= (char)(1 << bit);
    td_status *s = td_wire_read(&f, 1, &m);
    if (td_ok(s)) {
      read++;
      td_message_deinit(&m);
    }
    td_status_release(s);
  }
  assert_true(read > 0);
  td_raw_release(&whole);
}

/* Unpacking what is nested, or repeated a million times, stays within what its
 * bytes may take. */
static void repeated_fields_are_bounded(void **state) {
  td_message m;
  size_t len = TD_WIRE_IMPL_HEAD_MOST;
  unsigned char *bytes = td_calloc(len, 1);
  td_raw f;
  (void)state;
  assert_non_null(bytes);
  for (size_t i = 0; i + 1 < len; i += 2) bytes[i] = 0xb2, bytes[i + 1] = 1;
  OK(td_raw_copy(bytes, len, &f)); /* Run within a Run within ... */
  td_status *s = td_wire_read(&f, 1, &m);
  assert_false(td_ok(s));
  td_status_release(s);
  td_free(bytes);
}

/* ---- errors -------------------------------------------------------------- */

static void errors_come_as_they_left(void **state) {
  td_arena a;
  (void)state;
  td_arena_init(&a);
  td_status *s = td_error(TD_DATA_LOSS, "what %s", "happened");
  s = td_status_at(s, "MatMul", "layer/product", NULL, "/device:CPU:1");
  s = td_status_derive(td_status_about(s, "/job:worker/task:3"));
  s = td_status_applied(s, "all at /job:worker/task:1");
  Td__Remote__Status *p = td_wire_status_out(&a, s);
  assert_non_null(p);
  td_status *back = td_wire_status_in(p, "/job:worker/task:1");
  assert_int_equal(td_status_code(back), TD_DATA_LOSS);
  assert_string_equal(td_status_message(back), td_status_message(s));
  assert_string_equal(td_status_op(back), "MatMul");
  assert_string_equal(td_status_node(back), "layer/product");
  assert_string_equal(td_status_device(back), "/device:CPU:1");
  assert_string_equal(td_status_about_task(back), "/job:worker/task:3");
  assert_string_equal(td_status_applied_where(back),
                      "all at /job:worker/task:1");
  assert_true(td_status_derived(back));
  td_status_release(back);
  td_status_release(s);
  assert_null(td_wire_status_out(&a, NULL));
  assert_null(td_wire_status_in(NULL, "t"));
  td_arena_deinit(&a);
}

static void errors_say_whose_they_are(void **state) {
  Td__Remote__Status p = TD__REMOTE__STATUS__INIT;
  (void)state;
  p.code = 3;
  td_status *s = td_wire_status_in(&p, "/job:worker/task:1");
  assert_string_equal(td_status_device(s), "/job:worker/task:1");
  assert_false(td_status_derived(s));
  td_status_release(s);
}

static void codes_that_nobody_knows(void **state) {
  static const int32_t odd[] = {-1, 17, 1000, INT32_MIN, INT32_MAX};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(odd); i++) {
    Td__Remote__Status p = TD__REMOTE__STATUS__INIT;
    p.code = odd[i];
    td_status *s = td_wire_status_in(&p, "t");
    assert_int_equal(td_status_code(s), TD_UNKNOWN);
    td_status_release(s);
  }
  Td__Remote__Status fine = TD__REMOTE__STATUS__INIT;
  assert_null(td_wire_status_in(&fine, "t"));
}

static void long_errors_are_cut(void **state) {
  td_arena a;
  size_t len = 3 * TD_WIRE_MESSAGE_MOST;
  char *text = td_calloc(len + 1, 1);
  (void)state;
  td_arena_init(&a);
  memset(text, 'x', len);
  td_status *s = td_error(TD_INTERNAL, "%s", text);
  Td__Remote__Status *p = td_wire_status_out(&a, s);
  assert_int_equal(strlen(p->message), TD_WIRE_MESSAGE_MOST);
  p->message = text; /* of who does not cut */
  td_status *back = td_wire_status_in(p, "t");
  assert_true(strlen(td_status_message(back)) <= TD_WIRE_MESSAGE_MOST);
  td_status_release(back);
  td_status_release(s);
  td_arena_deinit(&a);
  td_free(text);
}

/* ---- values -------------------------------------------------------------- */

typedef struct odd_value {
  int32_t dtype;
  int64_t dim[3];
  size_t n;
  uint64_t bytes;
  bool narrow;
  const char *says; /* NULL: it is fine */
} odd_value;

static void values_are_held_against_limits(void **state) {
  static const odd_value odd[] = {
      {TD_FLOAT32, {2, 3}, 2, 24, false, NULL},
      {TD_FLOAT32, {0}, 0, 4, false, NULL},
      {TD_FLOAT32, {0, 5}, 2, 0, false, NULL},
      {TD_FLOAT32, {2, 3}, 2, 12, true, NULL},
      {TD_STRING, {2}, 1, 24, false, NULL},
      {TD_FLOAT32, {2, 3}, 2, 25, false, "another number of bytes"},
      {TD_FLOAT32, {2, 3}, 2, 24, true, "another number of bytes"},
      {TD_INT32, {2, 3}, 2, 12, true, "only float32"},
      {TD_FLOAT32, {-1}, 1, 4, false, "below zero"},
      {TD_FLOAT32, {INT64_MAX, 3}, 2, 4, false, "overflow"},
      {TD_FLOAT32, {INT64_MAX, INT64_MAX, 0}, 3, 0, false, "overflow"},
      {TD_FLOAT32, {INT64_MAX}, 1, 4, false, "too large"},
      {TD_FLOAT32, {1}, 1, UINT64_MAX, false, "too large"},
      {TD_STRING, {3}, 1, 24, false, "too short"},
      {TD_STRING, {INT64_C(1) << 61}, 1, 8, false, "too large"},
      {TD_RESOURCE, {0}, 0, 8, false, "no such dtype can be sent"},
      {TD_VARIANT, {0}, 0, 8, false, "no such dtype can be sent"},
      {TD_INVALID, {0}, 0, 0, false, "no such dtype can be sent"},
      {-1, {0}, 0, 4, false, "no such dtype can be sent"},
      {1000, {0}, 0, 4, false, "no such dtype can be sent"},
      {INT32_MIN, {0}, 0, 4, false, "no such dtype can be sent"},
      {101, {0}, 0, 4, false, "no such dtype can be sent"},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(odd); i++) {
    const odd_value *o = &odd[i];
    Td__Remote__Value p = TD__REMOTE__VALUE__INIT;
    td_tensor t;
    p.dtype = o->dtype;
    p.dim = (int64_t *)o->dim;
    p.n_dim = o->n;
    p.bytes = o->bytes;
    p.narrow = o->narrow;
    if (o->says) {
      FAILS(td_wire_value_read(&p, &t), TD_INVALID_ARGUMENT, o->says);
      continue;
    }
    OK(td_wire_value_read(&p, &t));
    assert_int_equal(t.dtype, o->dtype);
    assert_int_equal(t.shape.rank, o->n);
    OK(td_wire_value_room(&t, p.bytes, NULL));
    assert_non_null(t.data);
    td_tensor_release(&t);
  }
}

static void ranks_are_bounded(void **state) {
  int64_t ones[TD_MAX_RANK + 1];
  Td__Remote__Value p = TD__REMOTE__VALUE__INIT;
  td_tensor t;
  (void)state;
  for (int i = 0; i <= TD_MAX_RANK; i++) ones[i] = 1;
  p.dtype = TD_FLOAT32;
  p.dim = ones;
  p.bytes = 4;
  p.n_dim = TD_MAX_RANK;
  OK(td_wire_value_read(&p, &t));
  p.n_dim++;
  FAILS(td_wire_value_read(&p, &t), TD_INVALID_ARGUMENT, "rank");
}

static void dead_values_have_nothing(void **state) {
  td_arena a;
  td_tensor t;
  Td__Remote__Value *p;
  (void)state;
  td_arena_init(&a);
  OK(td_wire_value_out(&a, NULL, &p));
  assert_true(p->dead);
  p->dtype = -1; /* nobody looks */
  p->bytes = UINT64_MAX;
  OK(td_wire_value_read(p, &t));
  assert_false(td_tensor_valid(&t));
  td_arena_deinit(&a);
}

static void handles_stay_at_home(void **state) {
  td_arena a;
  td_tensor t;
  Td__Remote__Value *p;
  td_shape shape = td_shape_of(0, NULL);
  (void)state;
  td_arena_init(&a);
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  OK(td_wire_value_out(&a, &t, &p));
  assert_int_equal(p->bytes, 4);
  for (int i = 0; i < 2; i++) {
    td_tensor odd = t;
    odd.dtype = i ? TD_RESOURCE : TD_VARIANT;
    FAILS(td_wire_value_out(&a, &odd, &p), TD_UNIMPLEMENTED,
          "stays in its process");
  }
  td_tensor_release(&t);
  td_arena_deinit(&a);
}

/* Offsets of a string tensor that came are looked at before it is used. */
static void string_offsets_are_checked(void **state) {
  static const uint64_t odd[][3] = {{24, 26, 27},
                                    {24, 25, 1000},
                                    {27, 25, 27},
                                    {24, UINT64_MAX, 27},
                                    {28, 28, 28}};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(odd); i++) {
    Td__Remote__Value p = TD__REMOTE__VALUE__INIT;
    int64_t two = 2;
    td_tensor t;
    p.dtype = TD_STRING;
    p.dim = &two;
    p.n_dim = 1;
    p.bytes = 27;
    OK(td_wire_value_read(&p, &t));
    OK(td_wire_value_room(&t, p.bytes, NULL));
    memcpy(t.data, odd[i], sizeof odd[i]);
    td_status *s = td_tensor_strings_check(&t);
    assert_int_equal(td_ok(s), i == 0);
    td_status_release(s);
    td_tensor_release(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_are_those_after_the_head),
      cmocka_unit_test(frames_of_the_next_are_left),
      cmocka_unit_test(a_frame_may_lack),
      cmocka_unit_test(other_versions_are_refused),
      cmocka_unit_test(heads_are_bounded),
      cmocka_unit_test(long_heads_come_in_frames),
      cmocka_unit_test(forged_long_heads_are_refused),
      cmocka_unit_test(frames_are_counted_and_released),
      cmocka_unit_test(broken_heads_do_no_harm),
      cmocka_unit_test(repeated_fields_are_bounded),
      cmocka_unit_test(errors_come_as_they_left),
      cmocka_unit_test(errors_say_whose_they_are),
      cmocka_unit_test(codes_that_nobody_knows),
      cmocka_unit_test(long_errors_are_cut),
      cmocka_unit_test(values_are_held_against_limits),
      cmocka_unit_test(ranks_are_bounded),
      cmocka_unit_test(dead_values_have_nothing),
      cmocka_unit_test(handles_stay_at_home),
      cmocka_unit_test(string_offsets_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
