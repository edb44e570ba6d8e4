/* wire.c - reading, checking, signing and writing messages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/wire.h"

#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "jupyter/replay.h"

#define DELIMITER "<IDS|MSG>"

enum { MOST_FRAMES = 1024, MAC_MOST = 64, HEX_MOST = 2 * MAC_MOST + 1 };
enum { SIGNATURE = 1, HEADER, PARENT, METADATA, CONTENT, BUFFERS };

struct td_jupyter_request {
  int refs; /* atomic */
  zmq_msg_t *frames;
  int n, delimiter; /* frames, and where the delimiter is among them */
  char *type, *subshell, *parent_id;
};

/* ---- names and times ---- */

void td_jupyter_wire_uuid(char out[37]) {
  unsigned char b[16];
  char hex[33];
  randombytes_buf(b, sizeof b);
  b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
  b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
  sodium_bin2hex(hex, sizeof hex, b, sizeof b);
  for (int i = 0, o = 0; i < 32; i++) {
    if (i == 8 || i == 12 || i == 16 || i == 20) out[o++] = '-';
    out[o++] = hex[i];
  }
  out[36] = 0;
}

void td_jupyter_wire_now(td_str *out) {
  int64_t us = td_clock_wall_us();
  time_t seconds = (time_t)(us / 1000000);
  struct tm t;
  char text[32];
  gmtime_r(&seconds, &t);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
  td_str_addf(out, "\"%s.%06dZ\"", text, (int)(us % 1000000));
}

td_status *td_jupyter_wire_init(td_jupyter_wire *w,
                                const td_jupyter_connection *c) {
  const char *user = getenv("USER");
  w->key = c->key;
  w->sha512 = c->sha512;
  td_jupyter_wire_uuid(w->session);
  snprintf(w->username, sizeof w->username, "%s",
           user && *user ? user : "user");
  w->seen = td_jupyter_replay_new();
  return w->seen ? NULL : td_oom();
}

void td_jupyter_wire_deinit(td_jupyter_wire *w) {
  td_jupyter_replay_free(w->seen);
  w->seen = NULL;
}

/* ---- signing ---- */

/* Lower-case hex; "" without a key. */
static void sign(const td_jupyter_wire *w, const td_bytes *parts, int n,
                 char hex[HEX_MOST]) {
  unsigned char mac[MAC_MOST];
  size_t key = strlen(w->key);
  hex[0] = 0;
  if (!key) return;
  if (w->sha512) {
    crypto_auth_hmacsha512_state s;
    crypto_auth_hmacsha512_init(&s, (const unsigned char *)w->key, key);
    for (int i = 0; i < n; i++)
      crypto_auth_hmacsha512_update(&s, (const unsigned char *)parts[i].at,
                                    parts[i].len);
    crypto_auth_hmacsha512_final(&s, mac);
  } else {
    crypto_auth_hmacsha256_state s;
    crypto_auth_hmacsha256_init(&s, (const unsigned char *)w->key, key);
    for (int i = 0; i < n; i++)
      crypto_auth_hmacsha256_update(&s, (const unsigned char *)parts[i].at,
                                    parts[i].len);
    crypto_auth_hmacsha256_final(&s, mac);
  }
  sodium_bin2hex(hex, HEX_MOST, mac, w->sha512 ? 64 : 32);
}

static td_bytes frame(const td_jupyter_request *r, int behind) {
  zmq_msg_t *f = &r->frames[r->delimiter + behind];
  return (td_bytes){zmq_msg_data(f), zmq_msg_size(f)};
}

static bool is_signed(const td_jupyter_wire *w, const td_bytes *parts, int n,
                      td_bytes given) {
  char hex[HEX_MOST];
  sign(w, parts, n, hex);
  return given.len == strlen(hex) && !sodium_memcmp(given.at, hex, given.len);
}

static bool signature_holds(const td_jupyter_wire *w,
                            const td_jupyter_request *r) {
  td_bytes parts[4];
  for (int i = 0; i < 4; i++) parts[i] = frame(r, HEADER + i);
  return is_signed(w, parts, 4, frame(r, SIGNATURE));
}

