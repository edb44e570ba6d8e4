/* keys.c - keys as text, pairs in folders, lists, and what workers leave.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/keys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "tests/check.h"

/* A pair that ZeroMQ's manual shows. */
#define PUB "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
#define SECRET "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
#define OTHER "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"

static char dir[256], path[512];

/* The path of a file in the test's folder, until the next call. */
static const char *in_dir(const char *name) {
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

static int set_up(void **state) {
  (void)state;
  td_str name = {0};
  OK(td_file_temp_dir(100, &name));
  snprintf(dir, sizeof dir, "%s", name.at);
  td_str_deinit(&name);
  setenv("XDG_RUNTIME_DIR", dir, 1);
  return 0;
}

static int tear_down(void **state) {
  char command[300];
  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return system(command);
}

static mode_t mode_of(const char *file) {
  struct stat st;
  assert_int_equal(lstat(file, &st), 0);
  return st.st_mode & 07777;
}

static td_keys_key key_of(const char *text) {
  td_keys_key key;
  assert_true(td_keys_parse(text, strlen(text), &key));
  return key;
}

static void assert_key(const td_keys_key *key, const char *text) {
  char got[TD_KEY_TEXT + 1];
  td_keys_print(key, got);
  assert_string_equal(got, text);
}

static void write_text(const char *name, const char *text) {
  OK(td_file_write(in_dir(name), text, strlen(text)));
}

/* How many names there are in a folder. */
static int count_names(const char *folder) {
  td_str names = {0};
  int n = 0;
  OK(td_file_list(folder, &names));
  for (size_t i = 0; i < names.len; i++) n += names.at[i] == '\0';
  td_str_deinit(&names);
  return n;
}

static uint32_t draw(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

/* ---- text ---------------------------------------------------------------- */

static void test_text(void **state) {
  (void)state;
  static const uint8_t hello[] = {0x86, 0x4F, 0xD2, 0x6F,
                                  0xB5, 0x59, 0xF7, 0x5B};
  td_keys_key key = key_of("HelloWorldHelloWorldHelloWorldHelloWorld");
  for (int i = 0; i < 4; i++)
    assert_memory_equal(key.bytes + 8 * i, hello, sizeof hello);
  assert_key(&key, "HelloWorldHelloWorldHelloWorldHelloWorld");
  memset(&key, 0xff, sizeof key);
  char text[TD_KEY_TEXT + 1];
  td_keys_print(&key, text);
  key = key_of(text);
  for (int i = 0; i < TD_KEY_BYTES; i++) assert_int_equal(key.bytes[i], 0xff);
}

static void test_no_keys(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",
      "a",
      "HelloWorldHelloWorldHelloWorldHelloWorl",
      "HelloWorldHelloWorldHelloWorldHelloWorldx",
      "HelloWorldHelloWorldHelloWorldHelloWor\"d",
      "HelloWorldHelloWorldHelloWorldHelloWor d",
      "########################################", /* 85^5 - 1 needs 33 bits */
      "HelloWorldHelloWorldHelloWorld%nSc1World"};
  td_keys_key key;
  for (size_t i = 0; i < TD_COUNT(wrong); i++)
    assert_false(td_keys_parse(wrong[i], strlen(wrong[i]), &key));
  assert_false(
      td_keys_parse("HelloWorldHelloWorldHelloWorldHelloWo\0ld", 40, &key));
}

static void test_any_bytes(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (int i = 0; i < 20000; i++) {
    td_keys_key key, back;
    char text[TD_KEY_TEXT + 1];
    for (int k = 0; k < TD_KEY_BYTES; k++) key.bytes[k] = (uint8_t)draw(&seed);
    td_keys_print(&key, text);
    assert_true(text[0] != '#'); /* no key is a comment */
    assert_true(td_keys_parse(text, TD_KEY_TEXT, &back));
    assert_memory_equal(&key, &back, sizeof key);
    text[draw(&seed) % TD_KEY_TEXT] = (char)draw(&seed);
    if (td_keys_parse(text, TD_KEY_TEXT, &back)) {
      char again[TD_KEY_TEXT + 1];
      td_keys_print(&back, again);
      assert_memory_equal(text, again, TD_KEY_TEXT);
    }
  }
}

/* ---- pairs --------------------------------------------------------------- */

static void test_a_pair(void **state) {
  (void)state;
  td_keys_pair pair, read;
  OK(td_keys_generate(&pair));
  OK(td_keys_write(in_dir("new/keys"), &pair, "anna@lab", false));
  OK(td_keys_read(in_dir("new/keys"), &read));
  assert_memory_equal(&pair, &read, sizeof pair);
  assert_int_equal(mode_of(in_dir("new/keys")), 0700);
  assert_int_equal(mode_of(in_dir("new/keys/tide.key")), 0600);
  assert_int_equal(mode_of(in_dir("new/keys/tide.pub")) & ~044, 0600);
  assert_int_equal(count_names(in_dir("new/keys")), 2);
  td_keys_list *list; /* the public half is a line of a list */
  OK(td_keys_list_read(in_dir("new/keys/tide.pub"), &list));
  assert_string_equal(td_keys_list_find(list, &pair.pub), "anna@lab");
  td_keys_list_free(list);
  td_keys_pair none = {0};
  td_keys_wipe(&pair);
  assert_memory_equal(&pair, &none, sizeof none);
}

static void test_is_zeromqs(void **state) {
  (void)state;
  td_keys_pair pair;
  write_text("tide.key", "# from the manual\n\n  " SECRET " \r\n");
  assert_int_equal(chmod(in_dir("tide.key"), 0600), 0);
  OK(td_keys_read(dir, &pair));
  assert_key(&pair.pub, PUB);
  assert_key(&pair.secret, SECRET);
}

static void test_is_not_overwritten(void **state) {
  (void)state;
  td_keys_pair first, second, read;
  OK(td_keys_generate(&first));
  OK(td_keys_generate(&second));
  OK(td_keys_write(dir, &first, "a", false));
  FAILS(td_keys_write(dir, &second, "b", false), TD_ALREADY_EXISTS,
        "tide.key' is there already");
  assert_int_equal(unlink(in_dir("tide.key")), 0);
  FAILS(td_keys_write(dir, &second, "b", false), TD_ALREADY_EXISTS,
        "tide.pub' is there already");
  OK(td_keys_write(dir, &first, "a", true));
  OK(td_keys_read(dir, &read));
  assert_memory_equal(&first, &read, sizeof read);
  assert_int_equal(chmod(in_dir("tide.key"), 0644), 0);
  OK(td_keys_write(dir, &second, "b", true));
  OK(td_keys_read(dir, &read));
  assert_memory_equal(&second, &read, sizeof read);
  assert_int_equal(mode_of(in_dir("tide.key")), 0600);
  assert_int_equal(count_names(dir), 2);
}

static void test_wrong_names(void **state) {
  (void)state;
  td_keys_pair pair;
  OK(td_keys_generate(&pair));
  FAILS(td_keys_write(dir, &pair, "a\n" OTHER, false), TD_INVALID_ARGUMENT,
        "one line of text");
  FAILS(td_keys_write("", &pair, "a", false), TD_NOT_FOUND, "");
  write_text("file", "");
  FAILS(td_keys_write(in_dir("file"), &pair, "a", false),
        TD_FAILED_PRECONDITION, "file");
}

/* A secret as a file of that text and mode: the error has `part` in it, and
 * nothing of the secret. */
static void assert_refused(const char *text, mode_t mode, td_code code,
                           const char *part) {
  td_keys_pair pair, none = {0};
  write_text("tide.key", text);
  assert_int_equal(chmod(in_dir("tide.key"), mode), 0);
  memset(&pair, 1, sizeof pair);
  td_status *s = td_keys_read(dir, &pair);
  assert_null(strstr(td_status_message(s), "JR%c"));
  assert_memory_equal(&pair, &none, sizeof none);
  FAILS(s, code, part);
}

static void test_wrong_secrets(void **state) {
  (void)state;
  td_keys_pair pair;
  FAILS(td_keys_read(dir, &pair), TD_NOT_FOUND, "tide keygen makes a pair");
  for (mode_t bit = 1; bit < 0100; bit *= 2)
    assert_refused(SECRET, 0600 | bit, TD_PERMISSION_DENIED, "chmod 600 '");
  assert_refused(SECRET, 0644, TD_PERMISSION_DENIED, "(mode 0644)");
  assert_refused("", 0600, TD_INVALID_ARGUMENT, "tide.key' holds no key");
  assert_refused("# none\n", 0600, TD_INVALID_ARGUMENT, "holds no key");
  assert_refused(
      "\n" SECRET "x\n", 0600, TD_INVALID_ARGUMENT,
      "tide.key', line 2: a key has 40 characters, this word has 41");
  assert_refused("########################################" SECRET, 0600,
                 TD_INVALID_ARGUMENT, "holds no key");
  assert_refused(SECRET "\n" SECRET, 0600, TD_INVALID_ARGUMENT,
                 "line 2: one key was expected");
  char *large = td_malloc(5000);
  memset(large, ' ', 5000);
  large[4999] = '\0';
  assert_refused(large, 0600, TD_INVALID_ARGUMENT, "has 4096 bytes or more");
  td_free(large);
  assert_int_equal(unlink(in_dir("tide.key")), 0);
  assert_int_equal(mkfifo(in_dir("tide.key"), 0600), 0); /* does not block */
  FAILS(td_keys_read(dir, &pair), TD_FAILED_PRECONDITION, "no regular file");
}

static void test_halves_that_do_not_fit(void **state) {
  (void)state;
  td_keys_pair pair;
  write_text("tide.key", SECRET);
  assert_int_equal(chmod(in_dir("tide.key"), 0600), 0);
  write_text("tide.pub", OTHER "  somebody");
  FAILS(td_keys_read(dir, &pair), TD_FAILED_PRECONDITION,
        "tide.pub' is not the public key of the tide.key beside it");
  write_text("tide.pub", PUB "  me\n");
  OK(td_keys_read(dir, &pair));
  write_text("tide.pub", "me\n");
  FAILS(td_keys_read(dir, &pair), TD_INVALID_ARGUMENT, "tide.pub', line 1");
}

static void test_folder_of_the_user(void **state) {
  (void)state;
  td_str folder = {0};
  setenv("XDG_CONFIG_HOME", "/somewhere", 1);
  OK(td_keys_folder(&folder));
  assert_string_equal(folder.at, "/somewhere/tide");
  setenv("XDG_CONFIG_HOME", "not/absolute", 1);
  setenv("HOME", "/home/anna", 1);
  OK(td_keys_folder(&folder));
  assert_string_equal(folder.at, "/home/anna/.config/tide");
  unsetenv("HOME");
  unsetenv("XDG_CONFIG_HOME");
  OK(td_keys_folder(&folder)); /* of the list of users */
  assert_int_equal(folder.at[0], '/');
  td_str_deinit(&folder);
}

/* Each of its steps: afterwards there is the old pair or the new one, or one
 * of each half where it was forced, and no other file. */
static void test_every_step_of_writing_may_fail(void **state) {
  (void)state;
  td_keys_pair pair, read;
  OK(td_keys_generate(&pair));
  for (int way = 0; way < 4; way++)
    for (int64_t n = 1;; n++) {
      bool force = way & 1, files = way & 2;
      const char *name = force ? "forced" : "new";
      if (force) OK(td_keys_write(in_dir(name), &pair, "a", true));
      (void)in_dir(name);
      files ? td_file_fail(n, false) : td_mem_fail(n, false);
      td_status *s = td_keys_write(path, &pair, "a", force);
      files ? td_file_fail(0, false) : td_mem_fail(0, false);
      bool written =
          td_file_exists(in_dir(force ? "forced/tide.key" : "new/tide.key"));
      if (written) OK(td_keys_read(in_dir(name), &read));
      if (td_file_exists(in_dir(name)))
        assert_int_equal(count_names(in_dir(name)), written ? 2 : 0);
      char command[600];
      snprintf(command, sizeof command, "rm -rf '%s'", in_dir(name));
      assert_int_equal(system(command), 0);
      if (td_ok(s)) break;
      FAILS(s, files ? TD_UNAVAILABLE : TD_RESOURCE_EXHAUSTED, "");
    }
}

/* ---- lists --------------------------------------------------------------- */

static const char good_list[] =
    "# who may come in\n"
    "\n"
    "  " OTHER "\tanna@lab # her laptop\r\n"
    "#" PUB " not she\n" PUB "\n" OTHER " again\n"
    "HelloWorldHelloWorldHelloWorldHelloWorld B\xc3\xa9la #1";

static void test_lists(void **state) {
  (void)state;
  td_keys_list *list;
  write_text("list", good_list);
  OK(td_keys_list_read(in_dir("list"), &list));
  assert_int_equal(td_keys_list_count(list), 3);
  td_keys_key key = key_of(OTHER), last = {0};
  assert_string_equal(td_keys_list_find(list, &key), "anna@lab");
  key = key_of(PUB);
  assert_string_equal(td_keys_list_find(list, &key), "");
  key = key_of("HelloWorldHelloWorldHelloWorldHelloWorld");
  assert_string_equal(td_keys_list_find(list, &key), "B\xc3\xa9la");
  key.bytes[31] ^= 1;
  assert_null(td_keys_list_find(list, &key));
  for (size_t i = 0; i < 3; i++) {
    (void)td_keys_list_at(list, i, &key);
    assert_true(memcmp(&last, &key, sizeof key) < 0);
    last = key;
  }
  td_keys_list_free(list);
  td_keys_list_free(NULL);
}

static void test_empty_lists(void **state) {
  (void)state;
  static const char *const empty[] = {"", "\n", "# none", " \t\r\n#\n"};
  for (size_t i = 0; i < TD_COUNT(empty); i++) {
    td_keys_list *list;
    td_keys_key key = key_of(PUB);
    OK(td_keys_list_parse(empty[i], strlen(empty[i]), "x", &list));
    assert_int_equal(td_keys_list_count(list), 0);
    assert_null(td_keys_list_find(list, &key));
    td_keys_list_free(list);
  }
}

static void test_wrong_lists(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } rows[] = {
      {"\nanna " PUB, "x, line 2: a key has 40 characters, this word has 4"},
      {PUB "\n\n" PUB "x", "x, line 3: a key has 40 characters, this word has "
                           "41"},
      {"HelloWorldHelloWorldHelloWorldHelloWor\"d", "x, line 1: these 40 "
                                                    "characters are no key"},
      {PUB " \xff", "line 1: the name behind the key is no text in UTF-8"},
      {PUB " a\x01", "line 1: the name behind the key is no text"},
  };
  td_keys_list *list;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    FAILS(td_keys_list_parse(rows[i].text, strlen(rows[i].text), "x", &list),
          TD_INVALID_ARGUMENT, rows[i].part);
  char text[400];
  snprintf(text, sizeof text, "%s %0256d", PUB, 0);
  FAILS(td_keys_list_parse(text, strlen(text), "x", &list), TD_INVALID_ARGUMENT,
        "the name has 256 bytes, at most 255");
  FAILS(td_keys_list_read(in_dir("none"), &list), TD_NOT_FOUND, "none");
  write_text("list", PUB);
  assert_int_equal(chmod(in_dir("list"), 0666), 0);
  FAILS(td_keys_list_read(in_dir("list"), &list), TD_PERMISSION_DENIED,
        "anybody may write");
}

