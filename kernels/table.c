/* table.c - lookup tables: life, marks, checks and initializing; see table.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/table.h"

#include <string.h>

#include "engine/base/mem.h"
#include "kernels/text.h"

const char td_table_type[] = "lookup table";

const char *td_table_name(const td_table *t) {
  return t->base.name ? t->base.name : "without a name";
}

/* ---- life ---------------------------------------------------------------- */

static void table_free(td_object *o) {
  td_table *t = (td_table *)o;
  td_table_map_deinit(&t->map);
  for (int i = 0; i < 2; i++) td_tensor_release(&t->marks[i]);
  pthread_mutex_destroy(&t->mutex);
  td_resource_deinit(&t->base);
  td_free(t);
}

static td_shape value_shape_of(const td_node *n) {
  const td_attr *a = td_node_attr(n, "value_shape");
  return a ? *td_attr_as_shape(a) : td_shape_scalar();
}

/* Sizes of a dense table's buckets, which an index of this kind does not have,
 * are checked so that a file that TensorFlow refuses is refused here. */
static td_status *check_buckets(const td_node *n) {
  int64_t buckets = td_node_int(n, "initial_num_buckets");
  const td_attr *load = td_node_attr(n, "max_load_factor");
  if (buckets < 4 || (buckets & (buckets - 1)))
    return td_error(TD_INVALID_ARGUMENT,
                    "initial_num_buckets must be a power of 2 from 4 on, not "
                    "%lld",
                    (long long)buckets);
  if (load && !(load->f > 0 && load->f < 1))
    return td_error(TD_INVALID_ARGUMENT,
                    "max_load_factor must be between 0 and 1, not %g",
                    (double)load->f);
  return NULL;
}

static td_status *init(td_table *t, const td_node *n, size_t key_n) {
  td_shape_text text;
  int64_t value_n = td_shape_count(&t->value_shape);
  if (!td_shape_known(&t->value_shape) || value_n < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "value_shape must be fully known, and not %s",
                    td_shape_str(&t->value_shape, &text));
  return td_table_map_init(&t->map, td_node_type(n, "key_dtype"), key_n,
                           td_node_type(n, "value_dtype"), (size_t)value_n);
}

td_status *td_table_new(const td_kernel *k, const td_table_class *of,
                        td_resource **out) {
  if (of->marked) TD_TRY(check_buckets(k->node));
  td_table *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->base.object = (td_object){
      .refs = 1, .type = td_table_type, .free = table_free, .named = true};
  pthread_mutex_init(&t->mutex, NULL);
  t->of = of;
  t->key_shape = td_shape_scalar();
  t->value_shape = value_shape_of(k->node);
  td_status *s = init(t, k->node, 1);
  if (td_ok(s))
    *out = &t->base;
  else
    td_object_release(&t->base.object);
  return s;
}

td_status *td_table_check(const td_node *n, const td_resource *r,
                          const td_table_class *of) {
  const td_table *t = (const td_table *)r;
  td_shape shape = value_shape_of(n);
  td_shape_text have, want;
  if (t->of != of)
    return td_error(TD_INVALID_ARGUMENT, "table %s is a %s, not a %s",
                    td_table_name(t), t->of->name, of->name);
  if (!td_shape_equal(&t->value_shape, &shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "table %s has values of shape %s, not of %s",
                    td_table_name(t), td_shape_str(&t->value_shape, &have),
                    td_shape_str(&shape, &want));
  return td_table_check_dtypes(t, td_node_type(n, "key_dtype"),
                               td_node_type(n, "value_dtype"));
}

/* ---- marks --------------------------------------------------------------- */

static td_status *check_marks(const td_tensor *empty,
                              const td_tensor *deleted) {
  td_shape_text a, b;
  if (!td_shape_equal(&empty->shape, &deleted->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "empty_key and deleted_key must have the same shape, not "
                    "%s and %s",
                    td_shape_str(&empty->shape, &a),
                    td_shape_str(&deleted->shape, &b));
  if (td_tensor_same(empty, deleted))
    return td_error(TD_INVALID_ARGUMENT,
                    "empty_key and deleted_key must not be equal");
  return NULL;
}

static td_status *first_marks(td_table *t, const td_tensor *empty,
                              const td_tensor *deleted) {
  td_table_map m;
  const td_tensor *from[] = {empty, deleted};
  td_tensor copies[2] = {{.dtype = TD_INVALID}, {.dtype = TD_INVALID}};
  TD_TRY(td_table_map_init(&m, t->map.key, (size_t)td_tensor_count(empty),
                           t->map.value, t->map.value_n));
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < 2; i++)
    s = td_tensor_copy(from[i], &copies[i]);
  if (!td_ok(s)) {
    td_tensor_release(&copies[0]);
    return s;
  }
  t->map = m; /* the one before is empty, and has no memory */
  t->key_shape = empty->shape;
  for (int i = 0; i < 2; i++) {
    t->marks[i] = copies[i];
    td_table_map_key(&m, &t->marks[i], 0, &t->mark[i]);
  }
  return NULL;
}

td_status *td_table_set_marks(td_table *t, const td_tensor *empty,
                              const td_tensor *deleted) {
  td_status *s = check_marks(empty, deleted);
  pthread_mutex_lock(&t->mutex);
  if (td_ok(s) && !td_tensor_valid(&t->marks[0]))
    s = first_marks(t, empty, deleted);
  else if (td_ok(s) && !(td_tensor_same(&t->marks[0], empty) &&
                         td_tensor_same(&t->marks[1], deleted)))
    s = td_error(TD_INVALID_ARGUMENT,
                 "table %s has another empty_key or deleted_key",
                 td_table_name(t));
  pthread_mutex_unlock(&t->mutex);
  return s;
}

td_status *td_table_mark_used(const td_table *t) {
  return td_error(TD_INVALID_ARGUMENT,
                  "the empty_key and the deleted_key of table %s cannot be "
                  "used as keys",
                  td_table_name(t));
}

bool td_table_keys(const td_table *t, const td_tensor *keys, int64_t first,
                   int n, td_table_key *key) {
  td_table_map_keys(&t->map, keys, first, n, key);
  for (int i = 0; t->of->marked && i < n; i++)
    for (int k = 0; k < 2; k++)
      if (td_table_map_same_key(&t->map, &key[i], &t->mark[k])) return false;
  return true;
}

/* ---- checks -------------------------------------------------------------- */

td_status *td_table_in(const td_kernel_ctx *c, td_table **out) {
  return td_handle_in(c, 0, td_table_type, "a lookup table",
                      (td_resource **)out);
}

td_status *td_table_check_dtypes(const td_table *t, td_dtype key,
                                 td_dtype value) {
  if (key == t->map.key && value == t->map.value) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "table %s maps %s to %s, not %s to %s",
                  td_table_name(t), td_dtype_name(t->map.key),
                  td_dtype_name(t->map.value), td_dtype_name(key),
                  td_dtype_name(value));
}