void td_jupyter_wire_sign(const td_jupyter_wire *w, td_bytes part,
                          char hex[129]) {
  sign(w, &part, 1, hex);
}

bool td_jupyter_wire_signed(const td_jupyter_wire *w, td_bytes part,
                            td_bytes signature) {
  return is_signed(w, &part, 1, signature);
}

/* ---- receiving ---- */

td_jupyter_request *td_jupyter_request_retain(td_jupyter_request *r) {
  if (r) __atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
  return r;
}

void td_jupyter_request_release(td_jupyter_request *r) {
  if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL)) return;
  for (int i = 0; i < r->n; i++) zmq_msg_close(&r->frames[i]);
  td_free(r->frames);
  td_free(r->type);
  td_free(r->subshell);
  td_free(r->parent_id);
  td_free(r);
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

static bool find_delimiter(td_jupyter_request *r) {
  size_t n = strlen(DELIMITER);
  for (int i = 0; i < r->n; i++) {
    r->delimiter = i;
    if (zmq_msg_size(&r->frames[i]) == n &&
        !memcmp(zmq_msg_data(&r->frames[i]), DELIMITER, n))
      return r->n >= i + BUFFERS;
  }
  return false;
}

static td_status *copy_text(json_t *object, const char *key, char **out) {
  const char *text = json_string_value(json_object_get(object, key));
  *out = td_strdup(text ? text : "");
  return *out ? NULL : td_oom();
}

static json_t *parse(const td_jupyter_request *r, int part) {
  td_bytes b = frame(r, part);
  return json_loadb(b.at, b.len, JSON_ALLOW_NUL, NULL);
}

/* The header's fields; the others need only be objects. */
static td_status *read_parts(td_jupyter_request *r) {
  td_status *s = NULL;
  for (int part = HEADER; td_ok(s) && part <= CONTENT; part++) {
    json_t *object = parse(r, part);
    if (!json_is_object(object)) {
      s = td_error(TD_INVALID_ARGUMENT, "part %d is no JSON object", part - 1);
    } else if (part == HEADER) {
      s = copy_text(object, "msg_type", &r->type);
      if (td_ok(s)) s = copy_text(object, "subshell_id", &r->subshell);
    } else if (part == PARENT) {
      s = copy_text(object, "msg_id", &r->parent_id);
    }
    json_decref(object);
  }
  if (td_ok(s) && !r->type[0])
    s = td_error(TD_INVALID_ARGUMENT, "the header has no msg_type");
  return s;
}

/* Frames are there; checks and reads them. Takes `r` over. */
static td_status *open_message(const td_jupyter_wire *w, td_jupyter_request *r,
                               td_status *s, td_jupyter_request **out) {
  if (td_ok(s) && !find_delimiter(r))
    s = td_error(TD_INVALID_ARGUMENT, "frames of no message");
  if (td_ok(s) && !signature_holds(w, r))
    s = td_error(TD_PERMISSION_DENIED, "the signature does not fit");
  if (td_ok(s) && w->key[0] &&
      td_jupyter_replay_seen(w->seen, frame(r, SIGNATURE)))
    s = td_error(TD_PERMISSION_DENIED, "it came before");
  if (td_ok(s)) s = read_parts(r);
  if (td_ok(s))
    *out = r;
  else
    td_jupyter_request_release(r);
  return s;
}

static td_jupyter_request *request_new(void) {
  td_jupyter_request *r = td_alloc_zero(1, sizeof *r);
  if (r) r->refs = 1;
  return r;
}

td_status *td_jupyter_wire_receive(const td_jupyter_wire *w, void *socket,
                                   td_jupyter_request **out) {
  *out = NULL;
  td_jupyter_request *r = request_new();
  return r ? open_message(w, r, take_frames(socket, r), out) : td_oom();
}

