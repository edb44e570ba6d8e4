/* replay.c - two sets of signatures, of which the older is emptied in turn.
 *
 * A signature is a keyed hash, so its first 64 bits serve as the key of a
 * table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/replay.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"

enum { MOST = 1 << 15, SLOTS = 2 * MOST, DIGITS = 16 };

struct td_jupyter_replay {
  pthread_mutex_t lock; /* of what follows */
  uint64_t *set[2];     /* 0: a free slot */
  int now;              /* the one that is filled */
  int n;                /* in it */
};

td_jupyter_replay *td_jupyter_replay_new(void) {
  td_jupyter_replay *r = td_calloc(1, sizeof *r);
  if (!r) return NULL;
  pthread_mutex_init(&r->lock, NULL);
  for (int i = 0; i < 2; i++) r->set[i] = td_calloc(SLOTS, sizeof(uint64_t));
  if (r->set[0] && r->set[1]) return r;
  td_jupyter_replay_free(r);
  return NULL;
}

void td_jupyter_replay_free(td_jupyter_replay *r) {
  if (!r) return;
  for (int i = 0; i < 2; i++) td_free(r->set[i]);
  pthread_mutex_destroy(&r->lock);
  td_free(r);
}

static uint64_t key_of(td_bytes signature) {
  uint64_t key = 0;
  for (size_t i = 0; i < DIGITS && i < signature.len; i++) {
    char c = signature.at[i];
    key = key << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return key ? key : 1;
}

/* The slot with the key, or the free one where it belongs. */
static uint64_t *slot(uint64_t *set, uint64_t key) {
  size_t i = key % SLOTS;
  while (set[i] && set[i] != key) i = (i + 1) % SLOTS;
  return &set[i];
}

bool td_jupyter_replay_seen(td_jupyter_replay *r, td_bytes signature) {
  uint64_t key = key_of(signature);
  pthread_mutex_lock(&r->lock);
  bool seen = *slot(r->set[0], key) || *slot(r->set[1], key);
  if (!seen) {
    if (r->n == MOST) {
      r->now = !r->now;
      r->n = 0;
      memset(r->set[r->now], 0, SLOTS * sizeof(uint64_t));
    }
    *slot(r->set[r->now], key) = key;
    r->n++;
  }
  pthread_mutex_unlock(&r->lock);
  return seen;
}
