/* channel_zmq_address.c - tests of engine/remote/channel_zmq_address.c, and of
 * the keys: what is refused, and what the error says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/remote/channel_zmq_pair.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/engine/base/pipes.h"

static td_status *open_at(const char *address, td_channel **out) {
  td_channel_zmq_options o = with_key(0, address);
  *out = NULL;
  return td_channel_zmq_new(&o, out);
}

static void cannot(const char *address, td_code code, const char *part) {
  td_channel *c;
  FAILS(open_at(address, &c), code, part);
  assert_null(c);
}

static void can(const char *address, const char *control, const char *data) {
  td_channel *c;
  OK(open_at(address, &c));
  const char *a = c->ops->address(c, TD_LANE_CONTROL);
  const char *b = c->ops->address(c, TD_LANE_DATA);
  assert_memory_equal(a, control, strlen(control));
  assert_memory_equal(b, data, strlen(data));
  assert_string_not_equal(a, b);
  assert_int_not_equal(a[strlen(a) - 1], ':');
  assert_null(strstr(a, ":0"));
  c->ops->free(c);
}

/* ---- how addresses are written ------------------------------------------- */

static void test_malformed(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "localhost:3000",
      "tcp:/127.0.0.1:1",
      "tcp://",
      "tcp://:3000",
      "tcp://localhost",
      "tcp://localhost:",
      "tcp://localhost:x",
      "tcp://localhost:70000",
      "tcp://localhost:123456",
      "tcp://localhost:-1",
      "tcp://localhost:1x",
      "tcp://*:3000",
      "tcp://a;b:3000",
      "tcp://local host:3000",
      "inproc://x",
      "udp://127.0.0.1:3000",
      "ipc://",
      "ipc://x",
      "ipc://@x",
      "ipc:///tmp/",
  };
  td_channel *c;
  td_link *l;
  OK(open_at(NULL, &c));
  assert_null(c->ops->address(c, TD_LANE_CONTROL));
  for (size_t i = 0; i < TD_COUNT(bad); i++) {
    cannot(bad[i], TD_INVALID_ARGUMENT, "write tcp://HOST:PORT");
    td_dial to = {bad[i], NULL, keys[0].public_key};
    FAILS(c->ops->dial(c, &to, &l), TD_INVALID_ARGUMENT, "is no address");
  }
  td_dial any = {"tcp://localhost:0", NULL, keys[0].public_key};
  FAILS(c->ops->dial(c, &any, &l), TD_INVALID_ARGUMENT, "nobody listens");
  c->ops->free(c);
}

static void test_where(void **state) {
  (void)state;
  can("tcp://127.0.0.1:0", "tcp://127.0.0.1:", "tcp://127.0.0.1:");
  can("tcp://0.0.0.0:0", "tcp://0.0.0.0:", "tcp://0.0.0.0:");
  can("tcp://localhost:0", "tcp://", "tcp://");
}

static void test_no_such_host(void **state) {
  (void)state;
  cannot("tcp://no.such.host.invalid:3000", TD_INVALID_ARGUMENT,
         "this machine has no such address");
  cannot("tcp://192.0.2.1:3000", TD_INVALID_ARGUMENT,
         "cannot listen at tcp://192.0.2.1:3000: this machine has no such");
}

/* ---- taken --------------------------------------------------------------- */

static void test_taken_port(void **state) {
  (void)state;
  td_channel *c;
  char message[200];
  OK(open_at("tcp://127.0.0.1:0", &c));
  const char *a = c->ops->address(c, TD_LANE_CONTROL);
  snprintf(message, sizeof message,
           "cannot listen at %s: another process listens there; take another "
           "port",
           a);
  cannot(a, TD_UNAVAILABLE, message);
  c->ops->free(c);
}

/* ZeroMQ itself would take the path away. What a process that died has left is
 * nobody's. */
static void test_taken_path(void **state) {
  (void)state;
  folder f;
  td_channel *c;
  folder_init(&f);
  OK(open_at(f.address, &c));
  assert_string_equal(c->ops->address(c, TD_LANE_CONTROL), f.address);
  cannot(f.address, TD_UNAVAILABLE, "another process listens there");
  c->ops->free(c);
  assert_int_not_equal(access(f.address + strlen("ipc://"), F_OK), 0);
  struct sockaddr_un left = {.sun_family = AF_UNIX};
  strcpy(left.sun_path, f.address + strlen("ipc://"));
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&left, sizeof left), 0);
  close(fd);
  OK(open_at(f.address, &c));
  c->ops->free(c);
  folder_deinit(&f);
}

/* ---- folders ------------------------------------------------------------- */

