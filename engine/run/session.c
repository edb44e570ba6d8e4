/* session.c - a graph bound to devices; compiled signatures and their cache.
 *
 * Planning is one at a time (the placer grows with the graph); running is not:
 * a step takes what it needs from the cache and holds no lock of the session.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/entropy.h"
#include "engine/graph/region.h"
#include "engine/run/session_devices.h"
#include "engine/run/session_impl.h"

enum { CACHE_DEFAULT = 256 };

/* ---- sessions ---- */

static unsigned env_passes_off(void) {
  unsigned off = 0;
  const char *name;
  for (int i = 0; (name = td_plan_pass_name(i)); i++)
    if (td_runtime_env_has("TIDE_OFF", name)) off |= td_plan_pass_bit(name);
  return off;
}

/* Where nothing was said of devices. */
static void fill_devices(td_session_options *own) {
  const char *device = getenv("TIDE_DEVICE");
  if (own->cpu_devices > 0) return;
  bool two = td_runtime_env_has("TIDE_TEST", "two");
  own->cpu_devices = two ? 2 : 1;
  own->spread = own->spread || two;
  if (!own->first && td_runtime_env_has("TIDE_TEST", "test"))
    own->first = device ? device : "TEST";
  if (!own->first && td_runtime_env_has("TIDE_TEST", "worker"))
    own->first = "/job:worker";
}

static td_status *fill_options(td_session *s, const td_session_options *o) {
  if (o) s->options = *o;
  td_session_options *own = &s->options;
  int pool = td_pool_size();
  if (own->threads <= 0 || own->threads > pool) own->threads = pool;
  fill_devices(own);
  if (own->cache <= 0) own->cache = CACHE_DEFAULT;
  own->passes_off |= env_passes_off();
  own->verify = own->verify || td_runtime_env_has("TIDE_TEST", "verify");
  own->roundtrip =
      own->roundtrip || td_runtime_env_has("TIDE_TEST", "roundtrip");
  const char *dump = own->dump ? own->dump : getenv("TIDE_DUMP");
  own->dump = NULL;
  if (!dump || !*dump) return NULL;
  own->dump = s->dump = td_strdup(dump);
  return s->dump ? NULL : td_oom();
}

static td_status *begin_alone(td_session *s) {
  uint64_t id[2] = {td_entropy(), td_entropy()};
  td_participant *here;
  s->signatures = id[0];
  td_members_entry *member;
  TD_TRY(td_participant_local_new(s->runtime, id, s->options.roundtrip, &here));
  td_status *st = td_members_entry_new(here, NULL, 0, 0, &member);
  td_participant_release(here);
  if (td_ok(st) && !td_members_add(&s->members, member))
    td_members_entry_free(member);
  return st;
}

/* Under the plan lock. */
static td_status *make_placer(td_session *s) {
  TD_TRY(td_session_devices_refresh(s));
  td_placer_options po = {.devices = s->devices,
                          .n_devices = s->n_devices,
                          .soft = !s->options.hard_placement,
                          .first = s->options.first,
                          .spread = s->options.spread};
  return td_placer_new(&po, &s->placer);
}

static td_status *session_init(td_session *s, const td_session_options *o) {
  TD_TRY(fill_options(s, o));
  TD_TRY(begin_alone(s));
  pthread_mutex_lock(&s->plan_lock);
  td_status *st = make_placer(s);
  pthread_mutex_unlock(&s->plan_lock);
  return st;
}

td_status *td_session_begin(td_runtime *rt, td_graph *g,
                            const td_session_options *options,
                            td_session **out) {
  td_session *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  s->refs = 1;
  s->runtime = td_runtime_retain(rt);
  s->graph = td_graph_retain(g);
  pthread_mutex_init(&s->lock, NULL);
  pthread_mutex_init(&s->plan_lock, NULL);
  td_map_init(&s->cache);
  td_members_init(&s->members);
  td_status *st = session_init(s, options);
  if (!td_ok(st)) {
    td_session_release(s);
    return st;
  }
  *out = s;
  return NULL;
}