td_status *td_jupyter_wire_read(const td_jupyter_wire *w,
                                const td_bytes *frames, int n,
                                td_jupyter_request **out) {
  *out = NULL;
  td_jupyter_request *r = request_new();
  if (!r) return td_oom();
  td_status *s = NULL;
  r->frames = td_alloc_zero((size_t)n, sizeof *r->frames);
  if (!r->frames) s = td_oom();
  for (int i = 0; td_ok(s) && i < n; i++) {
    if (zmq_msg_init_size(&r->frames[i], frames[i].len) != 0) {
      s = td_oom();
      break;
    }
    r->n++;
    if (frames[i].len)
      memcpy(zmq_msg_data(&r->frames[i]), frames[i].at, frames[i].len);
  }
  return open_message(w, r, s, out);
}

const char *td_jupyter_request_type(const td_jupyter_request *r) {
  return r->type;
}
const char *td_jupyter_request_subshell(const td_jupyter_request *r) {
  return r->subshell;
}
const char *td_jupyter_request_parent_id(const td_jupyter_request *r) {
  return r->parent_id;
}
td_bytes td_jupyter_request_header(const td_jupyter_request *r) {
  return frame(r, HEADER);
}
td_bytes td_jupyter_request_content(const td_jupyter_request *r) {
  return frame(r, CONTENT);
}

td_bytes td_jupyter_request_metadata(const td_jupyter_request *r) {
  return frame(r, METADATA);
}

bool td_jupyter_request_buffer(const td_jupyter_request *r, int n,
                               td_bytes *out) {
  if (r->delimiter + BUFFERS + n >= r->n) return false;
  *out = frame(r, BUFFERS + n);
  return true;
}

/* ---- sending ---- */

static void make_header(const td_jupyter_wire *w, const char *type,
                        const char *id, td_str *out) {
  td_str_addf(out,
              "{\"msg_id\": \"%s\", \"session\": \"%s\", \"username\": ", id,
              w->session);
  td_str_json(out, w->username, strlen(w->username));
  td_str_add(out, ", \"date\": ");
  td_jupyter_wire_now(out);
  td_str_addf(out, ", \"msg_type\": \"%s\", \"version\": \"5.5\"}", type);
}

static bool send_frame(void *socket, const void *bytes, size_t len, bool more) {
  return zmq_send(socket, bytes, len, more ? ZMQ_SNDMORE : 0) >= 0;
}

/* What stands before the delimiter. */
static bool send_address(void *socket, const td_jupyter_reply *reply) {
  if (reply->topic)
    return send_frame(socket, reply->topic, strlen(reply->topic), true);
  bool ok = true;
  for (int i = 0; ok && reply->to && i < reply->to->delimiter; i++)
    ok = send_frame(socket, zmq_msg_data(&reply->to->frames[i]),
                    zmq_msg_size(&reply->to->frames[i]), true);
  return ok;
}

bool td_jupyter_wire_send(const td_jupyter_wire *w, void *socket,
                          const td_jupyter_reply *reply, char id[37]) {
  char own_id[37], hex[HEX_MOST];
  td_str header;
  td_bytes none = {"{}", 2};
  td_jupyter_wire_uuid(own_id);
  if (id) memcpy(id, own_id, sizeof own_id);
  td_str_init(&header);
  make_header(w, reply->type, own_id, &header);
  td_bytes parts[4] = {{td_str_c(&header), header.len},
                       reply->to ? frame(reply->to, HEADER) : none,
                       reply->metadata.len ? reply->metadata : none,
                       reply->content.len ? reply->content : none};
  sign(w, parts, 4, hex);
  bool ok = !header.failed && send_address(socket, reply) &&
            send_frame(socket, DELIMITER, strlen(DELIMITER), true) &&
            send_frame(socket, hex, strlen(hex), true);
  for (int i = 0; ok && i < 4; i++)
    ok = send_frame(socket, parts[i].at, parts[i].len,
                    i < 3 || reply->n_buffers > 0);
  for (int i = 0; ok && i < reply->n_buffers; i++)
    ok = send_frame(socket, reply->buffers[i].at, reply->buffers[i].len,
                    i + 1 < reply->n_buffers);
  td_str_deinit(&header);
  return ok;
}