/* Bytes of a list changed, taken out and put in at random. */
static void test_random_lists(void **state) {
  (void)state;
  uint32_t seed = 7;
  int good = 0;
  for (int i = 0; i < 20000; i++) {
    size_t len = sizeof good_list - 1;
    char *text = td_malloc(len); /* its own size, for the sanitizer */
    memcpy(text, good_list, len);
    for (uint32_t k = draw(&seed) % 4; k > 0; k--)
      text[draw(&seed) % len] =
          draw(&seed) % 2 ? (char)draw(&seed) : "\n# \r\t\0"[draw(&seed) % 6];
    size_t cut = draw(&seed) % 3 ? len : draw(&seed) % len;
    char *own = td_malloc(cut);
    memcpy(own, text, cut);
    td_keys_list *list;
    td_status *s = td_keys_list_parse(own, cut, "x", &list);
    td_free(own);
    td_free(text);
    good += td_ok(s);
    if (!td_ok(s)) {
      FAILS(s, TD_INVALID_ARGUMENT, "x, line ");
      continue;
    }
    for (size_t k = 0; k < td_keys_list_count(list); k++) {
      td_keys_key key;
      const char *name = td_keys_list_at(list, k, &key);
      assert_ptr_equal(td_keys_list_find(list, &key), name);
      assert_true(strlen(name) < 256);
    }
    td_keys_list_free(list);
  }
  assert_in_range(good, 2000, 18000);
}

