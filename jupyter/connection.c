/* connection.c - the connection file, by Jupyter's "Making kernels".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/connection.h"

#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"

enum { MOST_BYTES = 1 << 16, KEY_BYTES = 16 };

static const char *const names[TD_JUPYTER_N_CHANNELS] = {
    "shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"};

void td_jupyter_connection_deinit(td_jupyter_connection *c) {
  td_free(c->ip);
  td_free(c->key);
  td_free(c->kernel_id);
  memset(c, 0, sizeof *c);
}

/* Some clients write ports as strings. */
static td_status *read_port(json_t *file, const char *name, int *port) {
  json_t *p = json_object_get(file, name);
  long long n = -1;
  char *end = NULL;
  if (json_is_integer(p)) n = json_integer_value(p);
  if (json_is_string(p)) {
    n = strtoll(json_string_value(p), &end, 10);
    if (*end || end == json_string_value(p)) n = -1;
  }
  if (n < 0 || n > 65535)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a port from 0 to 65535",
                    name);
  *port = (int)n;
  return NULL;
}

static td_status *read_text(json_t *file, const char *name,
                            const char *otherwise, char **out) {
  json_t *t = json_object_get(file, name);
  const char *text = t ? json_string_value(t) : otherwise;
  if (!text) return td_error(TD_INVALID_ARGUMENT, "%s must be a string", name);
  *out = td_strdup(text);
  return *out ? NULL : td_oom();
}

static td_status *read_scheme(json_t *file, bool *sha512) {
  json_t *s = json_object_get(file, "signature_scheme");
  const char *scheme = s ? json_string_value(s) : "hmac-sha256";
  *sha512 = scheme && !strcmp(scheme, "hmac-sha512");
  if (*sha512 || (scheme && !strcmp(scheme, "hmac-sha256"))) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "signature_scheme must be hmac-sha256 or hmac-sha512, "
                  "not %s",
                  scheme ? scheme : "what it is");
}

static td_status *read_curve_key(json_t *file, const char *name, char *out) {
  json_t *key = json_object_get(file, name);
  const char *text = json_string_value(key);
  out[0] = 0;
  if (!key || json_is_null(key)) return NULL;
  if (!text || strlen(text) != TD_JUPYTER_CURVE_KEY)
    return td_error(TD_INVALID_ARGUMENT, "%s must be %d characters of Z85",
                    name, TD_JUPYTER_CURVE_KEY);
  memcpy(out, text, TD_JUPYTER_CURVE_KEY + 1);
  return NULL;
}

static td_status *read_curve(td_jupyter_connection *c, json_t *file) {
  TD_TRY(read_curve_key(file, "curve_publickey", c->curve_public));
  TD_TRY(read_curve_key(file, "curve_secretkey", c->curve_secret));
  if (!c->curve_public[0] == !c->curve_secret[0]) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "curve_publickey and curve_secretkey come together");
}

/* Ports are the kernel's to choose. */
static td_status *read_registration(td_jupyter_connection *c, json_t *file) {
  const char *id = json_string_value(json_object_get(file, "kernel_id"));
  TD_TRY(read_port(file, "registration_port", &c->registration_port));
  if (!c->registration_port)
    return td_error(TD_INVALID_ARGUMENT, "registration_port must not be 0");
  if (c->ipc)
    for (int i = 0; i < TD_JUPYTER_N_CHANNELS; i++) c->port[i] = i + 1;
  if (id) c->kernel_id = td_strdup(id);
  return id && !c->kernel_id ? td_oom() : NULL;
}

