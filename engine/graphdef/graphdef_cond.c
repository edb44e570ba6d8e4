/* graphdef_cond.c - loops whose file has no LoopCond.
 *
 * A LoopCond computes nothing: it marks the predicate by which the Switches of
 * a loop turn, and TensorFlow runs a loop without it. Everything here goes by
 * the mark, so a loop that lacks it gets one as it is read:
 *
 *   less -> Switch                  less -> LoopCond -> Switch
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/graphdef/graphdef_read_impl.h"

/* A predicate, as a key. */
typedef struct pred {
  int32_t item, port;
} pred;

typedef struct marking {
  td_import *m;
  td_map cond; /* by pred: the item that marks it, + 1 */
} marking;

static bool is_kind(const td_import *m, td_source s, td_op_kind kind) {
  return s.item >= 0 && m->item[s.item].op && m->item[s.item].op->kind == kind;
}

static pred pred_of(const td_item *n, int i) {
  return (pred){n->in[i].item, n->in[i].port};
}

/* Does `n` split the variable of a loop? */
static bool turns(const td_import *m, const td_item *n) {
  if (!n->op || n->op->kind != TD_OP_SWITCH || n->n_in != 2) return false;
  if (!is_kind(m, n->in[0], TD_OP_MERGE)) return false;
  const td_item *merge = &m->item[n->in[0].item];
  for (int i = 0; i < merge->n_in; i++)
    if (is_kind(m, merge->in[i], TD_OP_NEXT)) return true;
  return false;
}

/* Is the predicate marked, perhaps behind Identities? */
static bool marked(const td_import *m, td_source s) {
  enum { PASSED = 16 };
  for (int i = 0; i < PASSED && is_kind(m, s, TD_OP_IDENTITY); i++) {
    if (m->item[s.item].n_in == 0) return false;
    s = m->item[s.item].in[0];
  }
  return is_kind(m, s, TD_OP_COND);
}

/* What splits a variable beside its loop is a branch on the variable. */
static bool lacks(const td_import *m, const td_item *n) {
  return turns(m, n) && n->in[1].item >= 0 && !m->item[n->in[0].item].turned &&
         !marked(m, n->in[1]);
}

static void find_turned(td_import *m) {
  for (int32_t i = 0; i < m->n_item; i++) {
    const td_item *n = &m->item[i];
    if (turns(m, n) && marked(m, n->in[1]))
      m->item[n->in[0].item].turned = true;
  }
}

static td_status *keep(marking *t, pred key, int32_t item) {
  void *at = (void *)((intptr_t)item + 1);
  return td_map_putn(&t->cond, &key, sizeof key, at) ? NULL : td_oom();
}

static int32_t find(const marking *t, pred key) {
  return (int32_t)(intptr_t)td_map_getn(&t->cond, &key, sizeof key) - 1;
}

/* A name that no node of the file has. */
static td_status *name_of(td_import *m, const char *of, char **out) {
  size_t size = strlen(of) + 32;
  char *name = td_arena_alloc(&m->arena, size);
  if (!name) return td_oom();
  snprintf(name, size, "%s/LoopCond", of);
  for (int k = 1; td_names_find(&m->names, name, strlen(name)); k++)
    snprintf(name, size, "%s/LoopCond_%d", of, k);
  *out = name;
  return NULL;
}

static td_status *make(marking *t, const td_item *n) {
  td_import *m = t->m;
  const Td__NodeDef *from = m->item[n->in[1].item].def;
  Td__NodeDef *def = td_arena_alloc(&m->arena, sizeof *def);
  td_item *item = &m->item[m->n_item];
  *item = (td_item){.def = def, .op = td_op_find("LoopCond"), .n_in = 1};
  item->in = td_arena_alloc(&m->arena, sizeof *item->in);
  if (!def || !item->in || !item->op) return td_oom();
  td__node_def__init(def);
  TD_TRY(name_of(m, from->name, &def->name));
  def->op = (char *)item->op->type;
  def->device = from->device;
  item->in[0] = n->in[1];
  item->control = item->in + 1;
  TD_TRY(td_import_name(m, item));
  return keep(t, pred_of(n, 1), m->n_item++);
}

/* Those that there are serve a Switch that goes past them, too. */
static td_status *find_marks(marking *t) {
  td_import *m = t->m;
  for (int32_t i = 0; i < m->n_item; i++)
    if (m->item[i].op && m->item[i].op->kind == TD_OP_COND &&
        m->item[i].n_in == 1)
      TD_TRY(keep(t, pred_of(&m->item[i], 0), i));
  return NULL;
}

static td_status *mark(marking *t, int32_t lacking) {
  td_import *m = t->m;
  int32_t n = m->n_item;
  td_item *more =
      td_arena_alloc(&m->arena, (size_t)(n + lacking) * sizeof *more);
  if (!more || !td_names_reserve(&m->names, (size_t)lacking)) return td_oom();
  memcpy(more, m->item, (size_t)n * sizeof *more);
  m->item = more;
  TD_TRY(find_marks(t));
  for (int32_t i = 0; i < n; i++)
    if (lacks(m, &m->item[i]) && find(t, pred_of(&m->item[i], 1)) < 0)
      TD_TRY(make(t, &m->item[i]));
  for (int32_t i = 0; i < n; i++) {
    td_item *s = &m->item[i];
    if (!s->op || s->op->kind != TD_OP_SWITCH || s->n_in != 2) continue;
    int32_t cond = find(t, pred_of(s, 1));
    if (cond >= n || (cond >= 0 && lacks(m, s)))
      s->in[1] = (td_source){.item = cond};
  }
  return NULL;
}

td_status *td_import_conds(td_import *m) {
  marking t = {.m = m};
  int32_t lacking = 0;
  if (m->o->part) return NULL;
  find_turned(m);
  for (int32_t i = 0; i < m->n_item; i++) lacking += lacks(m, &m->item[i]);
  if (!lacking) return NULL;
  td_map_init(&t.cond);
  td_status *s = mark(&t, lacking);
  td_map_deinit(&t.cond);
  return s;
}