static void test_lists_without_memory(void **state) {
  (void)state;
  for (int64_t n = 1;; n++) {
    td_keys_list *list = NULL;
    td_mem_fail(n, false);
    td_status *s =
        td_keys_list_parse(good_list, sizeof good_list - 1, "x", &list);
    td_mem_fail(0, false);
    td_keys_list_free(list);
    if (td_ok(s)) break;
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
  }
}

/* ---- what workers leave -------------------------------------------------- */

static void assert_found(const char *address, const char *key) {
  td_keys_key found;
  OK(td_keys_find(address, &found));
  assert_key(&found, key);
}

static void assert_not_found(const char *address, const char *part) {
  td_keys_key found;
  FAILS(td_keys_find(address, &found), TD_NOT_FOUND, part);
}

static void test_left_keys(void **state) {
  (void)state;
  td_keys_key key = key_of(PUB), other = key_of(OTHER);
  assert_not_found("tcp://localhost:8888", "no worker of this user has left");
  OK(td_keys_leave("tcp://*:8888", &key));
  assert_int_equal(mode_of(in_dir("tide")), 0700);
  OK(td_keys_leave("tcp://127.0.0.1:8889", &other));
  OK(td_keys_leave("ipc:///tmp/a/worker-1", &other));
  static const char *const here[] = {
      "tcp://localhost:8888", "localhost:8888",   "tcp://127.0.0.1:8888",
      "tcp://127.8.9.1:8888", "tcp://[::1]:8888", "tcp://0.0.0.0:08888"};
  for (size_t i = 0; i < TD_COUNT(here); i++) assert_found(here[i], PUB);
  char name[300], address[400];
  assert_int_equal(gethostname(name, sizeof name), 0);
  snprintf(address, sizeof address, "tcp://%s:8888", name);
  assert_found(address, PUB);
  assert_found("tcp://localhost:8889", OTHER);
  assert_found("ipc:///tmp/a/worker-1", OTHER);
  assert_not_found("tcp://localhost:8890", "in '");
  assert_not_found("ipc:///tmp/a/worker-2", "worker-2.pub");
  assert_not_found("tcp://192.0.2.1:8888", "'192.0.2.1' is another machine");
  assert_not_found("tcp://lab.example:8888", "stands in tide.pub there");
}

