/* table_file.c - InitializeTableFromTextFileV2: a lookup table from the lines
 * of a file.
 *
 * A key or a value is a column, the whole line (index -2) or the line's number
 * (-1). Lines end with "\n" or "\r\n", the last one perhaps with neither. The
 * file is read on an I/O thread, a block at a time, into a map of its own,
 * which the table gets at the end: an error leaves it as it was. Whoever looks
 * something up meanwhile waits for the table's lock, and no thread with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "engine/base/file_stop.h"
#include "engine/base/file_stream.h"
#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "kernels/string_number.h"
#include "kernels/cost.h"
#include "kernels/table.h"
#include "kernels/text.h"

enum { NUMBER = -1, WHOLE = -2 }; /* of key_index and value_index */
enum { BLOCK = 1 << 18 };

typedef struct reading {
  td_task task; /* first */
  td_kernel_ctx *c;
  td_table *t;
  char *path; /* owned */
  int64_t key_index, value_index, most, offset;
  char delimiter;
  td_table_map map; /* what was read */
  int64_t lines;
  td_tensor number; /* of one element: numbers are read into it */
  td_file_stop stop;
} reading;

/* A kernel's `work` is its reading while this is read. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- one line ------------------------------------------------------------ */

/* An error of the line that is read. Takes ownership of `s`. */
static td_status *in_line(const reading *r, td_status *s) {
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *told =
      td_error(td_status_code(s), "line %lld of %s: %s",
               (long long)r->lines + 1, r->path, td_status_message(s));
  td_status_release(s);
  return told;
}

static td_status *column(const reading *r, td_bytes line, int64_t index,
                         td_bytes *out) {
  const char *at = line.at, *end = line.at + line.len, *stop;
  for (int64_t i = 0;; i++) {
    stop = memchr(at, r->delimiter, (size_t)(end - at));
    if (i == index) break;
    if (!stop)
      return td_error(TD_INVALID_ARGUMENT,
                      "%lld columns (\"%.*s\"), and column %lld, from 0, is "
                      "asked for",
                      (long long)i + 1, td_text_shown(line), line.at,
                      (long long)index);
    at = stop + 1;
  }
  *out = (td_bytes){at, (size_t)((stop ? stop : end) - at)};
  return NULL;
}

/* A field as `dtype`: of a string *text, else r->number's element. */
static td_status *field(reading *r, td_bytes line, int64_t index,
                        td_dtype dtype, td_bytes *text) {
  if (index == NUMBER) {
    td_tensor_set_i(&r->number, 0, r->offset + r->lines);
    return NULL;
  }
  *text = line;
  if (index >= 0) TD_TRY(column(r, line, index, text));
  if (dtype == TD_STRING) return NULL;
  bool done;
  TD_TRY(td_string_number_put(*text, &r->number, 0, &done));
  if (done) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "\"%.*s\" is no %s",
                  td_text_shown(*text), text->at, td_dtype_name(dtype));
}

static td_status *key_of(reading *r, td_bytes line, td_table_key *key) {
  td_bytes text = {0};
  r->number.dtype = r->map.key == TD_STRING ? TD_INT64 : r->map.key;
  TD_TRY(field(r, line, r->key_index, r->map.key, &text));
  if (r->map.key == TD_STRING)
    td_table_map_key_text(&r->map, text, key);
  else
    td_table_map_key_int(&r->map, td_tensor_get_i(&r->number, 0), key);
  return NULL;
}

static td_status *read_line(reading *r, td_bytes line) {
  td_table_key key;
  td_bytes text = {0};
  if (line.len && line.at[line.len - 1] == '\r') line.len--;
  if (line.len == 0) return td_error(TD_INVALID_ARGUMENT, "it is empty");
  TD_TRY(key_of(r, line, &key));
  r->number.dtype = r->map.value == TD_STRING ? TD_INT64 : r->map.value;
  TD_TRY(field(r, line, r->value_index, r->map.value, &text));
  return td_table_add_once(&r->map, &key,
                           r->map.value == TD_STRING ? &text : r->number.data);
}

/* ---- all lines ----------------------------------------------------------- */

