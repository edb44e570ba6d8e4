/* request.c - a message from a client.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/request.h"

#include <jansson.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/mem.h"
#include "engine/base/reserve.h"

enum { MOST_FRAMES = 1024, BUFFERS = TD_JUPYTER_PART_CONTENT + 1 };

struct td_jupyter_request {
  int refs; /* atomic */
  zmq_msg_t *frames;
  int n, delimiter; /* frames, and where the delimiter is among them */
  json_t *content;
  char *type, *subshell, *parent_id;
  char *problem; /* why a part behind the header cannot be read, or NULL */
};

td_jupyter_request *td_jupyter_request_retain(td_jupyter_request *r) {
  if (r) __atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
  return r;
}

void td_jupyter_request_release(td_jupyter_request *r) {
  if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL)) return;
  for (int i = 0; i < r->n; i++) zmq_msg_close(&r->frames[i]);
  td_free(r->frames);
  json_decref(r->content);
  td_free(r->type);
  td_free(r->subshell);
  td_free(r->parent_id);
  td_free(r->problem);
  td_free(r);
}

/* ---- frames ---- */

static td_bytes frame(const td_jupyter_request *r, int i) {
  return (td_bytes){zmq_msg_data(&r->frames[i]), zmq_msg_size(&r->frames[i])};
}

/* All frames are taken, also when they are too many to be kept. */
static td_status *take_frames(void *socket, td_jupyter_request *r) {
  int more = 1, cap = 0;
  td_status *s = NULL;
  for (int first = 1; more; first = 0) {
    zmq_msg_t f;
    zmq_msg_init(&f);
    if (zmq_msg_recv(&f, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&f);
      return first ? td_error(TD_UNAVAILABLE, "no message") : s;
    }
    more = zmq_msg_more(&f);
    if (r->n == cap && td_ok(s)) {
      cap = cap ? 2 * cap : 8;
      zmq_msg_t *wider = cap > MOST_FRAMES
                             ? NULL
                             : td_realloc(r->frames, (size_t)cap * sizeof f);
      if (wider) r->frames = wider;
      if (!wider) s = td_error(TD_RESOURCE_EXHAUSTED, "too many frames");
    }
    if (td_ok(s)) {
      zmq_msg_init(&r->frames[r->n]);
      zmq_msg_move(&r->frames[r->n++], &f);
    }
    zmq_msg_close(&f);
  }
  return s;
}

static td_status *copy_frames(const td_bytes *frames, int n,
                              td_jupyter_request *r) {
  r->frames = td_calloc((size_t)n, sizeof *r->frames);
  if (!r->frames) return td_oom();
  for (int i = 0; i < n; i++) {
    if (zmq_msg_init_size(&r->frames[i], frames[i].len) != 0) return td_oom();
    r->n++;
    if (frames[i].len)
      memcpy(zmq_msg_data(&r->frames[i]), frames[i].at, frames[i].len);
  }
  return NULL;
}

static bool find_delimiter(td_jupyter_request *r) {
  size_t n = strlen(TD_JUPYTER_DELIMITER);
  for (int i = 0; i < r->n; i++) {
    td_bytes f = frame(r, i);
    r->delimiter = i;
    if (f.len == n && !memcmp(f.at, TD_JUPYTER_DELIMITER, n))
      return r->n >= i + BUFFERS;
  }
  return false;
}

static td_jupyter_request *request_new(void) {
  td_jupyter_request *r = td_calloc(1, sizeof *r);
  if (r) r->refs = 1;
  return r;
}

/* Takes `r` over, whose frames are there unless `s` says otherwise. */
static td_status *finish(td_jupyter_request *r, td_status *s,
                         td_jupyter_request **out) {
  if (td_ok(s) && !find_delimiter(r))
    s = td_error(TD_INVALID_ARGUMENT, "frames of no message");
  if (td_ok(s))
    *out = r;
  else
    td_jupyter_request_release(r);
  return s;
}

td_status *td_jupyter_request_receive(void *socket, td_jupyter_request **out) {
  *out = NULL;
  td_jupyter_request *r = request_new();
  return r ? finish(r, take_frames(socket, r), out) : td_oom();
}

td_status *td_jupyter_request_make(const td_bytes *frames, int n,
                                   td_jupyter_request **out) {
  *out = NULL;
  td_jupyter_request *r = request_new();
  return r ? finish(r, copy_frames(frames, n, r), out) : td_oom();
}

/* ---- JSON ---- */