static void test_folders(void **state) {
  (void)state;
  folder f;
  char path[300], address[500], linked[400];
  td_channel *c;
  td_link *l;
  folder_init(&f);
  static const mode_t open_modes[] = {0755, 0750, 0701, 0710, 0777};
  OK(open_at(NULL, &c));
  for (size_t i = 0; i < TD_COUNT(open_modes); i++) {
    chmod(td_str_c(&f.path), open_modes[i]);
    cannot(f.address, TD_PERMISSION_DENIED, "chmod 700");
    td_dial to = {f.address, NULL, NULL};
    FAILS(c->ops->dial(c, &to, &l), TD_PERMISSION_DENIED, "is not encrypted");
  }
  chmod(td_str_c(&f.path), 0700);
  c->ops->free(c);
  snprintf(path, sizeof path, "%s/link", td_str_c(&f.path));
  assert_int_equal(symlink(td_str_c(&f.path), path), 0);
  snprintf(linked, sizeof linked, "ipc://%s/s", path);
  cannot(linked, TD_FAILED_PRECONDITION, "is not a folder");
  unlink(path);
  snprintf(address, sizeof address, "ipc://%s/none/s", td_str_c(&f.path));
  cannot(address, TD_NOT_FOUND, "/none: No such file");
  snprintf(address, sizeof address, "ipc://%s/%0120d", td_str_c(&f.path), 1);
  cannot(address, TD_INVALID_ARGUMENT, "take a shorter folder");
  /* With "-data" it is too long. */
  int room = 107 - (int)strlen(td_str_c(&f.path)) - 1;
  snprintf(address, sizeof address, "ipc://%s/%0*d", td_str_c(&f.path), room,
           1);
  cannot(address, TD_INVALID_ARGUMENT, "has 112 bytes");
  folder_deinit(&f);
}

/* ---- keys ---------------------------------------------------------------- */

static void test_keys(void **state) {
  (void)state;
  td_channel *c = NULL;
  td_link *l;
  td_channel_zmq_options o = {.listen = "tcp://127.0.0.1:0"};
  FAILS(td_channel_zmq_new(&o, &c), TD_FAILED_PRECONDITION, "there is no key");
  o.public_key = keys[0].public_key;
  FAILS(td_channel_zmq_new(&o, &c), TD_INVALID_ARGUMENT, "are no pair");
  o.secret = keys[1].secret;
  FAILS(td_channel_zmq_new(&o, &c), TD_INVALID_ARGUMENT, "are no pair");
  o.secret = "short";
  FAILS(td_channel_zmq_new(&o, &c), TD_INVALID_ARGUMENT,
        "the secret key is not");
  o.secret = "                                        ";
  FAILS(td_channel_zmq_new(&o, &c), TD_INVALID_ARGUMENT,
        "the secret key is not");
  assert_null(c);
  o = (td_channel_zmq_options){0};
  OK(td_channel_zmq_new(&o, &c));
  td_dial to = {"tcp://127.0.0.1:9", NULL, keys[0].public_key};
  FAILS(c->ops->dial(c, &to, &l), TD_FAILED_PRECONDITION, "there is no key");
  to.key = NULL;
  FAILS(c->ops->dial(c, &to, &l), TD_FAILED_PRECONDITION, "is not known");
  to.key = "x";
  FAILS(c->ops->dial(c, &to, &l), TD_INVALID_ARGUMENT, "the peer's public key");
  c->ops->free(c);
}

/* There are no more files to be had, at any moment: an error, and nothing stays
 * open. */
static void test_few_files(void **state) {
  (void)state;
  struct rlimit all, few;
  int errors = 0, before = fifo_descriptors();
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
  for (rlim_t n = 0; n < 60; n++) {
    td_channel *c = NULL;
    td_link *l;
    int next = dup(0);
    close(next);
    few = (struct rlimit){(rlim_t)next + n, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    td_status *s = open_at("tcp://127.0.0.1:0", &c);
    if (td_ok(s)) {
      td_dial to = {c->ops->address(c, TD_LANE_CONTROL),
                    c->ops->address(c, TD_LANE_DATA), keys[0].public_key};
      s = c->ops->dial(c, &to, &l);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    if (c) c->ops->free(c);
    errors += !td_ok(s);
    if (s) assert_non_null(strstr(td_status_message(s), "Too many open files"));
    td_status_release(s);
  }
  assert_true(errors > 10 && errors < 60);
  assert_int_equal(fifo_descriptors(), before);
}

/* The data's address is told once. */
static void test_data_twice(void **state) {
  (void)state;
  channel_pair p;
  ipc(&p);
  td_link *l = dial_to(&p);
  FAILS(p.dialler.c->ops->dial_data(l, p.to.data), TD_FAILED_PRECONDITION,
        "has a connection");
  pair_end(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_malformed),    cmocka_unit_test(test_where),
      cmocka_unit_test(test_no_such_host), cmocka_unit_test(test_taken_port),
      cmocka_unit_test(test_taken_path),   cmocka_unit_test(test_folders),
      cmocka_unit_test(test_keys),         cmocka_unit_test(test_data_twice),
      cmocka_unit_test(test_few_files),
  };
  return cmocka_run_group_tests(tests, make_keys, NULL);
}