static td_status *read_file(td_jupyter_connection *c, json_t *file) {
  char *transport = NULL;
  td_status *s = read_text(file, "transport", "tcp", &transport);
  if (td_ok(s)) {
    c->ipc = !strcmp(transport, "ipc");
    if (!c->ipc && strcmp(transport, "tcp"))
      s = td_error(TD_INVALID_ARGUMENT, "transport must be tcp or ipc, not %s",
                   transport);
  }
  td_free(transport);
  if (td_ok(s)) s = read_text(file, "ip", "127.0.0.1", &c->ip);
  if (td_ok(s)) s = read_text(file, "key", "", &c->key);
  if (td_ok(s)) s = read_scheme(file, &c->sha512);
  if (td_ok(s)) s = read_curve(c, file);
  if (td_ok(s) && json_object_get(file, "registration_port"))
    return read_registration(c, file);
  for (int i = 0; td_ok(s) && i < TD_JUPYTER_N_CHANNELS; i++)
    s = read_port(file, names[i], &c->port[i]);
  return s;
}

td_status *td_jupyter_connection_read(td_jupyter_connection *c,
                                      const char *path) {
  char *text;
  size_t len;
  memset(c, 0, sizeof *c);
  td_status *s = td_file_read(path, MOST_BYTES, &text, &len);
  if (!td_ok(s)) return s;
  json_error_t why;
  json_t *file = json_loadb(text, len, 0, &why);
  td_free(text);
  if (!json_is_object(file))
    s = td_error(TD_INVALID_ARGUMENT,
                 "connection file %s is not a JSON object%s%s", path,
                 file ? "" : ": ", file ? "" : why.text);
  else
    s = read_file(c, file);
  json_decref(file);
  if (!td_ok(s)) td_jupyter_connection_deinit(c);
  return s;
}

td_status *td_jupyter_connection_make(td_jupyter_connection *c) {
  unsigned char bytes[KEY_BYTES];
  char hex[2 * KEY_BYTES + 1];
  memset(c, 0, sizeof *c);
  randombytes_buf(bytes, sizeof bytes);
  sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
  c->ip = td_strdup("127.0.0.1");
  c->key = td_strdup(hex);
  if (c->ip && c->key) return NULL;
  td_jupyter_connection_deinit(c);
  return td_oom();
}

static void describe(const td_jupyter_connection *c, td_str *out) {
  td_str_addf(
      out, "{\n  \"transport\": \"%s\",\n  \"ip\": ", c->ipc ? "ipc" : "tcp");
  td_str_json(out, c->ip, strlen(c->ip));
  td_str_add(out, ",\n  \"key\": ");
  td_str_json(out, c->key, strlen(c->key));
  td_str_addf(out, ",\n  \"signature_scheme\": \"hmac-sha%s\"",
              c->sha512 ? "512" : "256");
  for (int i = 0; i < TD_JUPYTER_N_CHANNELS; i++)
    td_str_addf(out, ",\n  \"%s\": %d", names[i], c->port[i]);
  if (c->curve_secret[0]) {
    td_str_add(out, ",\n  \"curve_publickey\": ");
    td_str_json(out, c->curve_public, TD_JUPYTER_CURVE_KEY);
    td_str_add(out, ",\n  \"curve_secretkey\": ");
    td_str_json(out, c->curve_secret, TD_JUPYTER_CURVE_KEY);
  }
  td_str_add(out, ",\n  \"kernel_name\": \"tide\"\n}\n");
}

td_status *td_jupyter_connection_write(const td_jupyter_connection *c,
                                       const char *path) {
  td_str text;
  td_str_init(&text);
  describe(c, &text);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool ok = fd >= 0 && !text.failed &&
            write(fd, text.at, text.len) == (ssize_t)text.len;
  if (fd >= 0 && close(fd) != 0) ok = false;
  td_str_deinit(&text);
  return ok ? NULL
            : td_error(TD_UNAVAILABLE, "cannot write connection file %s", path);
}

const char *td_jupyter_connection_port_name(td_jupyter_channel channel) {
  return names[channel];
}

void td_jupyter_connection_endpoint(const td_jupyter_connection *c,
                                    td_jupyter_channel channel, td_str *out) {
  int port = c->port[channel];
  td_str_clear(out);
  if (c->ipc)
    td_str_addf(out, "ipc://%s-%d", c->ip, port);
  else if (port)
    td_str_addf(out, "tcp://%s:%d", c->ip, port);
  else
    td_str_addf(out, "tcp://%s:*", c->ip);
}
