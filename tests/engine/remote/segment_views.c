/* segment_views.c - tests of engine/remote/segment_views.h: two processes.
 *
 * The owner is a child, which says its places through a pipe and ends when the
 * other pipe is closed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/remote/segment_views.h"

enum { OWNER = 0xabcdef, MIB = 1 << 20, MOST = 64 * MIB };

static td_segment_views *v;
static int taken; /* times */

static int make_views(void **state) {
  (void)state;
  v = td_segment_views_new(MOST);
  taken = 0;
  return v ? 0 : -1;
}

static int free_views(void **state) {
  (void)state;
  td_segment_views_free(v);
  return 0;
}

static char letter(size_t i) {
  return (char)('a' + i % 26);
}

/* ---- the other process --------------------------------------------------- */

typedef struct owner {
  pid_t pid;
  int from, to; /* pipes: what it says, what it hears */
} owner;

/* What an owner does: it writes to `say` and, between things, waits for a byte
 * of `hear`. */
typedef void owner_work(int say, int hear);

static void must(bool good) {
  if (!good) _exit(3);
}

static void say_place(int say, const td_segment_place *p) {
  must(write(say, p, sizeof *p) == sizeof *p);
}

/* False: the test has ended. */
static bool heard(int hear) {
  char c;
  return read(hear, &c, 1) == 1;
}

static owner start(owner_work *work) {
  int out[2], in[2];
  owner o;
  assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(in, O_CLOEXEC), 0);
  o.pid = fork();
  if (o.pid == 0) {
    close(out[0]);
    close(in[1]);
    work(out[1], in[0]);
    while (heard(in[0])) {
    }
    _exit(0);
  }
  close(out[1]);
  close(in[0]);
  o.from = out[0];
  o.to = in[1];
  return o;
}

static td_segment_place next_place(const owner *o) {
  td_segment_place p;
  assert_int_equal(read(o->from, &p, sizeof p), sizeof p);
  return p;
}

static void tell(const owner *o) {
  assert_int_equal(write(o->to, "x", 1), 1);
}

