/* peer.c - one incarnation of another process, as this one knows it.
 *
 * Who dials says HELLO until WELCOME comes; both say who they are. Then each
 * side says PING every second, and how many messages it had sent: what a lost
 * connection took along is found by that. A peer lives until it is DEAD, its
 * link with it; a process that comes back is another peer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/version.h"
#include "engine/device/kernel_table.h"
#include "engine/remote/device_far.h"
#include "engine/remote/remote_impl.h"

enum { PEERS_MOST = 4096, DEVICES_MOST = 256, KERNELS_MOST = 65536 };
enum { BACKLOG_MOST = 64 << 20 }; /* bytes that wait for a connection */
#define JOIN INT64_C(5000000000)  /* ns: for who waits to be sent something */
/* ns: what has not come by then is lost, with a connection that broke or in one
 * that stands. */
#define LACK INT64_C(2000000000)
#define LACK_WHOLE INT64_C(8000000000)

static void greet(td_peer *p);

/* ---- life ---------------------------------------------------------------- */

static td_status *peer_new(td_remote *r, td_peer **out) {
  if (r->closed)
    return td_error(TD_FAILED_PRECONDITION,
                    "this process takes part in nothing any more");
  if (r->peers.len >= PEERS_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED, "%d peers are there already",
                    PEERS_MOST);
  td_peer *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->of = r;
  p->refs = 1;
  p->dialled = td_clock_now();
  td_health_init(&p->health, p->dialled);
  p->task = td_strdup("");
  if (!p->task || !td_vec_push(&r->peers, p)) {
    td_free(p->task);
    td_free(p);
    return td_oom();
  }
  *out = p;
  return NULL;
}

static void drop_backlog(td_peer *p) {
  for (size_t i = 0; i < p->backlog.len; i++) {
    td_backlog *b = &p->backlog.at[i];
    for (int k = 0; k < b->n; k++) td_raw_release(&b->frames[k]);
    td_free(b->frames);
  }
  td_vec_free(&p->backlog);
  p->backlog_bytes = 0;
  td_peer_drop_bundle(p);
}

static void drop_devices(td_peer *p) {
  for (size_t i = 0; i < p->devices.len; i++)
    td_device_release(p->devices.at[i]);
  td_vec_free(&p->devices);
}

static void hang_up(td_peer *p) {
  if (!p->link) return;
  p->link->owner = NULL;
  p->of->channel->ops->hang_up(p->link);
  p->link = NULL;
}

td_peer *td_peer_retain(td_peer *p) {
  p->refs++;
  return p;
}

void td_peer_release(td_peer *p) {
  if (!p || --p->refs > 0) return;
  hang_up(p);
  drop_backlog(p);
  drop_devices(p);
  p->of->hooks->drop_values(&p->values);
  td_kernel_table_release(p->table);
  td_status_release(p->error);
  td_free(p->task);
  td_free(p->control);
  td_free(p->data);
  td_free(p->key);
  td_free(p->proof);
  td_free(p->host);
  td_free(p->build);
  td_free(p->isa);
  td_free(p->bundle);
  td_free(p);
}

bool td_peer_proves(const td_peer *p, const char *key) {
  return !p->proof || (key && strcmp(p->proof, key) == 0);
}

td_peer *td_peer_find(td_remote *r, uint64_t incarnation, const char *key) {
  td_peer *best = NULL;
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    if (p->incarnation == incarnation && p->health.state != TD_DEAD &&
        td_peer_proves(p, key) &&
        (!best || p->health.heard > best->health.heard))
      best = p;
  }
  return best;
}

static td_status *keep(const char *text, char **to) {
  if (!text || !*text) return NULL;
  char *copy = td_strdup(text);
  if (!copy) return td_oom();
  td_free(*to);
  *to = copy;
  return NULL;
}

/* Whom a link leads to that has no WELCOME yet is what its dialler was told. */
static bool is_meant(const td_peer *p, uint64_t incarnation) {
  return incarnation ? p->incarnation == incarnation
                     : p->welcomed || p->incarnation == 0;
}

