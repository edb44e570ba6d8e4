/* keeper_graph.c - a kept graph grows by what clients register.
 *
 * A node comes with its client's serial, and is added the first time only. It
 * keeps its name where that is free: after a cell was run again its new nodes
 * are not the old ones. Variables are known by what their handles say, so that
 * a new handle of an old variable finds what that holds.
 *
 * A node that is there may have come to wait for others since, as a loop's do
 * when its gradient is taken. What a client has no more goes, unless others
 * know or use it.
 *
 * What comes was read as any GraphDef is, by td_part_open; here numbers, names
 * and inputs are held against what is there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/graph/graph_check.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/node_edit.h"
#include "engine/graph/region.h"
#include "engine/graphdef/function.h"
#include "engine/graphdef/graphdef.h"
#include "engine/remote/far_graph.h"
#include "engine/remote/keeper_impl.h"

enum { KNOWN_MOST = 4 * TD_KEPT_NODES };

/* Who has a node under which serial: the key of td_kept_session.known. */
typedef struct known_key {
  td_session_id who;
  uint64_t serial;
} known_key;

typedef struct merging {
  td_kept_session *k;
  const td_session_id *who;
  td_graph *part;
  td_node **here;     /* by node of the part: the kept graph's */
  bool *fresh;        /* by node of the part: it was added */
  TD_VEC(td_edge) in; /* of the node at hand */
  TD_VEC(td_node *) control;
  td_kept_signature *sig;
} merging;

static bool is_end(const td_node *n) {
  return n->op->kind == TD_OP_ARG || n->op->kind == TD_OP_RETVAL ||
         strcmp(n->name, TD_FAR_TARGETS) == 0;
}

static td_status *wrong(const td_node *n, const char *what) {
  return td_status_at(td_error(TD_INVALID_ARGUMENT, "%s", what), n->op->type,
                      n->name, NULL, NULL);
}

/* ---- nodes --------------------------------------------------------------- */

static td_status *note_known(td_kept_session *k, const td_session_id *who,
                             uint64_t serial, td_node *n) {
  known_key key = {*who, serial};
  if (serial == 0) return NULL;
  if (k->known.count >= KNOWN_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "clients of session \"%s\" know %zu nodes, as many as may "
                    "be",
                    k->name, k->known.count);
  return td_map_putn(&k->known, &key, sizeof key, n) ? NULL : td_oom();
}

/* Is it the same node? A client that counts wrong is told. */
static bool is_alike(const td_node *a, const td_node *b) {
  if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out)
    return false;
  for (int32_t i = 0; i < a->n_out; i++)
    if (a->out[i].dtype != b->out[i].dtype) return false;
  return true;
}

static td_status *find_known(merging *m, const td_node *n, td_node **out) {
  known_key key = {*m->who, n->serial};
  *out = n->serial ? td_map_getn(&m->k->known, &key, sizeof key) : NULL;
  if (!*out || is_alike(*out, n)) return NULL;
  td_node *was = *out;
  *out = NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "node \"%s\" (%s) comes with the number of \"%s\" (%s)",
                  n->name, n->op->type, was->name, was->op->type);
}

static size_t bytes_of(const td_node *n) {
  size_t sum = 0;
  for (int32_t i = 0; i < n->op->n_attr; i++)
    if (n->attr[i].kind == TD_ATTR_TENSOR && !n->attr[i].is_list)
      sum += td_tensor_bytes(n->attr[i].tensor);
  return sum;
}

static td_status *check_room(const td_kept_session *k, const td_node *n) {
  if (k->nodes >= TD_KEPT_NODES)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "session \"%s\" has %zu nodes, as many as may be", k->name,
                    k->nodes);
  if (bytes_of(n) <= TD_KEPT_BYTES - k->bytes) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "session \"%s\" has constants of %zu bytes; %zu more pass "
                  "the limit of %zu",
                  k->name, k->bytes, bytes_of(n), TD_KEPT_BYTES);
}

/* A name that is free in the kept graph. Under its lock. */
static void free_name(td_kept_session *k, const char *wanted, td_str *out) {
  td_str_add(out, wanted);
  while (!out->failed && td_graph_find(k->graph, td_str_c(out))) {
    td_str_clear(out);
    td_str_addf(out, "%s_%zu", wanted, ++k->names);
  }
}