td_status *td_table_check_keys(const td_table *t, const td_tensor *keys,
                               td_shape *rows) {
  const td_shape *s = &keys->shape, *each = &t->key_shape;
  int rank = s->rank - each->rank;
  td_shape_text have, want;
  bool fits = rank >= 0;
  if (keys->dtype != t->map.key)
    return td_error(TD_INVALID_ARGUMENT, "table %s has keys of %s, not of %s",
                    td_table_name(t), td_dtype_name(t->map.key),
                    td_dtype_name(keys->dtype));
  for (int k = 0; fits && k < each->rank; k++)
    fits = s->dim[rank + k] == each->dim[k];
  if (!fits)
    return td_error(TD_INVALID_ARGUMENT,
                    "table %s has keys of shape %s, with which the shape %s of "
                    "those given does not end",
                    td_table_name(t), td_shape_str(each, &want),
                    td_shape_str(s, &have));
  *rows = *s;
  rows->rank = rank;
  return NULL;
}

td_status *td_table_value_shape(const td_table *t, const td_shape *rows,
                                td_shape *out) {
  const td_shape *each = &t->value_shape;
  TD_TRY(td_shape_check_rank(rows->rank + each->rank));
  *out = *rows;
  out->rank += each->rank;
  for (int k = 0; k < each->rank; k++) out->dim[rows->rank + k] = each->dim[k];
  return NULL;
}

/* ---- initializing -------------------------------------------------------- */

td_status *td_table_initializable(const td_table *t) {
  if (t->of->once) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "table %s is a %s: it is inserted into, not initialized",
                  td_table_name(t), t->of->name);
}

td_status *td_table_fresh(const td_table *t, td_table_map *out) {
  return td_table_map_init(out, t->map.key, t->map.key_n, t->map.value,
                           t->map.value_n);
}

static td_status *two_values(const td_table_map *m, const td_table_key *key) {
  if (m->keys == TD_KEYS_INT)
    return td_error(TD_FAILED_PRECONDITION,
                    "key %lld comes twice, with different values",
                    (long long)key->word[0]);
  return td_error(TD_FAILED_PRECONDITION,
                  "key \"%.*s\" comes twice, with different values",
                  td_text_shown((td_bytes){key->at, key->len}), key->at);
}

td_status *td_table_add_once(td_table_map *m, const td_table_key *key,
                             const void *value) {
  uint32_t entry = td_table_map_find(m, key);
  if (entry == TD_TABLE_NONE) return td_table_map_add(m, key, value);
  if (td_table_map_same_value(m, entry, value)) return NULL;
  return two_values(m, key);
}

td_status *td_table_adopt(td_table *t, td_table_map *m) {
  bool same = t->ready && td_table_map_same(&t->map, m);
  if (!t->ready) {
    td_table_map_deinit(&t->map);
    t->map = *m;
    t->ready = true;
    return NULL;
  }
  td_table_map_deinit(m);
  if (same) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "table %s was initialized before, with other content",
                  td_table_name(t));
}