td_session *td_session_retain(td_session *s) {
  __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
  return s;
}

bool td_session_try_retain(td_session *s) {
  int32_t n = __atomic_load_n(&s->refs, __ATOMIC_RELAXED);
  while (n > 0 &&
         !__atomic_compare_exchange_n(&s->refs, &n, n + 1, true,
                                      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  return n > 0;
}

td_status *td_session_closed_error(void) {
  return td_error(TD_FAILED_PRECONDITION,
                  "the session is closed; make another with td.session()");
}

/* The signatures are released outside the lock. */
void td_session_drop_cache(td_session *s) {
  pthread_mutex_lock(&s->lock);
  td_map old = s->cache;
  td_map_init(&s->cache);
  pthread_mutex_unlock(&s->lock);
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&old, &i, &e);) td_compiled_release(e->value);
  td_map_deinit(&old);
}

void td_session_close_members(td_session *s) {
  for (td_participant *p; (p = td_members_close(&s->members));) {
    p->ops->close(p);
    td_participant_release(p);
  }
}

void td_session_release(td_session *s) {
  if (!s || __atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  td_session_drop_cache(s);
  td_session_close_members(s);
  if (s->watcher.arg)
    td_device_list_unwatch(td_runtime_device_list(s->runtime), &s->watcher);
  td_placer_free(s->placer);
  if (s->planner) s->planner->free(s->planner);
  if (s->devices) td_runtime_drop_devices(s->devices, s->n_devices);
  td_members_deinit(&s->members);
  td_free(s->dump);
  td_graph_release(s->graph);
  td_runtime_release(s->runtime);
  pthread_mutex_destroy(&s->lock);
  pthread_mutex_destroy(&s->plan_lock);
  td_free(s);
}

/* ---- compiling ---- */

void td_session_plan_by(td_session *s, td_session_planner *p) {
  s->planner = p;
}

int64_t td_session_slow_link(const td_session *s) {
  return s->options.slow_link;
}

td_session_planner *td_session_planner_of(const td_session *s) {
  return s->planner;
}

static bool has_gone_nodes(const td_compiled *c, const td_device *none) {
  (void)none;
  td_status *st = td_compiled_check(c);
  td_status_release(st);
  return !td_ok(st);
}

/* What `spoilt` says yes to leaves the cache; it is released unlocked. */
static void forget(td_session *s,
                   bool (*spoilt)(const td_compiled *c, const td_device *d),
                   const td_device *d) {
  td_compiled *gone = NULL;
  const td_map_entry *e;
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; td_map_next(&s->cache, &i, &e);) {
    td_compiled *c = e->value;
    if (!spoilt(c, d)) continue;
    td_map_removen(&s->cache, c->key, c->key_len);
    c->next_gone = gone;
    gone = c;
  }
  pthread_mutex_unlock(&s->lock);
  for (td_compiled *next; gone; gone = next) {
    next = gone->next_gone;
    td_compiled_release(gone);
  }
}

/* Planned signatures of nodes that are gone leave the cache. */
static void forget_gone(td_session *s) {
  uint64_t cuts = td_graph_removals(s->graph);
  if (__atomic_exchange_n(&s->cuts, cuts, __ATOMIC_ACQ_REL) != cuts)
    forget(s, has_gone_nodes, NULL);
}

void td_session_forget_device(td_session *s, const td_device *d) {
  forget(s, td_compiled_uses, d);
}

td_status *td_session_compile(td_session *s, const td_signature *sig,
                              bool partial, td_compiled **out) {
  int64_t start = td_clock_now();
  forget_gone(s);
  TD_TRY(td_compiled_new(s, sig, partial, out));
  __atomic_fetch_add(&s->stats.plans, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&s->stats.plan_ns, td_clock_now() - start, __ATOMIC_RELAXED);
  return NULL;
}

/* ---- the cache ---- */

typedef struct key_entry {
  uint64_t node; /* its serial */
  int64_t port;
} key_entry;