static td_edge here(const merging *m, td_edge e) {
  return (td_edge){e.node ? m->here[e.node->id] : NULL, e.port};
}

static td_status *gather(merging *m, const td_node *n) {
  m->in.len = m->control.len = 0;
  for (int i = 0; i < n->n_in; i++)
    if (!td_vec_push(&m->in, here(m, n->in[i]))) return td_oom();
  for (int i = 0; i < n->n_control; i++) {
    td_node *before = m->here[n->control[i]->id];
    if (before && !td_vec_push(&m->control, before)) return td_oom();
  }
  return NULL;
}

/* Its number in the kept graph is one of that graph. */
static td_status *add(merging *m, td_node *n) {
  td_kept_session *k = m->k;
  td_str name = {0};
  td_node *copy = NULL;
  uint64_t serial = n->serial;
  TD_TRY(check_room(k, n));
  TD_TRY(gather(m, n));
  free_name(k, n->name, &name);
  n->serial = 0;
  td_status *s = name.failed ? td_oom()
                             : td_graph_clone_node(k->graph, n, td_str_c(&name),
                                                   m->in.at, m->control.at,
                                                   (int)m->control.len, &copy);
  n->serial = serial;
  td_str_deinit(&name);
  TD_TRY(s);
  copy->placed = -1;
  copy->frame = 0;
  copy->flow = 0;
  k->nodes++;
  k->bytes += bytes_of(n);
  m->here[n->id] = copy;
  m->fresh[n->id] = true;
  return note_known(k, m->who, serial, copy);
}

/* Back edges: what they come from stands behind. */
static void set_late(merging *m, const td_node *n) {
  td_node *copy = m->here[n->id];
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && !copy->in[i].node)
      td_node_set_in(copy, i, here(m, n->in[i]));
}

static td_status *check_inputs(const td_node *n) {
  const char *type = n->op->type;
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && is_end(n->in[i].node))
      return wrong(n, "a node takes an end of its signature");
  for (int i = 0; i < n->n_control; i++)
    if (is_end(n->control[i]))
      return wrong(n, "a node waits for an end of its signature");
  if (n->op->kind == TD_OP_FOREIGN) /* its op is the part's own */
    return td_node_blame(td_op_unknown(n->name, &type, 1), n);
  if (td_op_is_end(n->op->kind))
    return wrong(n, "a signature of a kept session has no links");
  return NULL;
}

static td_status *add_nodes(merging *m) {
  int32_t n = td_graph_size(m->part);
  for (int32_t id = 0; id < n; id++) {
    td_node *one = td_graph_node(m->part, id);
    if (is_end(one)) continue;
    TD_TRY(check_inputs(one));
    TD_TRY(find_known(m, one, &m->here[id]));
    if (!m->here[id]) TD_TRY(add(m, one));
  }
  for (int32_t id = 0; id < n; id++)
    if (m->fresh[id]) set_late(m, td_graph_node(m->part, id));
  return NULL;
}

/* ---- what nodes wait for ------------------------------------------------- */

static bool waits_for(const td_node *n, const td_node *before) {
  for (int i = 0; i < n->n_control; i++)
    if (n->control[i] == before) return true;
  return false;
}

/* The nodes that wait for one more are m->control then, one by one. */
static td_status *add_controls_of(merging *m, const td_node *n) {
  td_node *known = m->here[n->id];
  for (int i = 0; i < n->n_control; i++) {
    td_node *before = m->here[n->control[i]->id];
    if (!before || waits_for(known, before)) continue;
    if (!td_vec_push(&m->control, known)) return td_oom();
    td_status *s = td_node_add_control(known, before);
    if (td_ok(s)) continue;
    m->control.len--;
    return s;
  }
  return NULL;
}

static td_status *check_order(const td_graph *g) {
  int32_t *order = NULL;
  td_status *s = td_graph_order(g, &order);
  td_free(order);
  return s;
}

