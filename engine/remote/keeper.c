/* keeper.c - sessions whose master is this process: made, found, joined.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/remote/keeper_impl.h"
#include "engine/run/session_members.h"

/* ---- life ---------------------------------------------------------------- */

static td_session_options options_of(const td_remote *r,
                                     const Td__Remote__Keep *m) {
  td_session_options o = {.threads = r->threads,
                          .cpu_devices = r->cpu_devices,
                          .hard_placement = m->hard_placement,
                          .passes_off = m->passes_off};
  if (m->threads > 0 && m->threads < 4096 &&
      (r->threads <= 0 || (int)m->threads < r->threads))
    o.threads = (int)m->threads;
  if (m->cpu_devices > 0 && (int64_t)m->cpu_devices < r->cpu_devices)
    o.cpu_devices = (int)m->cpu_devices;
  if (m->slow_link < INT64_MAX) o.slow_link = (int64_t)m->slow_link;
  if (m->cache > 0 && m->cache <= 4096) o.cache = (int)m->cache;
  return o;
}

static td_status *fill(td_kept_session *k, const Td__Remote__Keep *m) {
  td_session_options o = options_of(k->of, m);
  k->name = td_strdup(m->name);
  if (!k->name) return td_oom();
  TD_TRY(td_graph_new(&k->graph));
  return td_session_new(k->of->runtime, k->graph, &o, &k->session);
}

static td_status *kept_new(td_remote *r, const Td__Remote__Keep *m,
                           const td_session_id *id, td_kept_session **out) {
  td_kept_session *k = td_calloc(1, sizeof *k);
  if (!k) return td_oom();
  k->refs = 1;
  k->of = td_remote_retain(r);
  k->maker = *id;
  k->outlive = m->outlive;
  k->made = td_clock_now();
  pthread_mutex_init(&k->lock, NULL);
  td_map_init(&k->known);
  td_status *s = fill(k, m);
  if (td_ok(s) && !td_vec_push(&r->keeper->all, k)) s = td_oom();
  if (td_ok(s))
    *out = k;
  else
    td_kept_release(k);
  return s;
}

/* ---- the list ------------------------------------------------------------ */

static td_kept_session *find(const td_remote *r, const char *name) {
  for (size_t i = 0; r->keeper && i < r->keeper->all.len; i++)
    if (strcmp(r->keeper->all.at[i]->name, name) == 0)
      return r->keeper->all.at[i];
  return NULL;
}

static td_status *not_found(const td_remote *r, const char *name) {
  td_str names = {0};
  for (size_t i = 0; r->keeper && i < r->keeper->all.len; i++)
    td_str_addf(&names, "%s\"%s\"", i ? ", " : "", r->keeper->all.at[i]->name);
  td_status *s =
      td_error(TD_NOT_FOUND, "%s keeps no session \"%s\"; there is %s",
               td_runtime_place(r->runtime), name,
               names.len ? td_str_c(&names) : "none");
  td_str_deinit(&names);
  return s;
}

static td_status *check_name(const char *name) {
  size_t len = strlen(name);
  bool good = len > 0 && len <= TD_KEPT_NAME;
  for (size_t i = 0; i < len; i++) good &= name[i] >= ' ' && name[i] != 0x7f;
  if (good) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a session's name has 1 to %d bytes that can be printed",
                  TD_KEPT_NAME);
}

/* The one of that name that the client means, or a new one. */
static td_status *find_or_make(td_remote *r, const Td__Remote__Keep *m,
                               const td_session_id *id, td_kept_session **out) {
  TD_TRY(check_name(m->name));
  *out = find(r, m->name);
  if (*out) {
    if (m->join || td_session_id_same(&(*out)->maker, id)) return NULL;
    return td_error(TD_ALREADY_EXISTS,
                    "%s keeps a session \"%s\" already; join it (leave "
                    "outlive out), or take another name",
                    td_runtime_place(r->runtime), m->name);
  }
  if (m->join) return not_found(r, m->name);
  if (r->keeper->all.len >= TD_KEPT_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED, "%d sessions are kept here already",
                    TD_KEPT_MOST);
  return kept_new(r, m, id, out);
}

td_status *td_keeper_enter(td_remote *r, const Td__Remote__Keep *m,
                           const td_session_id *id, td_participant **out) {
  td_kept_session *k;
  if (!r->keeper) r->keeper = td_calloc(1, sizeof *r->keeper);
  if (!r->keeper) return td_oom();
  TD_TRY(find_or_make(r, m, id, &k));
  if (!td_vec_reserve(&k->guests, 1)) return td_oom();
  TD_TRY(td_keeper_guest_new(k, id, out));
  k->guests.at[k->guests.len++] = *id;
  return NULL;
}