bool td_peer_lags(const td_peer *p) {
  int64_t now = td_clock_now();
  for (int lane = 0; lane < TD_LANES; lane++) {
    int64_t in = p->gap[lane].since, out = p->stuck[lane].since;
    if ((in && now - in >= TD_HEALTH_SUSPECT) ||
        (out && now - out >= TD_HEALTH_SUSPECT))
      return true;
  }
  return false;
}

/* One that is suspect, or lags, may have a connection that will never be heard
 * of again: who dials has a new one. */
static td_peer *find_dialled(td_remote *r, const td_dial *to,
                             uint64_t incarnation) {
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    if (p->health.state < TD_SUSPECT && p->link && p->link->dialled &&
        strcmp(p->control, to->control) == 0 && td_peer_proves(p, to->key) &&
        is_meant(p, incarnation) && !td_peer_lags(p))
      return p;
  }
  return NULL;
}

static td_status *dial(td_peer *p, const td_dial *to) {
  TD_TRY(keep(to->control, &p->control));
  TD_TRY(keep(to->data, &p->data));
  TD_TRY(keep(to->key, &p->key));
  TD_TRY(p->of->channel->ops->dial(p->of->channel, to, &p->link));
  p->link->owner = p;
  return keep(p->link->key, &p->proof);
}

static td_status *dial_new(td_remote *r, const td_dial *to, const char *task,
                           uint64_t incarnation, td_peer **out) {
  td_peer *p;
  TD_TRY(peer_new(r, &p));
  td_status *s = keep(task, &p->task);
  if (td_ok(s)) s = dial(p, to);
  if (!td_ok(s)) {
    td_peer_end(p, TD_ENDED, td_status_retain(s));
    return s;
  }
  *out = td_peer_retain(p);
  p->incarnation = incarnation;
  p->said = td_clock_now();
  p->greets = true;
  r->greetings++;
  greet(p);
  return NULL;
}

td_status *td_peer_dial_to(td_remote *r, const td_dial *to, const char *task,
                           uint64_t incarnation, td_peer **out) {
  td_peer *p = find_dialled(r, to, incarnation);
  if (!p) return dial_new(r, to, task, incarnation, out);
  *out = td_peer_retain(p);
  return NULL;
}

td_status *td_peer_dial(td_remote *r, const td_dial *to, td_peer **out) {
  return td_peer_dial_to(r, to, NULL, 0, out);
}

td_status *td_peer_met(td_remote *r, td_link *l, uint64_t incarnation,
                       td_peer **out) {
  td_peer *p;
  char *proof = NULL;
  TD_TRY(keep(l->key, &proof));
  td_status *s = peer_new(r, &p);
  if (!td_ok(s)) {
    td_free(proof);
    return s;
  }
  p->proof = proof;
  p->incarnation = incarnation;
  p->link = l;
  l->owner = p;
  *out = p;
  return NULL;
}

/* Nobody listens to it any more: it is to begin anew, when it can hear that. */
static void say_unheard(td_peer *p) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_STALE;
  head.stale = &body;
  if (p->link && p->welcomed) td_peer_say(p, &head);
}

void td_peer_end(td_peer *p, td_health_event how, td_status *why) {
  if (!td_health_on(&p->health, how, td_clock_now())) {
    td_status_release(why);
    return;
  }
  if (p->greets) p->of->greetings--;
  p->greets = false;
  td_status_release(p->error);
  p->error = why;
  if (!p->of->closed) say_unheard(p);
  drop_backlog(p);
  hang_up(p);
  td_remote_peer_changed(p->of, p);
}

static const char *name_of(const td_peer *p) {
  return *p->task ? p->task : p->control ? p->control : "a peer";
}

td_status *td_peer_lost(const td_peer *p) {
  td_status *s =
      p->error ? td_error(td_status_code(p->error), "%s",
                          td_status_message(p->error))
               : td_error(TD_UNAVAILABLE, "%s does not answer", name_of(p));
  return td_status_about(s, name_of(p));
}

/* ---- sending ------------------------------------------------------------- */

void td_head_init(td_head *head, const td_session_id *session) {
  td__remote__message__init(head);
  if (!session) return;
  head->session_high = session->high;
  head->session_low = session->low;
}

