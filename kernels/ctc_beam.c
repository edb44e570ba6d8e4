/* ctc_beam.c - the likeliest sequences of labels, by a beam search.
 *
 * Graves (2012), "Sequence transduction with recurrent neural networks", as in
 * TensorFlow: a tree of prefixes, each with the logarithms of the probabilities
 * that it ends in a blank and that it ends in its label. At each time every
 * prefix of the beam goes on as it is, and then grows by each class that is
 * likelier than the worst of a full beam. Where two are as likely, the one that
 * came first is kept. All is computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/ctc.h"
#include "kernels/element.h"

typedef struct chance {
  double total, blank, label; /* logarithms; -INFINITY: not in the beam */
} chance;

typedef struct entry {
  int64_t parent, child, sibling; /* in beam.all; -1: none */
  int64_t class;                  /* -1 of the root */
  int64_t order;                  /* when it was put into the beam */
  chance now, before;
} entry;

typedef struct job {
  td_kernel_ctx *c;
  td_ctc x;
  int64_t width, top;
  bool merge;
  td_ctc_sequence *paths; /* {top, batch} */
  td_tensor *score;
  td_status **errors; /* of each row */
} job;

/* The search of one row. */
typedef struct beam {
  const job *j;
  int64_t row;
  entry *all; /* {n}, room for `room`; the first is the root */
  int64_t n, room;
  int64_t *heap; /* {held}: the beam, worst on top; room for heap_room */
  int64_t held, heap_room, pushed;
  int64_t *branches; /* the beam before, best first; room for branch_room */
  int64_t branch_room;
  int64_t *known; /* {classes}: the child by each class, -1 */
  double *y;      /* {classes}: log probabilities of the time */
} beam;

static const chance never = {-INFINITY, -INFINITY, -INFINITY};

/* ---- the beam as a heap -------------------------------------------------- */

static bool grow(void **list, int64_t *room, int64_t need, size_t size) {
  int64_t more = need < 8 ? 16 : 2 * need;
  size_t bytes;
  if (need <= *room) return true;
  if (!td_mul((size_t)more, size, &bytes)) return false;
  void *p = td_realloc(*list, bytes);
  if (!p) return false;
  *list = p;
  *room = more;
  return true;
}

static bool worse(const beam *b, int64_t i, int64_t k) {
  const entry *a = &b->all[i], *o = &b->all[k];
  if (a->now.total < o->now.total) return true;
  return a->now.total == o->now.total && a->order > o->order;
}

static void swap(int64_t *a, int64_t *b) {
  int64_t t = *a;
  *a = *b;
  *b = t;
}

static void sink(beam *b) {
  int64_t at = 0, *h = b->heap;
  for (;;) {
    int64_t low = at, left = 2 * at + 1;
    if (left < b->held && worse(b, h[left], h[low])) low = left;
    if (left + 1 < b->held && worse(b, h[left + 1], h[low])) low = left + 1;
    if (low == at) return;
    swap(&h[at], &h[low]);
    at = low;
  }
}

/* Puts entry i into the beam, for its worst where it is full. */
static td_status *push(beam *b, int64_t i) {
  b->all[i].order = b->pushed++;
  if (b->held == b->j->width) {
    b->heap[0] = i;
    sink(b);
    return NULL;
  }
  if (!grow((void **)&b->heap, &b->heap_room, b->held + 1, sizeof *b->heap))
    return td_oom();
  int64_t at = b->held++;
  b->heap[at] = i;
  for (; at > 0 && worse(b, i, b->heap[(at - 1) / 2]); at = (at - 1) / 2)
    swap(&b->heap[at], &b->heap[(at - 1) / 2]);
  return NULL;
}

/* Empties the beam into `branches`. */
static td_status *extract(beam *b, int64_t *count) {
  *count = b->held;
  if (!grow((void **)&b->branches, &b->branch_room, b->heap_room,
            sizeof *b->branches))
    return td_oom();
  while (b->held > 0) {
    b->branches[b->held - 1] = b->heap[0];
    b->heap[0] = b->heap[--b->held];
    sink(b);
  }
  return NULL;
}

/* ---- the tree ------------------------------------------------------------ */

static td_status *add(beam *b, int64_t parent, int64_t class, int64_t *made) {
  if (!grow((void **)&b->all, &b->room, b->n + 1, sizeof *b->all))
    return td_oom();
  *made = b->n++;
  b->all[*made] = (entry){.parent = parent,
                          .child = -1,
                          .sibling = -1,
                          .class = class,
                          .now = never,
                          .before = never};
  if (parent < 0) return NULL;
  b->all[*made].sibling = b->all[parent].child;
  b->all[parent].child = *made;
  return NULL;
}