static td_status *make_key(const td_signature *sig, char **key, size_t *len) {
  size_t n = (size_t)sig->n_feeds + (size_t)sig->n_fetches +
             (size_t)sig->n_targets + 2;
  key_entry *k = td_calloc(n, sizeof *k);
  if (!k) return td_oom();
  *key = (char *)k;
  *len = n * sizeof *k;
  for (int i = 0; i < sig->n_feeds; i++)
    *k++ = (key_entry){sig->feeds[i].node->serial, sig->feeds[i].port};
  *k++ = (key_entry){0, -1};
  for (int i = 0; i < sig->n_fetches; i++)
    *k++ = (key_entry){sig->fetches[i].node->serial, sig->fetches[i].port};
  *k++ = (key_entry){0, -1};
  for (int i = 0; i < sig->n_targets; i++)
    *k++ = (key_entry){sig->targets[i]->serial, -1};
  return NULL;
}

/* The entry used longest ago leaves; returned to be released unlocked. */
static td_compiled *evict_locked(td_session *s) {
  if (s->cache.count < (size_t)s->options.cache) return NULL;
  td_compiled *oldest = NULL;
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&s->cache, &i, &e);) {
    td_compiled *c = e->value;
    if (!oldest || c->used < oldest->used) oldest = c;
  }
  td_map_removen(&s->cache, oldest->key, oldest->key_len);
  s->stats.evicted++;
  return oldest;
}

static bool is_spoilt(const td_session *s, const td_compiled *c) {
  if (td_compiled_lost(c)) return true;
  return s->planner && c->n_enrollments > 0 &&
         s->planner->spoilt(c->enrollments[0]);
}

/* Retained, or NULL. One that came too late to leave with its device is not
 * used, and goes. */
static td_compiled *cache_get(td_session *s, const char *key, size_t len) {
  td_compiled *spoilt = NULL;
  pthread_mutex_lock(&s->lock);
  td_compiled *c = td_map_getn(&s->cache, key, len);
  if (c && TD_UNLIKELY(is_spoilt(s, c))) {
    spoilt = td_map_removen(&s->cache, key, len);
    c = NULL;
  }
  if (c) {
    c->used = ++s->tick;
    td_compiled_retain(c);
  }
  pthread_mutex_unlock(&s->lock);
  td_compiled_release(spoilt);
  return c;
}

/* Puts `c` in, unless another thread was quicker: then that one is used. One
 * whose device went meanwhile stays out: nobody would come to take it away. */
static td_status *cache_put(td_session *s, td_compiled **c) {
  td_compiled *mine = *c, *gone = NULL;
  td_status *st = NULL;
  pthread_mutex_lock(&s->lock);
  td_compiled *other = td_map_getn(&s->cache, mine->key, mine->key_len);
  if (other) {
    *c = td_compiled_retain(other);
    gone = mine;
  } else if (!td_compiled_lost(mine)) {
    gone = evict_locked(s);
    mine->used = ++s->tick;
    if (td_map_putn(&s->cache, mine->key, mine->key_len, mine))
      td_compiled_retain(mine);
    else
      st = td_oom();
  }
  pthread_mutex_unlock(&s->lock);
  td_compiled_release(gone);
  if (!td_ok(st)) td_compiled_release(mine);
  return st;
}

static td_status *check_owner(td_session *s, const td_signature *sig) {
  for (int i = 0; i < sig->n_feeds + sig->n_fetches + sig->n_targets; i++) {
    const td_node *n = i < sig->n_feeds ? sig->feeds[i].node
                       : i < sig->n_feeds + sig->n_fetches
                           ? sig->fetches[i - sig->n_feeds].node
                           : sig->targets[i - sig->n_feeds - sig->n_fetches];
    if (n->graph != s->graph)
      return td_error(TD_INVALID_ARGUMENT,
                      "\"%s\" belongs to another graph than this session",
                      n->name);
    if (TD_UNLIKELY(n->gone)) return td_region_gone_error(n);
  }
  return NULL;
}

td_status *td_session_plan(td_session *s, const td_signature *sig,
                           td_plan **out) {
  TD_TRY(check_owner(s, sig));
  return td_compiled_plan(s, sig, false, out);
}