static size_t size_of(const td_raw *frames, int n) {
  size_t sum = 0;
  for (int i = 0; i < n; i++) sum += frames[i].len;
  return sum;
}

static td_status *put_off(td_peer *p, td_lane lane, td_raw *frames, int n) {
  size_t bytes = size_of(frames, n);
  td_backlog b = {lane, NULL, n};
  if (p->backlog_bytes + bytes > BACKLOG_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%zu bytes wait for a connection to %s", p->backlog_bytes,
                    name_of(p));
  b.frames = td_calloc((size_t)n, sizeof *frames);
  if (!b.frames || !td_vec_push(&p->backlog, b)) {
    td_free(b.frames);
    return td_oom();
  }
  memcpy(b.frames, frames, (size_t)n * sizeof *frames);
  p->backlog_bytes += bytes;
  return NULL;
}

/* `later`: there is no connection, and the frames are still the caller's. */
static td_status *pass(td_peer *p, td_lane lane, td_raw *frames, int n,
                       bool *later) {
  size_t bytes = size_of(frames, n);
  *later = false;
  td_status *s = p->of->channel->ops->send(p->link, lane, frames, n);
  if (td_ok(s)) {
    p->bytes_out += bytes;
    p->of->meter.bytes_out += bytes;
    p->of->meter.messages_out++;
    return NULL;
  }
  *later = td_status_code(s) == TD_UNAVAILABLE;
  return s;
}

/* What waited goes first. A lane that has no connection holds up nothing of the
 * other: who waits for data still says that it lives. False: something waits on
 * `lane`. */
static bool flush(td_peer *p, td_lane lane) {
  size_t kept = 0;
  bool stuck[TD_LANES] = {false, false};
  for (size_t i = 0; i < p->backlog.len; i++) {
    td_backlog b = p->backlog.at[i];
    size_t bytes = size_of(b.frames, b.n);
    if (!stuck[b.lane])
      td_status_release(pass(p, b.lane, b.frames, b.n, &stuck[b.lane]));
    if (stuck[b.lane]) {
      p->backlog.at[kept++] = b;
      continue;
    }
    p->backlog_bytes -= bytes;
    td_free(b.frames);
  }
  p->backlog.len = kept;
  return !stuck[lane];
}

static void drop_frames(td_raw *frames, int n) {
  for (int i = 0; i < n; i++) td_raw_release(&frames[i]);
}

/* A connection begins with a HELLO, and what has no name yet is not spoken to:
 * all else waits for the WELCOME. */
static bool is_open(const td_peer *p) {
  return p->welcomed || !p->link->dialled;
}

/* `again`: what cannot go now may wait. */
static td_status *send_packed(td_peer *p, td_lane lane, td_raw *frames, int n,
                              bool again, bool hello) {
  bool later = true;
  td_status *s = NULL;
  if (hello || (is_open(p) && (p->backlog.len == 0 || flush(p, lane))))
    s = pass(p, lane, frames, n, &later);
  if (td_ok(s) && !later) return NULL;
  if (later && again) {
    td_status_release(s);
    s = put_off(p, lane, frames, n);
    if (td_ok(s)) return NULL;
  } else if (td_ok(s)) {
    s = td_error(TD_UNAVAILABLE, "no connection to %s", name_of(p));
  }
  drop_frames(frames, n);
  return s;
}

/* What cannot go is missed there, as what is lost on its way. */
static void send_off(td_peer *p) {
  int n = p->n_bundle;
  p->n_bundle = 0;
  if (n && p->link)
    td_status_release(
        send_packed(p, TD_LANE_CONTROL, p->bundle, n, true, false));
  else
    drop_frames(p->bundle, n);
}

void td_peers_send_off(td_remote *r) {
  int n = r->n_bundled;
  __atomic_store_n(&r->n_bundled, 0, __ATOMIC_RELAXED);
  for (int i = 0; i < n; i++) {
    send_off(r->bundled[i]);
    td_peer_release(r->bundled[i]);
  }
}