static void list_children(const beam *b, int64_t of, bool forget) {
  for (int64_t i = b->all[of].child; i >= 0; i = b->all[i].sibling)
    b->known[b->all[i].class] = forget ? -1 : i;
}

/* ---- a time -------------------------------------------------------------- */

/* The entry stays as it is: by a blank, by its label once more, or reached from
 * its parent. */
static void stay(beam *b, entry *e) {
  if (e->parent >= 0) {
    const entry *p = &b->all[e->parent];
    if (p->now.total != -INFINITY)
      e->now.label =
          td_ctc_log_add(e->now.label, e->class == p->class ? p->before.blank
                                                            : p->before.total);
    e->now.label += b->y[e->class];
  }
  e->now.blank = e->before.total + b->y[b->j->x.classes - 1];
  e->now.total = td_ctc_log_add(e->now.blank, e->now.label);
}

static bool is_candidate(const beam *b, double total) {
  return total > -INFINITY &&
         (b->held < b->j->width || total > b->all[b->heap[0]].now.total);
}

static td_status *grow_by(beam *b, int64_t from, int64_t class) {
  const entry *e = &b->all[from];
  int64_t child = b->known[class];
  if (child >= 0 && b->all[child].now.total != -INFINITY) return NULL;
  double total =
      b->y[class] + (class == e->class ? e->before.blank : e->before.total);
  if (!is_candidate(b, total)) {
    if (child >= 0) b->all[child].now = b->all[child].before = never;
    return NULL;
  }
  if (child < 0) TD_TRY(add(b, from, class, &child));
  b->all[child].now = (chance){total, -INFINITY, total};
  if (b->held == b->j->width) b->all[b->heap[0]].now = never;
  return push(b, child);
}

static td_status *step(beam *b, int64_t t) {
  int64_t count;
  td_ctc_log_softmax(&b->j->x, t, b->row, b->y);
  TD_TRY(extract(b, &count));
  for (int64_t i = 0; i < count; i++)
    b->all[b->branches[i]].before = b->all[b->branches[i]].now;
  for (int64_t i = 0; i < count; i++) {
    stay(b, &b->all[b->branches[i]]);
    TD_TRY(push(b, b->branches[i]));
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t from = b->branches[i];
    if (!is_candidate(b, b->all[from].before.total)) continue;
    list_children(b, from, false);
    for (int64_t k = 0; k < b->j->x.classes - 1; k++)
      TD_TRY(grow_by(b, from, k));
    list_children(b, from, true);
  }
  return NULL;
}

/* ---- a row --------------------------------------------------------------- */

/* The classes on the way from the root to an entry. */
static td_status *read_path(const beam *b, int64_t leaf, td_ctc_sequence *p) {
  int64_t n = 0, before = -1;
  for (int64_t i = leaf; b->all[i].parent >= 0; i = b->all[i].parent) n++;
  p->classes = td_calloc((size_t)n + 1, sizeof *p->classes);
  if (!p->classes) return td_oom();
  for (int64_t i = leaf; b->all[i].parent >= 0; i = b->all[i].parent) {
    int64_t class = b->all[i].class;
    if (!b->j->merge || class != before) p->classes[p->n++] = class;
    before = class;
  }
  for (int64_t i = 0; i < p->n / 2; i++) { /* they were found last first */
    int64_t class = p->classes[i];
    p->classes[i] = p->classes[p->n - 1 - i];
    p->classes[p->n - 1 - i] = class;
  }
  return NULL;
}

static td_status *read_paths(beam *b) {
  const job *j = b->j;
  int64_t count;
  TD_TRY(extract(b, &count));
  if (count < j->top)
    return td_error(TD_INVALID_ARGUMENT,
                    "top_paths is %lld, but batch %lld has only %lld possible "
                    "sequences; ask for fewer",
                    (long long)j->top, (long long)b->row, (long long)count);
  for (int64_t k = 0; k < j->top; k++) {
    double total = b->all[b->branches[k]].now.total;
    TD_TRY(read_path(b, b->branches[k], &j->paths[k * j->x.batch + b->row]));
    td_ctc_put(j->score, b->row * j->top + k, total);
  }
  return NULL;
}