td_status *td_session_lookup(td_session *s, const td_signature *sig,
                             td_compiled **out) {
  TD_TRY(check_owner(s, sig));
  char *key = NULL;
  size_t len = 0;
  TD_TRY(make_key(sig, &key, &len));
  td_compiled *c = cache_get(s, key, len);
  td_status *st = NULL;
  if (!c) {
    st = td_session_compile(s, sig, false, &c);
    if (td_ok(st)) {
      c->key = key;
      c->key_len = len;
      key = NULL;
      st = cache_put(s, &c);
    }
  }
  td_free(key);
  if (td_ok(st)) *out = c;
  return st;
}

/* ---- looking inside ---- */

void td_session_explain_placement(td_session *s, td_str *out) {
  pthread_mutex_lock(&s->plan_lock);
  td_status *st = td_session_devices_refresh(s);
  td_graph_lock(s->graph);
  if (td_ok(st)) st = td_placer_extend(s->placer, s->graph);
  if (td_ok(st))
    td_placer_explain(s->placer, s->graph, out);
  else
    td_str_add(out, td_status_message(st));
  td_graph_unlock(s->graph);
  pthread_mutex_unlock(&s->plan_lock);
  td_status_release(st);
}

/* A named container is its process's, the default one the session's. */
td_status *td_session_reset(td_session *s, const char *container) {
  td_status *st = NULL;
  uint64_t at = 0;
  if (container)
    td_resources_reset(td_runtime_resources(s->runtime), container);
  for (td_participant *p; (p = td_members_next(&s->members, &at, NULL));) {
    if (!container)
      p->ops->clear(p);
    else if (p->ops->reset_container)
      st = td_status_first(st, p->ops->reset_container(p, container));
    td_participant_release(p);
  }
  return st;
}

td_status *td_session_rename(td_session *s, const char *name, const char *to) {
  td_status *st = NULL;
  uint64_t at = 0; /* who is lost has no variables any more */
  for (td_participant *p; (p = td_members_next(&s->members, &at, NULL));) {
    st = td_status_first(st, p->ops->rename(p, name, to));
    td_participant_release(p);
  }
  if (to) td_session_drop_cache(s);
  return st;
}

/* Nodes stand in the order in which they came. Caller frees *serials. */
static td_status *list_makers(td_graph *g, td_makers *m) {
  td_graph_lock(g);
  size_t n = (size_t)td_graph_size(g);
  *m = (td_makers){.serials = td_calloc(n + 1, sizeof *m->serials),
                   .last = td_graph_next_serial(g) - 1};
  for (; m->serials && m->n < n; m->n++)
    m->serials[m->n] = td_graph_node(g, (int32_t)m->n)->serial;
  td_graph_unlock(g);
  return m->serials ? NULL : td_oom();
}

td_status *td_session_sweep(td_session *s) {
  td_makers alive;
  TD_TRY(list_makers(s->graph, &alive));
  uint64_t at = 0;
  for (td_participant *p; (p = td_members_next(&s->members, &at, NULL));) {
    if (p->ops->sweep) p->ops->sweep(p, &alive);
    td_participant_release(p);
  }
  td_free(alive.serials);
  return NULL;
}

td_session_stats td_session_read_stats(td_session *s) {
  td_session_stats st;
  pthread_mutex_lock(&s->lock);
  st = s->stats;
  pthread_mutex_unlock(&s->lock);
  st.steps = __atomic_load_n(&s->stats.steps, __ATOMIC_RELAXED);
  return st;
}

size_t td_session_list_ran(td_session *s, td_session_ran *out, size_t room) {
  const td_map_entry *e;
  pthread_mutex_lock(&s->lock);
  size_t n = 0, all = s->cache.count;
  for (size_t i = 0; n < room && td_map_next(&s->cache, &i, &e);) {
    const td_compiled *c = e->value;
    out[n].signature = td_hash(c->key, c->key_len, 0);
    out[n++].last = __atomic_load_n(&c->last, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&s->lock);
  return all;
}
