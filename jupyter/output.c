/* output.c - the text of each cell, put together and limited.
 *
 * Up to three quarters of the limit go out as they come. From then on text goes
 * to a file, which begins with what was shown, and the last quarter of the
 * limit (the cell's *tail*, a list of chunks) is kept to be shown when the cell
 * ends: with a limit of 1 MiB, the first 768 KiB, a line that names the file,
 * and the last 256 KiB.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "jupyter/text.h"

enum { CHUNK = 1 << 14, MOST_FILES = 64 };

/* Text of one stream, in the order it came. */
typedef struct chunk {
  struct chunk *next;
  int stream;
  td_str text;
} chunk;

struct td_jupyter_cell {
  td_jupyter_cell *next;
  td_jupyter_request *parent;
  bool silent;
  char part[3][4]; /* of each stream: a character that is not whole */
  size_t n_part[3];
  td_str shown; /* what was sent, for the start of the file; then empty */
  bool over;    /* the limit was reached */
  int fd;       /* of the file, or -1 */
  char *path;
  chunk *first, *last; /* the tail */
  size_t tail;         /* its bytes */
  size_t lines, bytes; /* left out between what was shown and the tail */
};

void td_jupyter_output_init(td_jupyter_output *o, size_t limit,
                            td_jupyter_output_sink *sink, void *arg) {
  *o = (td_jupyter_output){.limit = limit, .sink = sink, .arg = arg};
}

/* ---- the limit ---- */

static size_t count_lines(const char *text, size_t len) {
  size_t n = 0;
  for (const char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text)));
       p++)
    n++;
  return n;
}

static void say(td_jupyter_output *o, td_jupyter_cell *c, const char *fmt, ...)
    TD_PRINTF(3, 4);
static void say(td_jupyter_output *o, td_jupyter_cell *c, const char *fmt,
                ...) {
  td_str text;
  va_list args;
  td_str_init(&text);
  va_start(args, fmt);
  td_str_addv(&text, fmt, args);
  va_end(args);
  o->sink(o->arg, c->parent, 2, td_str_c(&text), text.len);
  td_str_deinit(&text);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names begin with the time, so the oldest come first. */
static void remove_oldest(const char *folder) {
  td_str names;
  char *list[4 * MOST_FILES];
  int n = 0;
  td_str_init(&names);
  td_status_release(td_file_list(folder, &names));
  for (size_t i = 0; i < names.len && n < 4 * MOST_FILES;
       i += strlen(names.at + i) + 1)
    list[n++] = names.at + i;
  qsort(list, (size_t)n, sizeof *list, by_name);
  for (int i = 0; i + MOST_FILES <= n; i++) {
    td_str path;
    td_str_init(&path);
    td_str_addf(&path, "%s/%s", folder, list[i]);
    unlink(td_str_c(&path));
    td_str_deinit(&path);
  }
  td_str_deinit(&names);
}

/* tide/output in the folder where programs keep their state. */
static void add_folder(td_str *out) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  if (state && *state == '/')
    td_str_addf(out, "%s/tide/output", state);
  else
    td_str_addf(out, "%s/.local/state/tide/output", home ? home : "");
}