static void test_left_keys_go(void **state) {
  (void)state;
  td_keys_key key = key_of(PUB), other = key_of(OTHER);
  OK(td_keys_remove("tcp://*:1", &key)); /* nothing is there */
  OK(td_keys_leave("tcp://*:1", &key));
  OK(td_keys_leave("tcp://*:1", &other));
  OK(td_keys_remove("tcp://*:1", &key)); /* another's by now */
  assert_found("tcp://localhost:1", OTHER);
  OK(td_keys_remove("tcp://*:1", &other));
  assert_not_found("tcp://localhost:1", "");
  assert_int_equal(count_names(in_dir("tide")), 0);
  OK(td_keys_leave("tcp://*:1", &key));
  write_text("tide/1.pub", PUB "\n" OTHER);
  td_keys_key found;
  FAILS(td_keys_find("tcp://localhost:1", &found), TD_DATA_LOSS,
        "does not hold one key");
  write_text("tide/1.pub", "x");
  FAILS(td_keys_find("tcp://localhost:1", &found), TD_INVALID_ARGUMENT,
        "1.pub, line 1");
}

static void test_wrong_addresses(void **state) {
  (void)state;
  static const char *const wrong[] = {"",          "tcp://",      "h",
                                      "h:",        ":1",          "h:0",
                                      "h:65536",   "h:1x",        "h:-1",
                                      "h:999999",  "tcp://a/b:1", "http://h:1",
                                      "ipc://",    "ipc:///",     "ipc:///a/",
                                      "ipc:///..", "ipc:///a/.",  "[]:1"};
  td_keys_key key = key_of(PUB);
  for (size_t i = 0; i < TD_COUNT(wrong); i++) {
    td_status *s = td_keys_leave(wrong[i], &key);
    if (!s) fail_msg("%s is taken", wrong[i]);
    FAILS(s, TD_INVALID_ARGUMENT, "write tcp://host:port or ipc:///path");
  }
  char text[600];
  memset(text, 'x', sizeof text);
  memcpy(text, "ipc:///", 7);
  text[500] = '\0';
  FAILS(td_keys_leave(text, &key), TD_INVALID_ARGUMENT, "names no socket");
  memcpy(text, "tcp://x", 7);
  strcpy(text + 400, ":1");
  FAILS(td_keys_leave(text, &key), TD_INVALID_ARGUMENT, "has no host");
}