static bool enough(const reading *r) {
  return r->most >= 0 && r->lines >= r->most;
}

/* The lines in `len` bytes, of which *used are done; a last one without its end
 * counts when there is nothing behind it. */
static td_status *read_lines(reading *r, const char *at, size_t len, bool last,
                             size_t *used) {
  const char *from = at, *end = at + len;
  while (from < end && !enough(r)) {
    const char *stop = memchr(from, '\n', (size_t)(end - from));
    if (!stop && !last) break;
    size_t n = (size_t)((stop ? stop : end) - from);
    TD_TRY(in_line(r, read_line(r, (td_bytes){from, n})));
    r->lines++;
    from += stop ? n + 1 : n;
  }
  *used = (size_t)(from - at);
  return NULL;
}

/* Room for a block behind the `len` bytes of an unfinished line. */
static td_status *make_room(char **bytes, size_t *room, size_t len) {
  size_t want;
  if (*room - len >= BLOCK) return NULL;
  if (!td_mul(len, 2, &want) || !td_add(want, BLOCK, &want)) return td_oom();
  char *more = td_realloc(*bytes, want);
  if (!more) return td_oom();
  *bytes = more;
  *room = want;
  return NULL;
}

static td_status *read_blocks(reading *r, td_file *f, char **bytes) {
  size_t room = 0, len = 0, got = BLOCK, used;
  for (uint64_t at = 0; got > 0 && !enough(r); at += got) {
    if (td_stopped(r->c))
      return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
    TD_TRY(make_room(bytes, &room, len));
    TD_TRY(td_file_read_at(f, at, *bytes + len, BLOCK, &got));
    len += got;
    TD_TRY(read_lines(r, *bytes, len, got == 0, &used));
    memmove(*bytes, *bytes + used, len - used);
    len -= used;
  }
  return NULL;
}

static td_status *check_count(const reading *r) {
  if (r->lines == 0)
    return td_error(TD_OUT_OF_RANGE,
                    r->most == 0 ? "of %s no lines are to be read: vocab_size "
                                   "is 0"
                                 : "%s has no lines",
                    r->path);
  if (r->most < 0 || r->lines == r->most) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s has %lld lines, and vocab_size is %lld", r->path,
                  (long long)r->lines, (long long)r->most);
}

static td_status *read_file(reading *r) {
  td_file *f = NULL;
  char *bytes = NULL;
  TD_TRY(td_file_open(r->path, TD_FILE_READ, &f));
  td_status *s = read_blocks(r, f, &bytes);
  td_free(bytes);
  s = td_status_first(s, td_file_close(f));
  return td_ok(s) ? check_count(r) : s;
}

/* ---- the kernel ---------------------------------------------------------- */

static void reading_free(reading *r) {
  td_file_stop_deinit(&r->stop);
  td_table_map_deinit(&r->map);
  td_tensor_release(&r->number);
  td_free(r->path);
  td_free(r);
}

static void set_work(td_kernel_ctx *c, reading *r) {
  pthread_mutex_lock(&lock);
  c->work = r;
  pthread_mutex_unlock(&lock);
}

/* On an I/O thread; the table's lock is held. */
static void read_task(td_task *task) {
  reading *r = (reading *)task;
  td_kernel_ctx *c = r->c;
  td_file_stop *outer = td_file_stop_enter(&r->stop);
  td_status *s = read_file(r);
  td_file_stop_leave(outer);
  set_work(c, NULL);
  if (td_ok(s)) {
    s = td_table_adopt(r->t, &r->map);
    r->map = (td_table_map){0};
  }
  reading_free(r);
  td_kernel_done(c, s);
}

static td_status *check_index(const char *what, int64_t index, td_dtype t) {
  bool number =
      t == TD_INT32 || t == TD_INT64 || t == TD_FLOAT32 || t == TD_FLOAT64;
  if (index == NUMBER && t != TD_INT64)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s_index -1, the line's number, is int64, and the table "
                    "has %ss of %s",
                    what, what, td_dtype_name(t));
  if (t == TD_STRING || number) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%ss of %s cannot be read from a file of text", what,
                  td_dtype_name(t));
}