/* Of nodes that were there; whoever would go in a circle waits for nobody. */
static td_status *add_controls(merging *m) {
  td_status *s = NULL;
  m->control.len = 0;
  for (int32_t id = 0; td_ok(s) && id < td_graph_size(m->part); id++)
    if (m->here[id] && !m->fresh[id])
      s = add_controls_of(m, td_graph_node(m->part, id));
  if (td_ok(s) && m->control.len > 0) s = check_order(m->k->graph);
  if (td_ok(s)) return NULL;
  td_graph_lock(m->k->graph);
  while (m->control.len > 0) {
    td_node *n = m->control.at[--m->control.len];
    td_node_drop_control(n, n->n_control - 1);
  }
  td_graph_unlock(m->k->graph);
  return s;
}

/* ---- functions ----------------------------------------------------------- */

static bool differs(const td_bytes *a, const td_bytes *b) {
  return a->len != b->len || memcmp(a->at, b->at, a->len) != 0;
}

/* Of two that are called alike the old one gives way, wherever it is called. */
static td_status *make_way(td_kept_session *k, const char *name) {
  td_str to = {0};
  do {
    td_str_clear(&to);
    td_str_addf(&to, "%s_%zu", name, ++k->names);
  } while (!to.failed && td_function_find(k->graph, td_str_c(&to)));
  td_status *s =
      to.failed ? td_oom() : td_function_rename(k->graph, name, td_str_c(&to));
  td_str_deinit(&to);
  return s;
}

/* A graph of functions alone, as bytes. */
static td_status *add_functions(td_kept_session *k, const td_graph *part) {
  td_graph *only = NULL;
  char *bytes = NULL;
  size_t len;
  bool all = true;
  for (int i = 0; i < td_function_count(part); i++) {
    const char *name = td_function_name(part, i);
    const td_bytes *own = td_function_find(k->graph, name);
    if (own && differs(own, td_function_find(part, name)))
      TD_TRY(make_way(k, name));
    all = all && td_function_find(k->graph, name);
  }
  if (all) return NULL;
  TD_TRY(td_graph_new(&only));
  td_status *s = td_function_copy(part, only);
  if (td_ok(s)) s = td_graphdef_write(only, &bytes, &len);
  if (td_ok(s)) s = td_graphdef_read(k->graph, bytes, len, NULL);
  td_free(bytes);
  td_graph_release(only);
  return s;
}

/* ---- the signature ------------------------------------------------------- */

static td_status *take_retval(merging *m, const td_node *n) {
  td_kept_signature *sig = m->sig;
  int64_t at = td_node_int(n, "index");
  if (at < 0 || at >= sig->n_fetches + sig->n_feeds || n->n_in != 1 ||
      !n->in[0].node || !m->here[n->in[0].node->id])
    return wrong(n, "it is no end of this signature");
  td_edge e = here(m, n->in[0]);
  if (at < sig->n_fetches)
    sig->fetches[at] = e;
  else
    sig->feeds[at - sig->n_fetches] = e;
  return NULL;
}

static td_status *take_targets(merging *m, const td_node *n) {
  td_kept_signature *sig = m->sig;
  int64_t was = 0;
  td_free(sig->targets);
  sig->n_targets = 0;
  sig->targets = td_calloc((size_t)n->n_control + 1, sizeof(td_node *));
  if (!sig->targets) return td_oom();
  for (int i = 0; i < n->n_control; i++) {
    td_node *target = m->here[n->control[i]->id];
    if (!target) return wrong(n, "a target is an end of the signature");
    sig->targets[sig->n_targets++] = target;
  }
  const td_attr *seed = td_node_attr(n, "_seed");
  if (!seed || seed->kind != TD_ATTR_INT) return NULL;
  if (!td_graph_seed(m->k->graph, &was) || was != seed->i)
    td_graph_set_seed(m->k->graph, seed->i);
  return NULL;
}

static td_status *take_ends(merging *m) {
  td_kept_signature *sig = m->sig;
  bool whole = true;
  for (int32_t id = 0; id < td_graph_size(m->part); id++) {
    const td_node *n = td_graph_node(m->part, id);
    if (n->op->kind == TD_OP_RETVAL)
      TD_TRY(take_retval(m, n));
    else if (strcmp(n->name, TD_FAR_TARGETS) == 0)
      TD_TRY(take_targets(m, n));
  }
  for (int i = 0; i < sig->n_feeds; i++) whole &= sig->feeds[i].node != NULL;
  for (int i = 0; i < sig->n_fetches; i++)
    whole &= sig->fetches[i].node != NULL;
  return whole ? NULL
               : td_error(TD_INVALID_ARGUMENT,
                          "a signature of %d feeds and %d fetches lacks some",
                          sig->n_feeds, sig->n_fetches);
}