static void test_random_addresses(void **state) {
  (void)state;
  static const char signs[] = "tcpi:/.[]*019a%-_ \n\xff";
  uint32_t seed = 3;
  td_keys_key key = key_of(PUB);
  for (int i = 0; i < 5000; i++) {
    char text[64] = "tcp://";
    size_t n = i % 2 ? 6 : 0, more = draw(&seed) % 20;
    for (size_t k = 0; k < more; k++)
      text[n++] = signs[draw(&seed) % (sizeof signs - 1)];
    text[n] = '\0';
    td_status *s = td_keys_find(text, &key);
    td_code code = td_status_code(s);
    assert_true(code == TD_NOT_FOUND || code == TD_INVALID_ARGUMENT);
    td_status_release(s);
  }
}

static void test_folders_of_others(void **state) {
  (void)state;
  td_keys_key key = key_of(PUB);
  assert_int_equal(mkdir(in_dir("tide"), 0700), 0);
  for (mode_t bit = 1; bit < 0100; bit *= 2) {
    assert_int_equal(chmod(in_dir("tide"), 0700 | bit), 0);
    FAILS(td_keys_leave("h:1", &key), TD_PERMISSION_DENIED, "open to others");
    FAILS(td_keys_find("localhost:1", &key), TD_PERMISSION_DENIED,
          "open to others");
    FAILS(td_keys_remove("h:1", &key), TD_PERMISSION_DENIED, "(mode 07");
  }
  assert_int_equal(rmdir(in_dir("tide")), 0);
  assert_int_equal(mkdir(in_dir("real"), 0700), 0);
  char target[512];
  snprintf(target, sizeof target, "%s", path);
  assert_int_equal(symlink(target, in_dir("tide")), 0);
  FAILS(td_keys_leave("h:1", &key), TD_PERMISSION_DENIED, "is a link");
  assert_int_equal(unlink(in_dir("tide")), 0);
  write_text("tide", "");
  FAILS(td_keys_leave("h:1", &key), TD_PERMISSION_DENIED, "is no folder");
  setenv("XDG_RUNTIME_DIR", "/nowhere/of/tests", 1);
  FAILS(td_keys_leave("h:1", &key), TD_NOT_FOUND, "/nowhere/of/tests/tide");
}