static td_status *send_as(td_peer *p, td_lane lane, td_head *head,
                          td_raw *frames, int n, bool again) {
  td_raw all[TD_MESSAGE_FRAMES];
  int heads = 0;
  bool kept = p->link && td_peer_bundles(p, lane, head, frames, n);
  td_status *s = !p->link ? td_peer_lost(p)
                 : n >= TD_MESSAGE_FRAMES
                     ? td_error(TD_INTERNAL, "a message of %d frames", n)
                     : NULL;
  if (td_ok(s)) {
    head->version = (uint32_t)p->of->protocol;
    head->from = p->of->incarnation;
    head->to = p->incarnation;
    head->count = p->sent[lane] + 1;
    head->own = kept ? (uint32_t)n + 1 : 0;
    s = td_wire_head(head, TD_MESSAGE_FRAMES - n, all, &heads);
  }
  if (!td_ok(s)) {
    drop_frames(frames, n);
    return s;
  }
  if (n) memcpy(all + heads, frames, (size_t)n * sizeof *frames);
  p->sent[lane]++;
  if (!p->stuck[lane].since) p->stuck[lane].since = td_clock_now();
  if (kept && heads == 1) {
    td_peer_bundle(p, all, n + 1);
    return NULL;
  }
  if (p->n_bundle > 0 && lane == TD_LANE_CONTROL) send_off(p);
  bool hello = head->body_case == TD__REMOTE__MESSAGE__BODY_HELLO;
  s = send_packed(p, lane, all, n + heads, again, hello);
  if (!td_ok(s)) p->sent[lane]--;
  return s;
}

td_status *td_peer_send(td_peer *p, td_lane lane, td_head *head, td_raw *frames,
                        int n) {
  return send_as(p, lane, head, frames, n, true);
}

void td_peer_say(td_peer *p, td_head *head) {
  td_status_release(send_as(p, TD_LANE_CONTROL, head, NULL, 0, false));
}

/* ---- who we are ---------------------------------------------------------- */

static td_status *devices_out(td_remote *r, td_arena *a, Td__Remote__Hello *h) {
  td_device **all;
  int n;
  TD_TRY(td_runtime_devices(r->runtime, r->cpu_devices, &all, &n));
  h->device = td_arena_alloc(a, ((size_t)n + 1) * sizeof *h->device);
  for (int i = 0; h->device && i < n; i++) {
    Td__Remote__Device *d = td_arena_alloc(a, sizeof *d);
    if (!d) break;
    td__remote__device__init(d);
    d->name = td_arena_str(a, all[i]->name);
    d->type = (char *)all[i]->type;
    d->kernels = td_arena_str(a, all[i]->kernels);
    d->incarnation = all[i]->incarnation;
    d->memory = td_allocator_read_stats(all[i]->memory).limit;
    d->host = td_device_on_host(all[i]);
    if (!d->name || !d->kernels) break;
    h->device[h->n_device++] = d;
  }
  bool whole = h->n_device == (size_t)n;
  td_runtime_drop_devices(all, n);
  return whole ? NULL : td_oom();
}

static td_status *kernels_out(const td_kernel_table *t, td_arena *a,
                              Td__Remote__Hello *h) {
  size_t n;
  const td_kernel_offer *rows = td_kernel_table_rows(t, &n);
  h->kernel = td_arena_alloc(a, (n + 1) * sizeof *h->kernel);
  if (!h->kernel) return td_oom();
  for (size_t i = 0; i < n; i++) {
    Td__Remote__Kernel *k = td_arena_alloc(a, sizeof *k);
    if (!k) return td_oom();
    td__remote__kernel__init(k);
    k->op = (char *)rows[i].op;
    k->types = td_wire_text(rows[i].types);
    h->kernel[h->n_kernel++] = k;
  }
  return NULL;
}