static td_status *check_name(const td_tensor *t) {
  td_shape_text text;
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "filename must be a scalar, not of shape %s",
                    td_shape_str(&t->shape, &text));
  td_bytes path = td_text_at(t, 0);
  if (memchr(path.at, '\0', path.len) || path.len == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "filename \"%.*s\" is empty or has a NUL in it",
                    td_text_shown(path), path.at);
  return NULL;
}

static td_status *read_node(reading *r, const td_node *n) {
  const char *delimiter = td_node_string(n, "delimiter");
  r->key_index = td_node_int(n, "key_index");
  r->value_index = td_node_int(n, "value_index");
  r->most = td_node_int(n, "vocab_size");
  r->offset = td_node_int(n, "offset");
  r->delimiter = delimiter[0];
  if (td_node_attr(n, "delimiter")->s.len != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "delimiter must be one byte, not \"%.60s\"", delimiter);
  if (r->offset < -(INT64_C(1) << 62) || r->offset > INT64_C(1) << 62)
    return td_error(TD_INVALID_ARGUMENT, "offset %lld is too large",
                    (long long)r->offset);
  TD_TRY(check_index("key", r->key_index, r->t->map.key));
  return check_index("value", r->value_index, r->t->map.value);
}

static td_status *prepare(td_kernel_ctx *c, reading *r) {
  const td_tensor *name = td_in(c, 1);
  r->c = c;
  r->task.run = read_task;
  TD_TRY(td_table_in(c, &r->t));
  TD_TRY(td_table_initializable(r->t));
  TD_TRY(check_name(name));
  TD_TRY(read_node(r, td_ctx_node(c)));
  TD_TRY(td_table_fresh(r->t, &r->map));
  TD_TRY(td_tensor_scalar_i(TD_INT64, 0, &r->number));
  td_bytes path = td_text_at(name, 0);
  r->path = td_strndup(path.at, path.len);
  return r->path ? NULL : td_oom();
}

static void read_start(td_kernel_ctx *c) {
  reading *r = td_calloc(1, sizeof *r);
  td_status *s = r ? prepare(c, r) : td_oom();
  if (td_ok(s)) set_work(c, r);
  if (td_ok(s) && td_io_submit(&r->task)) return;
  set_work(c, NULL);
  if (td_ok(s))
    s = td_error(TD_RESOURCE_EXHAUSTED,
                 "no thread is free to read %s: too many files are read",
                 r->path);
  if (r) reading_free(r);
  td_kernel_done(c, s);
}

/* Between blocks the reader looks whether the step goes on; within one it may
 * wait for bytes. */
static void read_cancel(td_kernel_ctx *c) {
  pthread_mutex_lock(&lock);
  reading *r = c->work;
  if (r) td_file_stop_fire(&r->stop);
  pthread_mutex_unlock(&lock);
}

static void read_why(const td_kernel_ctx *c, td_str *out) {
  td_bytes path = td_text_at(td_in(c, 1), 0);
  td_str_addf(out, "the file %.*s", td_text_shown(path), path.at);
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *read_infer(td_infer *c) {
  return td_infer_rank(c, 1, 0, "filename", NULL);
}

static const td_op_def ops[] = {
    {.type = "InitializeTableFromTextFileV2",
     .old = "InitializeTableFromTextFile",
     .sig = "table_handle: resource, filename: string ->; "
            "key_index: int >= -2; value_index: int >= -2; "
            "vocab_size: int >= -1 = -1; delimiter: string = \"\\t\"; "
            "offset: int = 0",
     .shape = read_infer,
     .cost = td_cost_none,
     .doc = "Gives a table its keys and values from the lines of a file: "
            "columns, whole lines (-2) or their numbers (-1).",
     .section = "Lookup tables",
     .lua = "",
     .host = "*",
     .flags = TD_STATEFUL | TD_NO_GRADIENT},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "InitializeTableFromTextFileV2",
     .device = "CPU",
     .start = read_start,
     .cancel = read_cancel,
     .why = read_why,
     .exclusive = "table_handle"},
    {0},
};

TD_MODULE(table_file, ops, kernels)
