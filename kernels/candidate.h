/* candidate.h - how candidate samplers draw: words of a stream one after the
 * other, weighted choice from a fixed and from a growing table.
 *
 * The order in which words are used is TensorFlow's, so that the same seeds
 * give the same classes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CANDIDATE_H
#define TD_CANDIDATE_H

#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

/* ---- words ---- */

typedef struct td_candidate_words {
  td_philox stream;
  uint32_t word[4];
  int left; /* of them */
} td_candidate_words;

/* In [0, n), n > 0: words that would favour low numbers are drawn again. */
uint32_t td_candidate_below32(td_candidate_words *w, uint32_t n);
uint64_t td_candidate_below64(td_candidate_words *w, uint64_t n);
double td_candidate_double(td_candidate_words *w); /* in [0, 1) */

/* ---- a fixed table (Walker 1977): a slot is kept or names another ---- */

typedef struct td_candidate_alias {
  int64_t n;
  float *keep; /* probability of keeping the slot */
  int32_t *other;
} td_candidate_alias;

/* n > 0 weights, some above 0. */
td_status *td_candidate_alias_init(td_candidate_alias *a, const float *weights,
                                   int64_t n) TD_MUST_USE;
void td_candidate_alias_deinit(td_candidate_alias *a);
int64_t td_candidate_alias_pick(const td_candidate_alias *a,
                                td_candidate_words *w);

/* ---- a growing table (Fenwick 1994): a class weighs 1 + its counts ---- */

typedef struct td_candidate_tree {
  int64_t n;
  int32_t *sums; /* of counts, at 1 .. n */
  int64_t total; /* n and all counts; < 2^31 */
} td_candidate_tree;

td_status *td_candidate_tree_init(td_candidate_tree *t, int64_t n) TD_MUST_USE;
void td_candidate_tree_deinit(td_candidate_tree *t);
/* One more of class i; no more when the total would not fit. */
void td_candidate_tree_add(td_candidate_tree *t, int64_t i);
/* Its counts as bytes; are these of such a table; the table from such ones. */
void td_candidate_tree_save(const td_candidate_tree *t, td_str *out);
bool td_candidate_tree_loads(const td_candidate_tree *t, td_bytes from);
void td_candidate_tree_load(td_candidate_tree *t, td_bytes from);
int64_t td_candidate_tree_weight(const td_candidate_tree *t, int64_t i);
int64_t td_candidate_tree_pick(const td_candidate_tree *t,
                               td_candidate_words *w);

TD_END
#endif
