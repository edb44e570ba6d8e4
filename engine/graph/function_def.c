/* function_def.c - one definition: its bytes, and what they call.
 *
 * The bytes are kept as they came, so that what leaves equals what arrived;
 * beside them only what is asked for again. Another name means other bytes, so
 * a new definition is made: plans go on with the one they have.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graph/function_impl.h"
#include "engine/graph/graphdef_impl.h"
#include "engine/graph/op.h"

/* ---- names of functions in a definition ---------------------------------- */

/* Looks at a name, and may put another in its place. */
typedef void visit(void *arg, char **name);

/* Functions in attributes of one another are as deep as the reader allows. */
static void visit_value(const Td__AttrValue *v, visit *f, void *arg);

static void visit_func(Td__NameAttrList *func, visit *f, void *arg) {
  f(arg, &func->name);
  for (size_t i = 0; i < func->n_attr; i++)
    visit_value(func->attr[i]->value, f, arg);
}

static void visit_value(const Td__AttrValue *v, visit *f, void *arg) {
  if (!v) return;
  if (v->value_case == TD__ATTR_VALUE__VALUE_FUNC)
    visit_func(v->func, f, arg);
  else if (v->value_case == TD__ATTR_VALUE__VALUE_LIST)
    for (size_t i = 0; i < v->list->n_func; i++)
      visit_func(v->list->func[i], f, arg);
}

/* An op that is registered is no function. */
static void visit_calls(const Td__FunctionDef *p, visit *f, void *arg) {
  for (size_t i = 0; i < p->n_node_def; i++) {
    Td__NodeDef *n = p->node_def[i];
    if (!td_op_find(n->op)) f(arg, &n->op);
    for (size_t k = 0; k < n->n_attr; k++)
      visit_value(n->attr[k]->value, f, arg);
  }
}

/* ---- life ---------------------------------------------------------------- */

typedef struct room {
  size_t names, bytes;
} room;

static void measure(void *arg, char **name) {
  room *r = arg;
  r->names++;
  r->bytes += strlen(*name) + 1;
}

typedef struct filling {
  char *at;
  const char **call;
} filling;

static const char *keep(filling *f, const char *text) {
  size_t len = strlen(text) + 1;
  char *kept = memcpy(f->at, text, len);
  f->at += len;
  return kept;
}

static void keep_call(void *arg, char **name) {
  filling *f = arg;
  *f->call++ = keep(f, *name);
}

td_status *td_function_new(const Td__FunctionDef *p, td_bytes def,
                           const char *gradient, td_function **out) {
  const char *name = p->signature->name;
  room r = {.names = 1, .bytes = strlen(name) + 1 + def.len + 1};
  if (gradient) r.bytes += strlen(gradient) + 1;
  visit_calls(p, measure, &r);
  td_function *f = td_alloc(sizeof *f + r.names * sizeof(char *) + r.bytes);
  *out = f;
  if (!f) return td_oom();
  filling to = {.call = (const char **)(f + 1)};
  to.at = (char *)(to.call + r.names);
  *f = (td_function){.refs = 1, .calls = to.call};
  f->name = keep(&to, name);
  if (gradient) f->gradient = keep(&to, gradient);
  visit_calls(p, keep_call, &to);
  *to.call = NULL;
  f->def = (td_bytes){to.at, def.len};
  if (def.len) memcpy(to.at, def.at, def.len);
  to.at[def.len] = '\0';
  return NULL;
}

td_function *td_function_retain(td_function *f) {
  __atomic_fetch_add(&f->refs, 1, __ATOMIC_RELAXED);
  return f;
}

void td_function_release(td_function *f) {
  if (f && __atomic_fetch_sub(&f->refs, 1, __ATOMIC_ACQ_REL) == 1) td_free(f);
}

/* ---- others like it ------------------------------------------------------ */

typedef struct renaming {
  const char *from;
  char *to;
} renaming;

static void rename_one(void *arg, char **name) {
  const renaming *r = arg;
  if (strcmp(*name, r->from) == 0) *name = r->to;
}

static td_status *remade(const td_function *f, const char *gradient,
                         renaming *r, td_arena *scratch, td_function **out) {
  Td__FunctionDef *p;
  char *bytes = NULL;
  size_t len = 0;
  TD_TRY(td_graphdef_unpack(&td__function_def__descriptor, scratch, f->def.at,
                            f->def.len, &p));
  if (!r) return td_function_new(p, f->def, gradient, out);
  rename_one(r, &p->signature->name);
  visit_calls(p, rename_one, r);
  TD_TRY(td_graphdef_pack(&p->base, &bytes, &len));
  td_status *s = td_function_new(p, (td_bytes){bytes, len}, gradient, out);
  td_free(bytes);
  return s;
}

static td_status *remake(const td_function *f, const char *gradient,
                         renaming *r, td_function **out) {
  td_arena scratch;
  td_arena_init(&scratch);
  td_status *s = remade(f, gradient, r, &scratch, out);
  td_arena_deinit(&scratch);
  return s;
}

td_status *td_function_with_gradient(const td_function *f, const char *gradient,
                                     td_function **out) {
  return remake(f, gradient, NULL, out);
}

td_status *td_function_renamed(const td_function *f, const char *from,
                               const char *to, td_function **out) {
  renaming r = {from, (char *)to};
  const char *gradient = f->gradient;
  if (gradient && strcmp(gradient, from) == 0) gradient = to;
  return remake(f, gradient, &r, out);
}