void td_kept_signature_deinit(td_kept_signature *s) {
  td_free(s->feeds);
  td_free(s->fetches);
  td_free(s->targets);
  *s = (td_kept_signature){0};
}

/* ---- the whole ----------------------------------------------------------- */

static td_status *make_room(merging *m, int feeds, int fetches) {
  size_t n = (size_t)td_graph_size(m->part);
  m->here = td_calloc(n + 1, sizeof(td_node *));
  m->fresh = td_calloc(n + 1, sizeof *m->fresh);
  *m->sig = (td_kept_signature){.n_feeds = feeds, .n_fetches = fetches};
  m->sig->feeds = td_calloc((size_t)feeds + 1, sizeof(td_edge));
  m->sig->fetches = td_calloc((size_t)fetches + 1, sizeof(td_edge));
  return m->here && m->fresh && m->sig->feeds && m->sig->fetches ? NULL
                                                                 : td_oom();
}

static td_status *merge(merging *m) {
  TD_TRY(add_functions(m->k, m->part));
  td_graph_lock(m->k->graph);
  td_status *s = add_nodes(m);
  td_graph_unlock(m->k->graph);
  TD_TRY(s);
  TD_TRY(add_controls(m));
  return take_ends(m);
}

td_status *td_kept_merge(td_kept_session *k, const td_session_id *who,
                         td_graph *part, int feeds, int fetches,
                         td_kept_signature *out) {
  merging m = {.k = k, .who = who, .part = part, .sig = out};
  td_status *s = make_room(&m, feeds, fetches);
  pthread_mutex_lock(&k->lock);
  if (td_ok(s)) s = merge(&m);
  pthread_mutex_unlock(&k->lock);
  td_free(m.here);
  td_free(m.fresh);
  td_vec_free(&m.in);
  td_vec_free(&m.control);
  if (!td_ok(s)) td_kept_signature_deinit(out);
  return s;
}

/* ---- for who joins ------------------------------------------------------- */

static td_status *write_graph(td_kept_session *k, td_str *out) {
  char *bytes;
  size_t len;
  int32_t n = td_graph_size(k->graph);
  TD_TRY(td_graphdef_export(k->graph, &bytes, &len));
  td_bytes_put(out, (uint64_t)n, 4);
  for (int32_t id = 0; id < n; id++) {
    const td_node *node = td_graph_node(k->graph, id);
    td_bytes_put(out, node->serial, 8);
    td_str_addn(out, node->name, strlen(node->name) + 1);
  }
  td_str_addn(out, bytes, len);
  td_free(bytes);
  return out->failed ? td_oom() : NULL;
}

td_status *td_kept_write(td_kept_session *k, td_str *out) {
  pthread_mutex_lock(&k->lock);
  td_graph_lock(k->graph);
  td_status *s = write_graph(k, out);
  td_graph_unlock(k->graph);
  pthread_mutex_unlock(&k->lock);
  return s;
}

/* The node of that serial, which ascend; NULL: it has gone. */
static td_node *find_serial(const td_graph *g, uint64_t serial) {
  int32_t low = 0, high = td_graph_size(g);
  while (low < high) {
    int32_t mid = low + (high - low) / 2;
    if (td_graph_node(g, mid)->serial < serial)
      low = mid + 1;
    else
      high = mid;
  }
  td_node *n = low < td_graph_size(g) ? td_graph_node(g, low) : NULL;
  return n && n->serial == serial ? n : NULL;
}

td_status *td_kept_adopt(td_kept_session *k, const td_session_id *who,
                         const uint64_t *pairs, size_t n) {
  td_status *s = NULL;
  if (n % 2)
    return td_error(TD_INVALID_ARGUMENT, "%zu numbers are no pairs of serials",
                    n);
  pthread_mutex_lock(&k->lock);
  for (size_t i = 0; td_ok(s) && i < n; i += 2) {
    td_node *node = find_serial(k->graph, pairs[i]);
    if (node) s = note_known(k, who, pairs[i + 1], node);
  }
  pthread_mutex_unlock(&k->lock);
  return s;
}

/* ---- what is no more ----------------------------------------------------- */