static td_status *search(beam *b) {
  const job *j = b->j;
  int64_t root;
  b->known = td_calloc((size_t)j->x.classes, sizeof *b->known);
  b->y = td_calloc((size_t)j->x.classes, sizeof *b->y);
  if (!b->known || !b->y) return td_oom();
  for (int64_t k = 0; k < j->x.classes; k++) b->known[k] = -1;
  TD_TRY(add(b, -1, -1, &root));
  b->all[root].now.total = b->all[root].now.blank = 0;
  TD_TRY(push(b, root));
  int32_t length = j->x.lengths[b->row];
  for (int64_t t = 0; t < length && !td_stopped(j->c); t++) TD_TRY(step(b, t));
  return read_paths(b);
}

static void do_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t row = begin; row < end; row++) {
    beam b = {.j = j, .row = row};
    j->errors[row] = search(&b);
    td_free(b.all);
    td_free(b.heap);
    td_free(b.branches);
    td_free(b.known);
    td_free(b.y);
  }
}

static td_status *run_all(td_kernel_ctx *c, job *j) {
  size_t count = 0;
  bool fits = td_mul((size_t)j->x.batch, (size_t)j->top, &count);
  j->paths = fits ? td_calloc(count + 1, sizeof *j->paths) : NULL;
  j->errors = td_calloc((size_t)j->x.batch + 1, sizeof(td_status *));
  td_status *s = j->paths && j->errors ? NULL : td_oom();
  if (td_ok(s)) {
    td_for(c, j->x.batch, 1, do_rows, j);
    s = td_ctc_first_error(j->errors, j->x.batch);
  }
  for (int64_t k = 0; k < j->top && td_ok(s); k++)
    s = td_ctc_write(c, (int)k, (int)j->top, j->x.batch,
                     j->paths + k * j->x.batch);
  for (size_t i = 0; j->paths && i < count; i++) td_free(j->paths[i].classes);
  td_free(j->paths);
  td_free(j->errors);
  return s;
}

/* ---- the op -------------------------------------------------------------- */

static td_status *check_top(int64_t width, int64_t top) {
  if (top <= width) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "top_paths is %lld, more than beam_width, %lld",
                  (long long)top, (long long)width);
}

static td_status *infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0), *lengths = td_infer_in(c, 1);
  int64_t top = td_infer_int(c, "top_paths");
  TD_TRY(check_top(td_infer_int(c, "beam_width"), top));
  TD_TRY(td_ctc_check(x, lengths));
  for (int k = 0; k < (int)top; k++) {
    td_infer_out(c, k, td_shape_matrix(-1, 2));
    td_infer_out(c, (int)top + k, td_shape_ranked(1));
    td_infer_out(c, 2 * (int)top + k, td_shape_vector(2));
  }
  td_infer_out(c, 3 * (int)top, td_shape_matrix(td_ctc_batch(x, lengths), top));
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  const td_node *node = td_ctx_node(c);
  job j = {.c = c,
           .width = td_node_int(node, "beam_width"),
           .top = td_node_int(node, "top_paths"),
           .merge = td_node_bool(node, "merge_repeated")};
  TD_TRY(check_top(j.width, j.top));
  TD_TRY(td_ctc_read_decoder(c, &j.x));
  td_shape scores = td_shape_matrix(j.x.batch, j.top);
  TD_TRY(td_array_count(&scores, NULL));
  TD_TRY(td_out(c, (int)(3 * j.top), &scores, &j.score));
  return run_all(c, &j);
}

/* Every class, at each time, for each prefix of the beam. */
static void beam_cost(td_infer *c, td_cost *cost) {
  td_cost_per_input(c, cost, (double)td_infer_int(c, "beam_width"), 0);
}

static const td_op_def ops[] = {
    {.type = "CTCBeamSearchDecoder",
     .sig = "inputs: T, sequence_length: int32 -> "
            "decoded_indices: top_paths*int64, "
            "decoded_values: top_paths*int64, decoded_shape: top_paths*int64, "
            "log_probability: T; beam_width: int >= 1; top_paths: int >= 1; "
            "merge_repeated: bool = true; T: {float, double} = float",
     .shape = infer,
     .cost = beam_cost,
     .doc = "The top_paths likeliest sequences of labels that a search with "
            "beam_width finds, sparse, and their log probabilities.",
     .lua = "ctc_beam_search_decoder",
     .flags = TD_NO_GRADIENT,
     .example = "select(2, td.ctc_beam_search_decoder({{{1.0, 5.0, 2.0}}}, "
                "{1}, {beam_width = 2, top_paths = 1}))[1]  --> 1",
     .section = "Candidate sampling, embeddings, CTC"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "CTCBeamSearchDecoder",
     .device = "CPU",
     .types = TYPES_LONG_FLOATS,
     .run = run},
    {0},
};

TD_MODULE(ctc_beam, ops, kernels)