static td_status *copy_text(json_t *object, const char *key, char **out) {
  const char *text = json_string_value(json_object_get(object, key));
  *out = td_strdup(text ? text : "");
  return *out ? NULL : td_oom();
}

/* Caller owns *out. Integers are read as reals: nothing here looks at numbers,
 * and a client may write 1e20 or 30 digits where JSON has no bounds. */
static td_status *parse_part(const td_jupyter_request *r, td_jupyter_part part,
                             json_t **out) {
  static const char *const names[] = {
      "", "", "header", "parent header", "metadata", "content"};
  td_bytes b = td_jupyter_request_part(r, part);
  json_error_t e = {.text = "it is something else"};
  size_t flags = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
  *out = json_loadb(b.at, b.len, flags, &e);
  bool refused = !*out && !e.text[0]; /* no memory: it has no word for that */
  if (refused && td_reserve_spend()) *out = json_loadb(b.at, b.len, flags, &e);
  if (json_is_object(*out)) return NULL;
  bool other = *out;
  json_decref(*out);
  *out = NULL;
  if (other || e.position < 0)
    return td_error(TD_DATA_LOSS, "the %s of a message is no JSON object",
                    names[part]);
  return td_error(TD_DATA_LOSS,
                  "the %s of a message cannot be read: %s (at byte %d)",
                  names[part], e.text, e.position);
}

static td_status *parse_header(td_jupyter_request *r) {
  json_t *header = NULL;
  td_status *s = parse_part(r, TD_JUPYTER_PART_HEADER, &header);
  if (td_ok(s)) s = copy_text(header, "msg_type", &r->type);
  if (td_ok(s)) s = copy_text(header, "subshell_id", &r->subshell);
  json_decref(header);
  if (td_ok(s) && !r->type[0])
    s = td_error(TD_DATA_LOSS, "the header of a message has no msg_type");
  return s;
}

/* Of the metadata nothing is needed here, but it must be an object too. */
static td_status *parse_rest(td_jupyter_request *r) {
  json_t *parent = NULL, *metadata = NULL;
  td_status *s = parse_part(r, TD_JUPYTER_PART_PARENT, &parent);
  td_status *copied = copy_text(parent, "msg_id", &r->parent_id);
  if (td_ok(s)) s = parse_part(r, TD_JUPYTER_PART_METADATA, &metadata);
  if (td_ok(s)) s = parse_part(r, TD_JUPYTER_PART_CONTENT, &r->content);
  json_decref(parent);
  json_decref(metadata);
  return td_status_first(copied, s);
}

td_status *td_jupyter_request_parse(td_jupyter_request *r) {
  TD_TRY(parse_header(r));
  td_status *s = parse_rest(r);
  if (td_status_code(s) != TD_DATA_LOSS) return s;
  r->problem = td_strdup(td_status_message(s));
  td_status_release(s);
  return r->problem ? NULL : td_oom();
}

/* ---- reading ---- */

const char *td_jupyter_request_type(const td_jupyter_request *r) {
  return r->type;
}

bool td_jupyter_request_is(const td_jupyter_request *r, const char *type) {
  return !strcmp(r->type, type);
}

const char *td_jupyter_request_subshell(const td_jupyter_request *r) {
  return r->subshell;
}

const char *td_jupyter_request_problem(const td_jupyter_request *r) {
  return r->problem;
}

const char *td_jupyter_request_parent_id(const td_jupyter_request *r) {
  return r->parent_id;
}

bool td_jupyter_request_flag(const td_jupyter_request *r, const char *name,
                             bool otherwise) {
  json_t *value = json_object_get(r->content, name);
  return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

td_bytes td_jupyter_request_text(const td_jupyter_request *r,
                                 const char *name) {
  json_t *value = json_object_get(r->content, name);
  return (td_bytes){json_string_value(value), json_string_length(value)};
}

td_bytes td_jupyter_request_part(const td_jupyter_request *r,
                                 td_jupyter_part part) {
  return frame(r, r->delimiter + (int)part);
}

bool td_jupyter_request_buffer(const td_jupyter_request *r, int n,
                               td_bytes *out) {
  if (r->delimiter + BUFFERS + n >= r->n) return false;
  *out = frame(r, r->delimiter + BUFFERS + n);
  return true;
}

bool td_jupyter_request_identity(const td_jupyter_request *r, int n,
                                 td_bytes *out) {
  if (n >= r->delimiter) return false;
  *out = frame(r, n);
  return true;
}