/* What a HELLO or a WELCOME says. `theirs`: the hash of the other's table. */
static td_status *introduce(td_peer *p, td_arena *a, uint64_t theirs,
                            bool welcome, Td__Remote__Hello *h) {
  td_remote *r = p->of;
  const td_channel_ops *c = r->channel->ops;
  td__remote__hello__init(h);
  h->proto_min = h->proto_max = (uint32_t)r->protocol;
  h->build = td_wire_text(TD_VERSION);
  h->task = td_wire_text(td_runtime_place(r->runtime));
  h->isa = td_wire_text(td_isa_name(td_cpu_isa()));
  h->boot = td_wire_text(r->host);
  h->uid = (uint32_t)getuid();
  h->pid = (uint64_t)getpid();
  h->control = td_wire_text(td_remote_address(r));
  h->data =
      td_wire_text(r->advertise_data ? r->advertise_data
                                     : c->address(r->channel, TD_LANE_DATA));
  h->key = td_wire_text(r->public_key);
  h->kernels_hash = r->kernels_hash;
  if (!welcome) return NULL;
  TD_TRY(devices_out(r, a, h));
  return theirs != r->kernels_hash ? kernels_out(r->kernels, a, h) : NULL;
}

/* False: it did not go out. */
static bool say_hello(td_peer *p, uint64_t theirs, bool welcome) {
  td_arena a;
  Td__Remote__Hello body;
  td_head head;
  td_arena_init(&a);
  td_head_init(&head, NULL);
  head.body_case = welcome ? TD__REMOTE__MESSAGE__BODY_WELCOME
                           : TD__REMOTE__MESSAGE__BODY_HELLO;
  td_status *s = introduce(p, &a, theirs, welcome, &body);
  if (welcome)
    head.welcome = &body;
  else
    head.hello = &body;
  if (td_ok(s)) s = send_as(p, TD_LANE_CONTROL, &head, NULL, 0, false);
  bool said = td_ok(s);
  td_status_release(s);
  td_arena_deinit(&a);
  return said;
}

/* ---- who they are -------------------------------------------------------- */

static td_status *check_hello(const td_peer *p, const Td__Remote__Hello *h) {
  int64_t ours = p->of->protocol;
  if (h->proto_min > ours || h->proto_max < ours)
    return td_error(
        TD_FAILED_PRECONDITION,
        "%s speaks protocol versions %u to %u (Tide %s), %s %d (Tide %s): run "
        "the same version on both",
        *h->task ? h->task : "this process", (unsigned)h->proto_min,
        (unsigned)h->proto_max, h->build, td_runtime_place(p->of->runtime),
        (int)ours, TD_VERSION);
  if (strlen(h->task) > TD_WIRE_TASK_MOST || h->n_device > DEVICES_MOST ||
      h->n_kernel > KERNELS_MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "a HELLO of %zu devices and %zu kernels", h->n_device,
                    h->n_kernel);
  return NULL;
}

static td_status *table_in(td_peer *p, const Td__Remote__Hello *h) {
  if (h->n_kernel == 0) return NULL;
  td_kernel_offer *rows = td_calloc(h->n_kernel, sizeof *rows);
  if (!rows) return td_oom();
  for (size_t i = 0; i < h->n_kernel; i++) {
    rows[i].op = h->kernel[i]->op;
    rows[i].types = *h->kernel[i]->types ? h->kernel[i]->types : NULL;
  }
  td_kernel_table_release(p->table);
  p->table = NULL;
  td_status *s = td_kernel_table_new(rows, h->n_kernel, &p->table);
  td_free(rows);
  return s;
}

static td_status *devices_in(td_peer *p, const Td__Remote__Hello *h) {
  drop_devices(p);
  for (size_t i = 0; i < h->n_device; i++) {
    const Td__Remote__Device *from = h->device[i];
    td_device *d;
    td_far_device f = {.name = from->name,
                       .type = from->type,
                       .kernels = from->kernels,
                       .incarnation = from->incarnation,
                       .memory = (size_t)from->memory,
                       .host = from->host,
                       .table = p->table};
    TD_TRY(td_device_far_new(&f, &d));
    if (td_vec_push(&p->devices, d)) continue;
    td_device_release(d);
    return td_oom();
  }
  return NULL;
}

