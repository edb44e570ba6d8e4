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

enum { MAC_MOST = 64, HEX_MOST = 2 * MAC_MOST + 1 };

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

/* A message that is begun must go out whole. */
static bool send_frame(void *socket, const void *bytes, size_t len, bool more) {
  int flags = more ? ZMQ_SNDMORE : 0;
  int sent = zmq_send(socket, bytes, len, flags);
  if (sent < 0 && zmq_errno() == ENOMEM && td_reserve_spend())
    sent = zmq_send(socket, bytes, len, flags);
  return sent >= 0;
}

/* What stands before the delimiter. */
static bool send_address(void *socket, const td_jupyter_reply *reply) {
  if (reply->topic)
    return send_frame(socket, reply->topic, strlen(reply->topic), true);
  bool ok = true;
  td_bytes identity;
  for (int i = 0;
       ok && reply->to && td_jupyter_request_identity(reply->to, i, &identity);
       i++)
    ok = send_frame(socket, identity.at, identity.len, true);
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
  td_bytes parts[4] = {
      {td_str_c(&header), header.len},
      reply->to ? td_jupyter_request_part(reply->to, TD_JUPYTER_PART_HEADER)
                : none,
      reply->metadata.len ? reply->metadata : none,
      reply->content.len ? reply->content : none};
  sign(w, parts, 4, hex);
  bool ok = !header.failed && send_address(socket, reply) &&
            send_frame(socket, TD_JUPYTER_DELIMITER,
                       strlen(TD_JUPYTER_DELIMITER), true) &&
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