static void end(owner *o, int how) {
  int status;
  if (how) kill(o->pid, how);
  close(o->to);
  waitpid(o->pid, &status, 0);
  close(o->from);
  assert_true(how || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

/* ---- bytes arrive -------------------------------------------------------- */

static void put_letters(td_segments *t, int say, size_t len) {
  char *bytes = malloc(len);
  td_segment_place p;
  for (size_t i = 0; i < len; i++) bytes[i] = letter(i);
  must(td_ok(td_segments_put(t, 1, bytes, len, &p)));
  say_place(say, &p);
  free(bytes);
}

static void three_tensors(int say, int hear) {
  td_segments *t = td_segments_new(OWNER, MOST, MOST);
  put_letters(t, say, 1000);
  put_letters(t, say, 3 * MIB);
  put_letters(t, say, 9 * MIB);
  heard(hear);
  td_segments_free(t);
}

static void check_letters(const char *at, size_t len) {
  for (size_t i = 0; i < len; i++) assert_true(at[i] == letter(i));
}

static void count_taken(void *arg) {
  assert_ptr_equal(arg, &taken);
  taken++;
}

static void bytes_arrive(void **state) {
  (void)state;
  static const size_t len[] = {1000, 3 * MIB, 9 * MIB};
  owner o = start(three_tensors);
  for (int i = 0; i < 3; i++) {
    td_segment_place p = next_place(&o);
    char *to = malloc(len[i]);
    assert_true(p.len == len[i]);
    OK(td_segment_views_read(v, OWNER, &p, to));
    check_letters(to, len[i]);
    free(to);
  }
  td_segment_views_stats s = td_segment_views_read_stats(v);
  assert_int_equal(s.views, 2); /* the first two are in one */
  assert_int_equal(s.opened, 2);
  end(&o, 0);
}

static void buffers_look_in(void **state) {
  (void)state;
  owner o = start(three_tensors);
  td_segment_place p = next_place(&o), q;
  td_buffer *a, *b;
  OK(td_segment_views_buffer(v, OWNER, &p, count_taken, &taken, &a));
  assert_true(a->readonly && a->size == 1000);
  assert_int_equal((uintptr_t)a->data % TD_SEGMENT_ALIGN, 0);
  check_letters(a->data, 1000);
  q = next_place(&o);
  OK(td_segment_views_buffer(v, OWNER, &q, count_taken, &taken, &b));
  td_segment_views_drop_peer(v, OWNER); /* what is held stays */
  assert_int_equal(td_segment_views_read_stats(v).views, 0);
  check_letters(b->data, 3 * MIB);
  td_buffer_release(a);
  assert_int_equal(taken, 1);
  end(&o, SIGKILL); /* also when the owner is gone */
  check_letters(b->data, 3 * MIB);
  td_segment_views_free(v);
  v = td_segment_views_new(MOST);
  check_letters(b->data, 3 * MIB);
  td_buffer_release(b); /* the last of the old table */
  assert_int_equal(taken, 2);
}

/* ---- views come and go --------------------------------------------------- */

static void five_peers(int say, int hear) {
  td_segments *t = td_segments_new(OWNER, MOST, MOST);
  td_segment_place p[5];
  for (uint64_t i = 0; i < 5; i++) {
    must(td_ok(td_segments_put(t, i, "tensor", 6, &p[i])));
    say_place(say, &p[i]);
  }
  heard(hear);
  td_segments_drop_peer(t, 0);
  td_segments_drop_peer(t, 2);
  must(write(say, "x", 1) == 1);
  heard(hear);
  td_segments_free(t);
}

static void views_go_with_their_segments(void **state) {
  (void)state;
  char c, text[6];
  owner o = start(five_peers);
  td_segment_place p[5];
  for (int i = 0; i < 5; i++) {
    p[i] = next_place(&o);
    OK(td_segment_views_read(v, OWNER, &p[i], text));
    assert_memory_equal(text, "tensor", 6);
  }
  tell(&o);
  assert_int_equal(read(o.from, &c, 1), 1);
  assert_int_equal(td_segment_views_read_stats(v).views, 5);
  td_segment_views_trim(v);
  assert_int_equal(td_segment_views_read_stats(v).views, 3);
  FAILS(td_segment_views_read(v, OWNER, &p[2], text), TD_PERMISSION_DENIED,
        "cannot be opened");
  OK(td_segment_views_read(v, OWNER, &p[1], text));
  end(&o, 0);
}

static void few_are_mapped(void **state) {
  (void)state;
  char text[6];
  owner o = start(five_peers);
  td_segment_place p[5];
  td_segment_views_free(v);
  v = td_segment_views_new(13 * MIB); /* three */
  td_buffer *first;
  p[0] = next_place(&o);
  OK(td_segment_views_buffer(v, OWNER, &p[0], NULL, NULL, &first));
  for (int i = 1; i < 5; i++) {
    p[i] = next_place(&o);
    OK(td_segment_views_read(v, OWNER, &p[i], text));
  }
  assert_int_equal(td_segment_views_read_stats(v).views, 3);
  assert_int_equal(td_segment_views_read_stats(v).opened, 5);
  OK(td_segment_views_read(v, OWNER, &p[0], text)); /* was held */
  assert_int_equal(td_segment_views_read_stats(v).opened, 5);
  OK(td_segment_views_read(v, OWNER, &p[1], text)); /* was not */
  assert_int_equal(td_segment_views_read_stats(v).opened, 6);
  td_buffer_release(first);
  td_segment_views_free(v);
  v = td_segment_views_new(MIB);
  FAILS(td_segment_views_read(v, OWNER, &p[0], text), TD_RESOURCE_EXHAUSTED,
        "the limit of 1048576");
  assert_int_equal(td_segment_views_read_stats(v).mapped, 0);
  end(&o, 0);
}

/* ---- hostile owners ------------------------------------------------------ */

static void one_tensor(int say, int hear) {
  td_segments *t = td_segments_new(OWNER, MOST, MOST);
  put_letters(t, say, 1000);
  heard(hear);
  td_segments_free(t);
}

static void hostile_places(void **state) {
  (void)state;
  static char to[1000];
  owner o = start(one_tensor);
  td_segment_place good = next_place(&o), p;
  static const struct {
    uint64_t offset, len;
  } rows[] = {{0, 8},
              {65, 8},
              {4259840, 1},
              {4259840 + 64, 0},
              {64, 4259840},
              {64, UINT64_MAX},
              {UINT64_MAX - 63, 64},
              {UINT64_MAX - 63, UINT64_MAX}};
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    p = good;
    p.offset = rows[i].offset;
    p.len = rows[i].len;
    FAILS(td_segment_views_read(v, OWNER, &p, to), TD_INVALID_ARGUMENT,
          "no place in shared memory of 4259840 bytes");
  }
  FAILS(td_segment_views_read(v, OWNER + 1, &good, to), TD_INVALID_ARGUMENT,
        "it is another process's");
  OK(td_segment_views_read(v, OWNER, &good, to));
  end(&o, 0);
}

static void hostile_names(void **state) {
  (void)state;
  static const char *const names[] = {
      "",
      "/etc/passwd",
      "tide-",
      "tide-0000000000abcdef",
      "tide-0000000000abcdef-1@/5",
      "tide-0000000000abcdef-1@1/",
      "tide-0000000000abcdef-1@0/5",
      "tide-0000000000abcdef-1@-1/5",
      "tide-0000000000abcdef-1@1/5/../../x",
      "tide-0000000000abcdeg-1@1/5",
      "tide-0000000000ABCDEF-1@1/5",
      "tide-0000000000abcdef-1@1/99999999999",
      "tide-0000000000abcdef-99999999999999999999999@1/5",
      "tide-0000000000abcdef- 1@1/5",
      "tide-0000000000abcdef-1@1/5 "};
  char to[8];
  td_segment_place p = {.offset = 64, .len = 8};
  for (size_t i = 0; i < TD_COUNT(names); i++) {
    memset(p.segment, 0, sizeof p.segment);
    memcpy(p.segment, names[i], strlen(names[i]));
    FAILS(td_segment_views_read(v, OWNER, &p, to), TD_INVALID_ARGUMENT,
          "it has no such name");
  }
  memset(p.segment, '1', sizeof p.segment); /* without an end */
  FAILS(td_segment_views_read(v, OWNER, &p, to), TD_INVALID_ARGUMENT,
        "no such name");
  snprintf(p.segment, sizeof p.segment, "tide-%016x-1@%d/0", OWNER, getpid());
  FAILS(td_segment_views_read(v, OWNER, &p, to), TD_INVALID_ARGUMENT,
        "something else there");
  snprintf(p.segment, sizeof p.segment, "tide-%016x-1@2147483647/0", OWNER);
  FAILS(td_segment_views_read(v, OWNER, &p, to), TD_PERMISSION_DENIED,
        "process 2147483647 cannot");
  assert_int_equal(td_segment_views_read_stats(v).mapped, 0);
}

/* Memory of any size and seals under the name of number 1. */
static int forge(size_t size, int seals, td_segment_place *p) {
  char name[64];
  snprintf(name, sizeof name, "tide-%016x-1", OWNER);
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  must(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
  must(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
  *p = (td_segment_place){.offset = 64, .len = 8};
  snprintf(p->segment, sizeof p->segment, "%s@%d/%d", name, getpid(), fd);
  return fd;
}

/* Would be made shorter while it is read: it is not even opened. What is sealed
 * cannot. */
static void truncating(int say, int hear) {
  td_segment_place p;
  int fd = forge(MIB, 0, &p);
  say_place(say, &p);
  heard(hear);
  must(ftruncate(fd, 0) == 0);
  close(fd);
  forge(10, F_SEAL_SHRINK, &p);
  say_place(say, &p);
  fd = forge(MIB, F_SEAL_SHRINK | F_SEAL_GROW, &p);
  p.len = MIB - 64;
  say_place(say, &p);
  heard(hear);
  must(ftruncate(fd, 0) != 0 && errno == EPERM);
  must(write(say, "x", 1) == 1);
}

static void an_owner_that_truncates(void **state) {
  (void)state;
  owner o = start(truncating);
  char c, to[8];
  td_buffer *b;
  td_segment_place p = next_place(&o);
  FAILS(td_segment_views_read(v, OWNER, &p, to), TD_INVALID_ARGUMENT,
        "it could become shorter");
  tell(&o);
  p = next_place(&o);
  FAILS(td_segment_views_read(v, OWNER, &p, to), TD_INVALID_ARGUMENT,
        "it is too short");
  p = next_place(&o);
  OK(td_segment_views_buffer(v, OWNER, &p, NULL, NULL, &b));
  tell(&o);
  assert_int_equal(read(o.from, &c, 1), 1);
  for (size_t i = 0; i < b->size; i++)
    assert_int_equal(((const char *)b->data)[i], 0);
  td_buffer_release(b);
  end(&o, 0);
}

static void as_nobody(int say, int hear) {
  (void)hear;
  td_segment_place p;
  must(setgid(65534) == 0 && setuid(65534) == 0);
  forge(MIB, F_SEAL_SHRINK, &p);
  say_place(say, &p);
}

static void another_user(void **state) {
  (void)state;
  char to[8];
  if (getuid() != 0) skip(); /* cannot become one */
  owner o = start(as_nobody);
  td_segment_place p = next_place(&o);
  FAILS(td_segment_views_read(v, OWNER, &p, to), TD_INVALID_ARGUMENT,
        "it belongs to another user");
  end(&o, 0);
}

/* ---- what is left -------------------------------------------------------- */

static int count_shm(void) {
  DIR *d = opendir("/dev/shm");
  struct dirent *e;
  int n = 0;
  if (!d) return 0;
  while ((e = readdir(d))) n += strstr(e->d_name, "tide") != NULL;
  closedir(d);
  return n;
}

/* Does this process have such memory? */
static bool is_mapped(void) {
  char line[512];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f))
    found = found || strstr(line, "memfd:tide-");
  if (f) fclose(f);
  return found;
}

static void fill(int say, int hear) {
  (void)hear;
  size_t len = 20 * MIB;
  td_segments *t = td_segments_new(OWNER, 2 * len, 2 * len);
  put_letters(t, say, len);
}

/* Of a process that is killed nothing stays, without anybody's doing: its
 * memory has no name, so that it is there only as long as somebody maps it. */
static void kill_leaves_nothing(void **state) {
  (void)state;
  char to[8];
  int named = count_shm();
  owner o = start(fill);
  td_segment_place p = next_place(&o);
  p.len = sizeof to;
  OK(td_segment_views_read(v, OWNER, &p, to));
  end(&o, SIGKILL);
  OK(td_segment_views_read(v, OWNER, &p, to)); /* mapped: good to the end */
  assert_true(is_mapped());
  td_segment_views_drop_peer(v, OWNER);
  assert_false(is_mapped());
  assert_int_equal(count_shm(), named);
}

static void without_memory(void **state) {
  (void)state;
  owner o = start(one_tensor);
  td_segment_place p = next_place(&o);
  for (int n = 1; n < 8; n++) {
    td_buffer *b = NULL;
    td_mem_fail(n, false);
    td_segment_views *w = td_segment_views_new(MOST);
    td_status *s = NULL;
    if (w) s = td_segment_views_buffer(w, OWNER, &p, count_taken, &taken, &b);
    td_mem_fail(0, false);
    if (!td_ok(s)) assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    assert_int_equal(taken, 0);
    td_buffer_release(b);
    assert_int_equal(taken, b != NULL);
    taken = 0;
    td_segment_views_free(w);
  }
  end(&o, 0);
}

/* ---- time ---------------------------------------------------------------- */

enum { BIG = 100000000 };

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* 100 MB through a segment beside two copies of them, in turn. */
static void takes_two_copies(void **state) {
  (void)state;
  td_segments *t = td_segments_new(OWNER, 3 * (size_t)BIG, 3 * (size_t)BIG);
  char *from = malloc(BIG), *to = malloc(BIG);
  td_segment_place p;
  int64_t first = 0, through = INT64_MAX, copies = INT64_MAX;
  memset(from, 1, BIG);
  memset(to, 2, BIG);
  td_segment_views_free(v);
  v = td_segment_views_new(3 * (size_t)BIG);
  for (int i = 0; i < 12; i++) {
    int64_t start_ns = td_clock_now();
    OK(td_segments_put(t, 1, from, BIG, &p));
    OK(td_segment_views_read(v, OWNER, &p, to));
    assert_true(td_segments_done(t, 1, &p));
    int64_t took = td_clock_now() - start_ns;
    if (i == 0) first = took;
    if (i > 0) through = least(through, took);
    start_ns = td_clock_now();
    memcpy(to, from, BIG);
    memcpy(from, to, BIG);
    copies = least(copies, td_clock_now() - start_ns);
  }
  assert_int_equal(td_segments_read_stats(t).made, 1);
  print_message("100 MB: first %.1f ms, then %.1f ms; two memcpys %.1f ms: "
                "%.2f x\n",
                (double)first / 1e6, (double)through / 1e6,
                (double)copies / 1e6, (double)through / (double)copies);
  td_segments_free(t);
  free(from);
  free(to);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_views, free_views)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(bytes_arrive),
      TEST(buffers_look_in),
      TEST(views_go_with_their_segments),
      TEST(few_are_mapped),
      TEST(hostile_places),
      TEST(hostile_names),
      TEST(an_owner_that_truncates),
      TEST(another_user),
      TEST(kill_leaves_nothing),
      TEST(without_memory),
      TEST(takes_two_copies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