static td_status *learn(td_peer *p, const Td__Remote__Hello *h, bool welcome) {
  TD_TRY(check_hello(p, h));
  TD_TRY(keep(h->task, &p->task));
  TD_TRY(keep(h->boot, &p->host));
  TD_TRY(keep(p->proof ? p->proof : h->key, &p->key));
  TD_TRY(keep(h->build, &p->build));
  TD_TRY(keep(h->isa, &p->isa));
  p->kernels_hash = h->kernels_hash;
  if (!p->link->dialled) TD_TRY(keep(h->control, &p->control));
  bool late = p->link->dialled && !p->data && *h->data;
  TD_TRY(keep(h->data, &p->data));
  if (late) TD_TRY(p->of->channel->ops->dial_data(p->link, p->data));
  p->pid = h->pid;
  if (!welcome) return NULL;
  TD_TRY(table_in(p, h));
  return devices_in(p, h);
}

static void refuse(td_peer *p, const td_status *s) {
  td_head head;
  Td__Remote__Refused body = TD__REMOTE__REFUSED__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_REFUSED;
  head.refused = &body;
  body.code = (int32_t)td_status_code(s);
  body.message = td_wire_text(td_status_message(s));
  td_peer_say(p, &head);
}

/* Two links of one process, or of two that have one key. What came by ipc is
 * believed. */
static bool is_of_one(const td_peer *old, const td_peer *p) {
  return !p->proof || (old->proof && strcmp(old->proof, p->proof) == 0);
}

/* One of its task was there before: that one is over. */
static void supersede(td_peer *p) {
  td_remote *r = p->of;
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *old = r->peers.at[i];
    if (old == p || old->health.state == TD_DEAD || !*old->task ||
        !old->control || !p->control || strcmp(old->task, p->task) != 0 ||
        strcmp(old->control, p->control) != 0 ||
        old->incarnation == p->incarnation || old->incarnation == 0 ||
        !is_of_one(old, p))
      continue;
    td_peer_end(old, TD_RESTARTED,
                td_error(TD_UNAVAILABLE, "%s was restarted", p->task));
  }
}

void td_peer_hello(td_peer *p, const td_head *head, bool welcome) {
  const Td__Remote__Hello *h = welcome ? head->welcome : head->hello;
  if (welcome && p->welcomed) return;
  td_status *s = head->from ? learn(p, h, welcome)
                            : td_error(TD_INVALID_ARGUMENT,
                                       "a HELLO of nobody: incarnation 0");
  if (!td_ok(s)) {
    refuse(p, s);
    td_peer_end(p, TD_REFUSED, s);
    return;
  }
  p->incarnation = head->from;
  if (!welcome) (void)say_hello(p, h->kernels_hash, true);
  p->welcomed = true;
  supersede(p);
  if (td_health_on(&p->health, TD_HEARD, td_clock_now()))
    td_remote_peer_changed(p->of, p);
  (void)flush(p, TD_LANE_CONTROL);
}

void td_peer_refused(td_peer *p, const Td__Remote__Refused *m) {
  td_code code = m->code > TD_OK && m->code <= TD_UNAUTHENTICATED
                     ? (td_code)m->code
                     : TD_FAILED_PRECONDITION;
  td_peer_end(p, TD_REFUSED,
              td_error(code, "%s refused: %s", name_of(p), m->message));
}

/* ---- beats --------------------------------------------------------------- */

/* Bytes of tensors here, for those whom it serves. */
static uint64_t memory_used(td_remote *r) {
  td_device **all;
  int n;
  uint64_t sum = 0;
  if (!r->serve) return 0;
  td_status *s = td_runtime_devices(r->runtime, r->cpu_devices, &all, &n);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  for (int i = 0; i < n; i++)
    sum += td_allocator_read_stats(all[i]->memory).in_use;
  td_runtime_drop_devices(all, n);
  return sum;
}

