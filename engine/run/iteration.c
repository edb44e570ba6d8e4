/* iteration.c - iterations and instances: made, ended, kept for the next.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/iteration.h"

#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/run/execution.h"

/* ---- iterations ---- */

size_t td_iteration_size(const td_xframe *f) {
  return sizeof(td_iteration) + (size_t)f->nodes * sizeof(uint64_t) +
         (size_t)f->slots * sizeof(td_tensor) +
         (size_t)f->pending_outs * sizeof(td_tensor) +
         (size_t)f->nodes * sizeof(td_ready) +
         (size_t)f->pendings * sizeof(td_pending) +
         (size_t)f->children * sizeof(td_instance *) +
         (size_t)f->nodes * sizeof(int64_t);
}

/* The arrays behind `it`, where each node finds its own. */
static void lay_out(td_iteration *it, const td_program *p, const td_xframe *f) {
  it->slot = (td_tensor *)(it + 1);
  td_tensor *out = it->slot + f->slots;
  it->pending = (td_pending *)(out + f->pending_outs);
  it->state = (uint64_t *)(it->pending + f->pendings);
  it->ready = (td_ready *)(it->state + f->nodes);
  it->child = (td_instance **)(it->ready + f->nodes);
  it->since = (int64_t *)(it->child + f->children);
  for (int32_t k = 0; k < f->nodes; k++) {
    const td_xnode *n = &p->node[f->members[k]];
    it->ready[k].iter = it;
    it->ready[k].node = f->members[k];
    if (n->pending < 0) continue;
    it->pending[n->pending].out = out;
    out += n->n_out;
  }
}

td_iteration *td_iteration_make(td_execution *e, int32_t frame) {
  const td_xframe *f = &e->program->frame[frame];
  td_iteration *it = e->spare[frame].first;
  if (it) {
    e->spare[frame].first = it->next;
  } else {
    it = td_aligned_alloc(TD_LINE, f->size);
    if (!it) return NULL;
    memset(it, 0, f->size);
    it->execution = e;
    it->frame = frame;
    lay_out(it, e->program, f);
  }
  memcpy(it->state, f->initial, (size_t)f->nodes * sizeof *it->state);
  memset(it->child, 0, (size_t)f->children * sizeof *it->child);
  it->busy = it->inner = 0;
  it->instance = NULL;
  it->number = 0;
  it->path = 0;
  return it;
}

/* There are no values left when every node ran. */
void td_iteration_clear(td_iteration *it) {
  const td_xframe *f = &it->execution->program->frame[it->frame];
  if (it->instance || __atomic_load_n(&it->execution->failed, __ATOMIC_ACQUIRE))
    for (int32_t i = 0; i < f->slots; i++)
      if (it->slot[i].buffer) td_tensor_release(&it->slot[i]);
  it->next = it->execution->spare[it->frame].first;
  it->execution->spare[it->frame].first = it;
}

/* ---- instances ---- */

static uint64_t path_of(const td_iteration *parent, const char *name) {
  uint64_t key[2] = {parent->path, (uint64_t)parent->number};
  uint64_t h = td_hash(key, sizeof key, 1);
  h = td_hash(name, strlen(name), h);
  return h ? h : 1; /* 0 is the root */
}

td_instance *td_instance_make(td_execution *e, td_iteration *parent,
                              int32_t frame) {
  const td_xframe *f = &e->program->frame[frame];
  td_instance *inst = e->spare_instances;
  if (inst)
    e->spare_instances = inst->next;
  else
    inst = td_calloc(1, sizeof *inst);
  if (!inst) return NULL;
  inst->oldest = inst->newest = td_iteration_make(e, frame);
  if (!inst->oldest) {
    inst->next = e->spare_instances;
    e->spare_instances = inst;
    return NULL;
  }
  inst->execution = e;
  inst->parent = parent;
  inst->frame = frame;
  inst->enters = f->enters;
  inst->running = 1;
  inst->path = path_of(parent, f->name);
  inst->oldest->instance = inst;
  inst->oldest->path = inst->path;
  inst->oldest->later = NULL;
  inst->prev = NULL;
  inst->next = e->instances;
  if (inst->next) inst->next->prev = inst;
  e->instances = inst;
  parent->child[f->ordinal] = inst;
  parent->inner++;
  return inst;
}

static void kept_drop(td_kept *k, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (k[i].value.buffer) td_tensor_release(&k[i].value);
}

void td_instance_end(td_instance *inst) {
  td_execution *e = inst->execution;
  if (inst->prev)
    inst->prev->next = inst->next;
  else
    e->instances = inst->next;
  if (inst->next) inst->next->prev = inst->prev;
  kept_drop(inst->invariants.at, inst->invariants.len);
  kept_drop(inst->deferred.at, inst->deferred.len);
  inst->invariants.len = inst->deferred.len = inst->exits.len = 0;
  inst->goes_on = false;
  inst->next = e->spare_instances;
  e->spare_instances = inst;
}

void td_instances_clear(td_execution *e) {
  while (e->instances) {
    td_instance *inst = e->instances;
    for (td_iteration *it; (it = inst->oldest);) {
      inst->oldest = it->later;
      td_iteration_clear(it);
    }
    td_instance_end(inst);
  }
}

void td_instances_free(td_execution *e) {
  for (td_instance *inst; (inst = e->spare_instances);) {
    e->spare_instances = inst->next;
    td_vec_free(&inst->invariants);
    td_vec_free(&inst->deferred);
    td_vec_free(&inst->exits);
    td_free(inst);
  }
}