static bool is_alive(const td_makers *alive, uint64_t serial) {
  size_t low = 0, high = alive->n;
  if (serial > alive->last) return true;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (alive->serials[mid] < serial)
      low = mid + 1;
    else
      high = mid;
  }
  return low < alive->n && alive->serials[low] == serial;
}

typedef TD_VEC(td_session_id) crowd;

/* The clients that are there. */
static td_status *list_guests(td_kept_session *k, crowd *out) {
  td_remote_enter(k->of);
  bool ok = td_vec_reserve(out, k->guests.len);
  for (size_t i = 0; ok && i < k->guests.len; i++)
    out->at[out->len++] = k->guests.at[i];
  td_remote_leave(k->of);
  return ok ? NULL : td_oom();
}

static bool is_there(const crowd *guests, const td_session_id *who) {
  for (size_t i = 0; i < guests->len; i++)
    if (td_session_id_same(&guests->at[i], who)) return true;
  return false;
}

/* Which nodes `who` has no more and nobody else who is there knows, by id. What
 * others know or use is looked at again the next time. */
static bool find_unused(const td_kept_session *k, const crowd *guests,
                        const td_session_id *who, const td_makers *alive,
                        bool *unused) {
  const td_map_entry *e;
  known_key key;
  bool any = false;
  for (int known = 0; known < 2; known++)
    for (size_t i = 0; td_map_next(&k->known, &i, &e);) {
      memcpy(&key, e->key, sizeof key);
      bool own = td_session_id_same(&key.who, who);
      bool gone = own && !is_alive(alive, key.serial);
      if (known ? !gone && (own || is_there(guests, &key.who)) : gone)
        unused[((const td_node *)e->value)->id] = !known;
      any = any || gone;
    }
  return any;
}

static void forget_gone(td_kept_session *k) {
  const td_map_entry *e;
  known_key key;
  for (size_t i = 0; td_map_next(&k->known, &i, &e);) {
    memcpy(&key, e->key, sizeof key);
    if (((const td_node *)e->value)->gone)
      td_map_removen(&k->known, &key, sizeof key);
  }
}

static void count_again(td_kept_session *k) {
  k->nodes = (size_t)td_graph_size(k->graph);
  k->bytes = 0;
  for (int32_t id = 0; id < td_graph_size(k->graph); id++)
    k->bytes += bytes_of(td_graph_node(k->graph, id));
}

static td_status *sweep(td_kept_session *k, const crowd *guests,
                        const td_session_id *who, const td_makers *alive,
                        int32_t *n) {
  size_t size = (size_t)td_graph_size(k->graph);
  bool *unused = td_calloc(size + 1, sizeof *unused);
  if (!unused) return td_oom();
  td_status *s = NULL;
  if (find_unused(k, guests, who, alive, unused))
    s = td_region_sweep_unused(k->graph, unused, n);
  td_free(unused);
  if (*n == 0) return s;
  forget_gone(k);
  count_again(k);
  return s;
}

td_status *td_kept_sweep(td_kept_session *k, const td_session_id *who,
                         const td_makers *alive) {
  crowd guests = {0};
  int32_t n = 0;
  td_status *s = list_guests(k, &guests);
  pthread_mutex_lock(&k->lock);
  if (td_ok(s)) s = sweep(k, &guests, who, alive, &n);
  pthread_mutex_unlock(&k->lock);
  td_vec_free(&guests);
  return td_ok(s) && n > 0 ? td_session_sweep(k->session) : s;
}

/* ---- variables ----------------------------------------------------------- */

static bool is_handle_of(const td_node *n, const char *name) {
  if (n->n_out != 1 || n->out[0].dtype != TD_RESOURCE) return false;
  return strcmp(td_node_string(n, "shared_name"), name) == 0;
}

td_status *td_kept_rename(td_kept_session *k, const char *name,
                          const char *to) {
  td_status *s = NULL;
  pthread_mutex_lock(&k->lock);
  for (int32_t id = 0; to && td_ok(s) && id < td_graph_size(k->graph); id++) {
    td_node *n = td_graph_node(k->graph, id);
    if (is_handle_of(n, name)) s = td_region_rename_variable(n, to);
  }
  pthread_mutex_unlock(&k->lock);
  if (td_ok(s)) s = td_session_rename(k->session, name, to);
  return s;
}