static void say_ping(td_peer *p, const Td__Remote__Ping *of) {
  td_head head;
  Td__Remote__Ping body = TD__REMOTE__PING__INIT;
  int64_t now = td_clock_now();
  td_head_init(&head, NULL);
  head.body_case =
      of ? TD__REMOTE__MESSAGE__BODY_PONG : TD__REMOTE__MESSAGE__BODY_PING;
  if (of)
    head.pong = &body;
  else
    head.ping = &body;
  body.n = of ? of->n : ++p->ping;
  body.t0 = of ? of->t0 : now;
  body.t1 = of ? now : 0;
  body.t2 = of ? now : 0;
  body.sent_control = p->sent[TD_LANE_CONTROL];
  body.sent_data = p->sent[TD_LANE_DATA];
  body.came_control = p->came[TD_LANE_CONTROL];
  body.came_data = p->came[TD_LANE_DATA];
  body.steps = p->of->steps;
  body.memory = memory_used(p->of);
  if (!of) p->pinged = now;
  td_peer_say(p, &head);
}

void td_peer_poke(td_peer *p) {
  int64_t now = td_clock_now();
  if (!p->welcomed || !p->link) return;
  p->said = now;
  say_ping(p, NULL);
}

/* How many of ours it has had, by its word. */
static void learn_stuck(td_peer *p, td_lane lane, uint64_t came) {
  td_stuck *k = &p->stuck[lane];
  if (came >= p->sent[lane])
    k->since = 0;
  else if (!k->since || came != k->came)
    k->since = td_clock_now();
  k->came = came;
}

static void learn_counts(td_peer *p, const Td__Remote__Ping *m) {
  if (m->sent_control > p->told[TD_LANE_CONTROL])
    p->told[TD_LANE_CONTROL] = m->sent_control;
  if (m->sent_data > p->told[TD_LANE_DATA])
    p->told[TD_LANE_DATA] = m->sent_data;
  learn_stuck(p, TD_LANE_CONTROL, m->came_control);
  learn_stuck(p, TD_LANE_DATA, m->came_data);
  p->steps = m->steps;
  p->memory = m->memory;
}

void td_peer_ping(td_peer *p) {
  say_ping(p, NULL);
}

void td_peer_pinged(td_peer *p, const Td__Remote__Ping *m) {
  learn_counts(p, m);
  say_ping(p, m);
}

void td_peer_ponged(td_peer *p, const Td__Remote__Ping *m) {
  learn_counts(p, m);
  if (m->n != p->ping) return;
  int64_t now = td_clock_now();
  td_clock_offset best;
  p->round_trip = now - p->pinged;
  td_clock_offset_add(&p->clocks, p->pinged, m->t1, m->t2, now);
  if (td_clock_offset_best(&p->clocks, now, now, &best)) p->clock = best.ahead;
}

/* By then it has told how many there are, on the new connection. */
static bool is_mended(const td_peer *p, int64_t now) {
  int64_t since = p->broken > p->health.since ? p->broken : p->health.since;
  return p->health.state == TD_UP && now - since >= 3 * TD_HEALTH_BEAT;
}

/* Has what was sent on the lane not come for long? Slow is not lost, while some
 * comes; pings come on the other lane. */
static bool is_lost(td_peer *p, td_lane lane, int64_t now) {
  td_gap *g = &p->gap[lane];
  if (p->came[lane] >= p->told[lane]) {
    g->since = 0;
  } else if (!g->since || (p->came[lane] != g->came && !p->broken)) {
    g->since = now;
    g->came = p->came[lane];
  } else {
    double most = p->of->patience * (double)(p->broken ? LACK : LACK_WHOLE);
    return (double)(now - g->since) >= most && p->health.state == TD_UP;
  }
  return false;
}

/* Messages that are lost, and what they were for with them. */
static void look_for_gaps(td_peer *p, int64_t now) {
  bool lost = is_lost(p, TD_LANE_CONTROL, now);
  lost |= is_lost(p, TD_LANE_DATA, now);
  if (lost)
    td_peer_end(p, TD_ENDED,
                td_error(TD_UNAVAILABLE,
                         "messages of %s were lost with a connection: what "
                         "they were for cannot be known",
                         name_of(p)));
  else if (!p->gap[TD_LANE_CONTROL].since && !p->gap[TD_LANE_DATA].since &&
           is_mended(p, now))
    p->broken = 0;
}