static void open_file(td_jupyter_output *o, td_jupyter_cell *c) {
  td_str path;
  td_str_init(&path);
  add_folder(&path);
  td_status *s = td_file_mkdirs(td_str_c(&path));
  if (td_ok(s)) remove_oldest(td_str_c(&path));
  td_status_release(s);
  td_str_addf(&path, "/%lld-%d-%d.txt", (long long)time(NULL), (int)getpid(),
              ++o->n_files);
  c->fd = open(td_str_c(&path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  c->path = td_str_take(&path);
  td_str_deinit(&path);
}

/* False once the disk takes no more. */
static bool keep(td_jupyter_cell *c, const char *text, size_t len) {
  while (c->fd >= 0 && len) {
    ssize_t n = write(c->fd, text, len);
    if (n <= 0) {
      close(c->fd);
      c->fd = -1;
    } else {
      text += n;
      len -= (size_t)n;
    }
  }
  return c->fd >= 0;
}

static void start_file(td_jupyter_output *o, td_jupyter_cell *c) {
  c->over = true;
  open_file(o, c);
  bool kept = keep(c, td_str_c(&c->shown), c->shown.len);
  td_str_deinit(&c->shown);
  td_str_init(&c->shown);
  if (kept)
    say(o, c,
        "\n[more output than %zu bytes: the rest goes to %s; its end is "
        "shown when the cell is done]\n",
        o->limit, c->path);
  else
    say(o, c,
        "\n[more output than %zu bytes; no file could be written to %s; "
        "its end is shown when the cell is done]\n",
        o->limit, c->path ? c->path : "keep it");
}

static void drop_first(td_jupyter_cell *c) {
  chunk *k = c->first;
  c->first = k->next;
  if (!c->first) c->last = NULL;
  c->tail -= k->text.len;
  c->bytes += k->text.len;
  c->lines += count_lines(td_str_c(&k->text), k->text.len);
  td_str_deinit(&k->text);
  td_free(k);
}

/* Small against the limit: the tail loses whole pieces. */
static size_t piece(const td_jupyter_output *o) {
  size_t n = o->limit / 32 + 8;
  return n < CHUNK ? n : CHUNK;
}

static void add_tail(td_jupyter_output *o, td_jupyter_cell *c, int stream,
                     const char *text, size_t len) {
  chunk *k = c->last;
  if (!k || k->stream != stream || k->text.len + len > piece(o)) {
    k = td_calloc(1, sizeof *k);
    if (!k) return;
    k->stream = stream;
    td_str_init(&k->text);
    if (c->last)
      c->last->next = k;
    else
      c->first = k;
    c->last = k;
  }
  td_str_addn(&k->text, text, len);
  c->tail += len;
  while (c->first != c->last && c->tail > o->limit / 4) drop_first(c);
}

/* A long piece enters the tail in parts, of which the last stay. */
static void add_over(td_jupyter_output *o, td_jupyter_cell *c, int stream,
                     const char *text, size_t len) {
  keep(c, text, len);
  while (len) {
    size_t n = len < piece(o) ? len : piece(o);
    if (n < len) n -= td_jupyter_text_partial(text, n);
    add_tail(o, c, stream, text, n);
    text += n;
    len -= n;
  }
}

static void limited(td_jupyter_output *o, td_jupyter_cell *c, int stream,
                    const char *text, size_t len) {
  size_t head = o->limit - o->limit / 4;
  if (!o->limit) {
    o->sink(o->arg, c->parent, stream, text, len);
    return;
  }
  if (!c->over) {
    size_t n = len < head - c->shown.len ? len : head - c->shown.len;
    if (n < len) {
      const char *end = memrchr(text, '\n', n);
      n = end ? (size_t)(end - text) + 1 : n - td_jupyter_text_partial(text, n);
    }
    if (n) o->sink(o->arg, c->parent, stream, text, n);
    td_str_addn(&c->shown, text, n);
    text += n;
    len -= n;
    if (len) start_file(o, c);
  }
  if (len) add_over(o, c, stream, text, len);
}

static void show_tail(td_jupyter_output *o, td_jupyter_cell *c) {
  if (c->bytes) {
    chunk *k = c->first;
    const char *end = k ? memchr(td_str_c(&k->text), '\n', k->text.len) : NULL;
    size_t n = end ? (size_t)(end - k->text.at) + 1 : 0;
    c->bytes += n;
    c->lines += n > 0;
    say(o, c,
        "[%zu lines (%zu bytes) are left out here; everything is in "
        "%s]\n",
        c->lines, c->bytes, c->path ? c->path : "no file");
    if (n) {
      memmove(k->text.at, k->text.at + n, k->text.len - n);
      k->text.len -= n;
    }
  }
  for (chunk *k = c->first; k; k = k->next)
    if (k->text.len)
      o->sink(o->arg, c->parent, k->stream, td_str_c(&k->text), k->text.len);
}

/* ---- cells ---- */

static td_jupyter_cell *find(td_jupyter_output *o, td_jupyter_request *parent) {
  for (td_jupyter_cell *c = o->first; c; c = c->next)
    if (c->parent == parent) return c;
  td_jupyter_cell *c = td_calloc(1, sizeof *c);
  if (!c) return NULL;
  c->parent = td_jupyter_request_retain(parent);
  c->silent = parent && td_jupyter_request_flag(parent, "silent", false);
  c->fd = -1;
  td_str_init(&c->shown);
  c->next = o->first;
  o->first = c;
  return c;
}

void td_jupyter_output_text(td_jupyter_output *o, td_jupyter_request *parent,
                            int stream, const char *text, size_t len) {
  td_jupyter_cell *c = find(o, parent);
  if (!c || c->silent || !len) return;
  td_str whole;
  td_str_init(&whole);
  td_str_addn(&whole, c->part[stream], c->n_part[stream]);
  td_str_addn(&whole, text, len);
  c->n_part[stream] = td_jupyter_text_partial(td_str_c(&whole), whole.len);
  whole.len -= c->n_part[stream];
  memcpy(c->part[stream], td_str_c(&whole) + whole.len, c->n_part[stream]);
  if (whole.len && memchr(whole.at, '\r', whole.len)) {
    td_str seen;
    td_str_init(&seen);
    td_jupyter_text_collapse(&seen, td_str_c(&whole), whole.len);
    limited(o, c, stream, td_str_c(&seen), seen.len);
    td_str_deinit(&seen);
  } else if (whole.len) {
    limited(o, c, stream, td_str_c(&whole), whole.len);
  }
  td_str_deinit(&whole);
}

static void output_free(td_jupyter_cell *c) {
  if (c->fd >= 0) close(c->fd);
  while (c->first) drop_first(c);
  td_str_deinit(&c->shown);
  td_jupyter_request_release(c->parent);
  td_free(c->path);
  td_free(c);
}

void td_jupyter_output_end(td_jupyter_output *o, td_jupyter_request *parent) {
  td_jupyter_cell **at = &o->first;
  while (*at && (*at)->parent != parent) at = &(*at)->next;
  td_jupyter_cell *c = *at;
  if (!c) return;
  for (int stream = 1; stream <= 2; stream++)
    if (c->n_part[stream])
      limited(o, c, stream, c->part[stream], c->n_part[stream]);
  if (c->over) show_tail(o, c);
  *at = c->next;
  output_free(c);
}

void td_jupyter_output_deinit(td_jupyter_output *o) {
  while (o->first) td_jupyter_output_end(o, o->first->parent);
}