/* Only root can make such a folder. */
static void keys_of_another_user(void **state) {
  (void)state;
  td_keys_key key = key_of(PUB);
  if (geteuid() != 0) skip();
  assert_int_equal(mkdir(in_dir("tide"), 0700), 0);
  assert_int_equal(chown(path, 54321, 54321), 0);
  FAILS(td_keys_leave("h:1", &key), TD_PERMISSION_DENIED,
        "belongs to user 54321: remove it, or set XDG_RUNTIME_DIR");
}

static void test_without_a_runtime_folder(void **state) {
  (void)state;
  char want[64];
  td_str folder = {0};
  static const char *const none[] = {NULL, "", "not/absolute"};
  snprintf(want, sizeof want, "/tmp/tide-%u", (unsigned)geteuid());
  for (size_t i = 0; i < TD_COUNT(none); i++) {
    unsetenv("XDG_RUNTIME_DIR");
    if (none[i]) setenv("XDG_RUNTIME_DIR", none[i], 1);
    OK(td_keys_runtime_folder(&folder));
    assert_string_equal(folder.at, want);
    assert_int_equal(mode_of(want), 0700);
  }
  td_str_deinit(&folder);
}

static void test_every_step_of_leaving_may_fail(void **state) {
  (void)state;
  td_keys_key key = key_of(PUB), found;
  for (int files = 0; files < 2; files++)
    for (int64_t n = 1;; n++) {
      files ? td_file_fail(n, false) : td_mem_fail(n, false);
      td_status *s = td_keys_leave("h:1", &key);
      if (td_ok(s)) s = td_keys_find("localhost:1", &found);
      if (td_ok(s)) s = td_keys_remove("h:1", &key);
      files ? td_file_fail(0, false) : td_mem_fail(0, false);
      if (td_ok(s)) break;
      FAILS(s, files ? TD_UNAVAILABLE : TD_RESOURCE_EXHAUSTED, "");
    }
  assert_int_equal(count_names(in_dir("tide")), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_text),
      TEST(test_no_keys),
      TEST(test_any_bytes),
      TEST(test_a_pair),
      TEST(test_is_zeromqs),
      TEST(test_is_not_overwritten),
      TEST(test_wrong_names),
      TEST(test_wrong_secrets),
      TEST(test_halves_that_do_not_fit),
      TEST(test_folder_of_the_user),
      TEST(test_every_step_of_writing_may_fail),
      TEST(test_lists),
      TEST(test_empty_lists),
      TEST(test_wrong_lists),
      TEST(test_random_lists),
      TEST(test_lists_without_memory),
      TEST(test_left_keys),
      TEST(test_left_keys_go),
      TEST(test_wrong_addresses),
      TEST(test_random_addresses),
      TEST(test_folders_of_others),
      TEST(keys_of_another_user),
      TEST(test_without_a_runtime_folder),
      TEST(test_every_step_of_leaving_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