/* Somebody waits for what cannot be sent: not for ever. */
static void give_up(td_peer *p, int64_t now) {
  if (p->welcomed || p->backlog.len == 0 || now - p->dialled < JOIN) return;
  td_status *s =
      p->error ? td_status_retain(p->error)
               : td_error(TD_UNAVAILABLE, "nobody answers at %s", p->control);
  td_peer_end(p, TD_ENDED,
              td_error(td_status_code(s), "no connection from %s to %s: %s",
                       td_runtime_place(p->of->runtime), name_of(p),
                       td_status_message(s)));
  td_status_release(s);
}

/* The first HELLO goes out as soon as there is a connection. */
static void greet(td_peer *p) {
  if (!p->greets || p->health.state == TD_DEAD) return;
  p->greets = !say_hello(p, 0, false);
  if (!p->greets) p->of->greetings--;
}

void td_peers_greet(td_remote *r) {
  for (size_t i = 0; r->greetings > 0 && i < r->peers.len; i++)
    greet(r->peers.at[i]);
}

void td_peer_tick(td_peer *p, int64_t now) {
  if (p->health.state == TD_DEAD) return;
  if (p->link && p->link->dialled && !p->welcomed &&
      now - p->said >= TD_HEALTH_BEAT) {
    p->said = now;
    (void)say_hello(p, 0, false);
  } else if (p->welcomed && now - p->said >= TD_HEALTH_BEAT) {
    p->said = now;
    say_ping(p, NULL);
  }
  if (p->backlog.len && is_open(p)) (void)flush(p, TD_LANE_CONTROL);
  give_up(p, now);
  if (p->health.state == TD_DEAD) return;
  look_for_gaps(p, now);
  td_health_state was = p->health.state;
  if (!td_health_tick(&p->health, now, p->of->patient, p->of->patience)) return;
  if (p->health.state == TD_DEAD) {
    p->health.state = was; /* it ends as others do */
    td_peer_end(p, TD_VERY_SILENT,
                td_error(TD_UNAVAILABLE,
                         "%s is dead: no sign of life for %.0f s", name_of(p),
                         (double)(now - p->health.heard) * 1e-9));
  } else {
    td_remote_peer_changed(p->of, p);
  }
}

/* ---- troubles of its connection ------------------------------------------ */

static void note(td_peer *p, td_status *s) {
  td_status_release(p->error);
  p->error = s;
}

/* Who was let in before is not refused, whatever its connections meet with: a
 * forwarder whose far end is gone takes them and closes them. Silence tells. */
void td_peer_trouble(td_peer *p, td_trouble what) {
  switch (what) {
  case TD_TROUBLE_LOST:
    p->broken = td_clock_now();
    if (td_health_on(&p->health, TD_BROKEN, td_clock_now()))
      td_remote_peer_changed(p->of, p);
    break;
  case TD_TROUBLE_UNREACHED:
    if (!p->welcomed)
      note(p, td_error(TD_UNAVAILABLE,
                       "nobody answers at %s: is a worker running there, and "
                       "is the port right and open?",
                       p->control));
    break;
  case TD_TROUBLE_KEY:
    if (p->welcomed) break;
    td_peer_end(p, TD_REFUSED,
                td_error(TD_PERMISSION_DENIED,
                         "%s does not let this process in: its public key is "
                         "not on the list there (worker --allow FILE)",
                         p->control));
    break;
  case TD_TROUBLE_MECHANISM:
    if (p->welcomed) break;
    td_peer_end(p, TD_REFUSED,
                td_error(TD_PERMISSION_DENIED,
                         "at %s one side speaks CURVE and the other does not: "
                         "give the worker's public key (attach's `key`), or "
                         "none on both sides",
                         p->control));
    break;
  case TD_TROUBLE_CLOSED:
    if (!p->welcomed)
      note(p, td_error(TD_UNAVAILABLE,
                       "at %s connections are taken, but no worker speaks "
                       "there: is it a forwarder whose worker is not there, "
                       "or another program?",
                       p->control));
    break;
  case TD_TROUBLE_HANDSHAKE:
    if (p->welcomed) break;
    td_peer_end(p, TD_REFUSED,
                td_error(TD_PERMISSION_DENIED,
                         "%s refused in the handshake: its public key is "
                         "probably not the one given",
                         p->control));
    break;
  }
  td_remote_news(p->of);
}
