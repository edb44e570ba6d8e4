/* wire.c - reading, checking, signing and writing messages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/wire.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/reserve.h"
#include "jupyter/replay.h"

enum { MAC_MOST = 64, HEX_MOST = 2 * MAC_MOST + 1, FEW = 16 };

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

static bool is_signed(const td_jupyter_wire *w, const td_bytes *parts, int n,
                      td_bytes given) {
  char hex[HEX_MOST];
  sign(w, parts, n, hex);
  return given.len == strlen(hex) && !sodium_memcmp(given.at, hex, given.len);
}

static bool signature_holds(const td_jupyter_wire *w,
                            const td_jupyter_request *r) {
  td_bytes parts[4];
  for (int i = 0; i < 4; i++)
    parts[i] = td_jupyter_request_part(
        r, (td_jupyter_part)(TD_JUPYTER_PART_HEADER + i));
  return is_signed(w, parts, 4,
                   td_jupyter_request_part(r, TD_JUPYTER_PART_SIGNATURE));
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

td_status *td_jupyter_wire_check(const td_jupyter_wire *w,
                                 td_jupyter_request *r) {
  td_bytes signature = td_jupyter_request_part(r, TD_JUPYTER_PART_SIGNATURE);
  if (!signature_holds(w, r))
    return td_error(TD_PERMISSION_DENIED, "the signature does not fit");
  if (w->key[0] && td_jupyter_replay_seen(w->seen, signature))
    return td_error(TD_PERMISSION_DENIED, "it came before");
  return td_jupyter_request_parse(r);
}

td_status *td_jupyter_wire_receive(const td_jupyter_wire *w, void *socket,
                                   td_jupyter_request **out) {
  TD_TRY(td_jupyter_request_receive(socket, out));
  td_status *s = td_jupyter_wire_check(w, *out);
  if (td_ok(s)) return NULL;
  td_jupyter_request_release(*out);
  *out = NULL;
  return s;
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

/* The frames of a message. All are made before the first is sent: memory may be
 * refused until then, and one that is begun must go out whole. */
typedef struct message {
  zmq_msg_t few[FEW], *frame;
  int n;
  bool failed;
} message;

static void message_init(message *m, int most) {
  m->n = 0;
  m->frame = most <= FEW ? m->few : td_calloc((size_t)most, sizeof *m->frame);
  m->failed = !m->frame;
}

static void add_frame(message *m, const void *bytes, size_t len) {
  if (m->failed) return;
  zmq_msg_t *f = &m->frame[m->n];
  bool made = zmq_msg_init_size(f, len) == 0;
  if (!made && td_reserve_spend()) made = zmq_msg_init_size(f, len) == 0;
  m->failed = !made;
  if (!made) return;
  if (len) memcpy(zmq_msg_data(f), bytes, len);
  m->n++;
}

/* Frees it, too. */
static bool send_message(message *m, void *socket) {
  bool ok = !m->failed;
  for (int i = 0; ok && i < m->n; i++)
    ok =
        zmq_msg_send(&m->frame[i], socket, i + 1 < m->n ? ZMQ_SNDMORE : 0) >= 0;
  for (int i = 0; i < m->n; i++) zmq_msg_close(&m->frame[i]);
  if (m->frame != m->few) td_free(m->frame);
  return ok;
}

/* What stands before the delimiter. */
static int count_address(const td_jupyter_reply *reply) {
  td_bytes identity;
  int n = 0;
  if (reply->topic) return 1;
  while (reply->to && td_jupyter_request_identity(reply->to, n, &identity)) n++;
  return n;
}

static void add_address(message *m, const td_jupyter_reply *reply) {
  td_bytes identity;
  if (reply->topic) {
    add_frame(m, reply->topic, strlen(reply->topic));
    return;
  }
  for (int i = 0;
       reply->to && td_jupyter_request_identity(reply->to, i, &identity); i++)
    add_frame(m, identity.at, identity.len);
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
  td_bytes parts[4] = {
      {td_str_c(&header), header.len},
      reply->to ? td_jupyter_request_part(reply->to, TD_JUPYTER_PART_HEADER)
                : none,
      reply->metadata.len ? reply->metadata : none,
      reply->content.len ? reply->content : none};
  sign(w, parts, 4, hex);
  message m;
  message_init(&m, count_address(reply) + 6 + reply->n_buffers);
  add_address(&m, reply);
  add_frame(&m, TD_JUPYTER_DELIMITER, strlen(TD_JUPYTER_DELIMITER));
  add_frame(&m, hex, strlen(hex));
  for (int i = 0; i < 4; i++) add_frame(&m, parts[i].at, parts[i].len);
  for (int i = 0; i < reply->n_buffers; i++)
    add_frame(&m, reply->buffers[i].at, reply->buffers[i].len);
  m.failed |= header.failed;
  bool ok = send_message(&m, socket);
  td_str_deinit(&header);
  return ok;
}
