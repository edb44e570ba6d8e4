/* checkpoint_map.c - tensors that are views of their file.
 *
 * A data file is mapped once, when the first tensor of it is asked for; all
 * tensors hold the mapping, also after the checkpoint is closed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/crc32c.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint_impl.h"

typedef td_checkpoint_mapping mapping;

static void let_go(void *arg, void *data, size_t size) {
  (void)data;
  (void)size;
  td_checkpoint_unmap(arg);
}

static td_status *map_file(td_checkpoint_shard *sh) {
  mapping *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->refs = 1;
  td_status *s = td_file_map(sh->path, &m->file);
  if (td_ok(s) && m->file.size != sh->size) {
    td_file_unmap(&m->file);
    s = td_error(TD_DATA_LOSS, "'%s' changed while the checkpoint was open",
                 sh->path);
  }
  if (td_ok(s))
    sh->mapping = m;
  else
    td_free(m);
  return s;
}

/* Caller holds the result, too: td_checkpoint_unmap. */
static td_status *mapping_of(const td_checkpoint *c, td_checkpoint_shard *sh,
                             mapping **out) {
  pthread_mutex_t *lock = (pthread_mutex_t *)&c->lock;
  pthread_mutex_lock(lock);
  td_status *s = sh->mapping ? NULL : map_file(sh);
  if (td_ok(s)) {
    *out = sh->mapping;
    __atomic_add_fetch(&sh->mapping->refs, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(lock);
  return s;
}

static td_status *view(mapping *m, const td_checkpoint_entry *e,
                       td_tensor *out) {
  char *at = (char *)m->file.at + e->offset;
  if (td_crc32c(at, e->size) != e->crc)
    return td_error(TD_DATA_LOSS,
                    "the check of its bytes %llu to %llu does not hold: the "
                    "file is damaged",
                    (unsigned long long)e->offset,
                    (unsigned long long)(e->offset + e->size));
  td_buffer *b;
  TD_TRY(td_buffer_wrap(at, e->size, let_go, m, &b));
  b->readonly = true;
  *out = (td_tensor){
      .buffer = b, .data = at, .dtype = e->dtype, .shape = e->shape};
  return NULL;
}

td_status *td_checkpoint_map(const td_checkpoint *c,
                             const td_checkpoint_entry *e, td_tensor *out) {
  mapping *m;
  if (e->n_slices > 0 || e->dtype == TD_STRING || e->size == 0 ||
      e->offset % td_dtype_size(e->dtype) != 0)
    return td_checkpoint_read(c, e, NULL, NULL, out);
  td_checkpoint_shard *sh = td_checkpoint_find_shard(c, e->shard);
  td_status *s = mapping_of(c, sh, &m);
  if (td_ok(s)) {
    s = view(m, e, out);
    if (!td_ok(s)) td_checkpoint_unmap(m);
  }
  return td_checkpoint_blame(c, e->name, s);
}
