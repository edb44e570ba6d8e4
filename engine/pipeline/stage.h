/* stage.h - one link of a pipeline, for the files of this folder.
 *
 * One thread at a time is *at* a pipeline and has all its stages advance, the
 * last first, until none can; nothing that it does there waits. Work that takes
 * long is begun and left: its end *pokes* the pipeline. So stages need no lock.
 *
 * A stage takes elements from the one before it and puts its own in `ready`, at
 * most `room` of them, and no more once they hold TD_PIPELINE_BYTES. The end of
 * an epoch is an element of its own, which goes through all stages in its place,
 * and so are errors. Epochs have numbers, from 0 on, which only grow: what is
 * random is a function of them, so that it does not matter how far a stage was
 * ahead when the rest of an epoch was not wanted.
 *
 * Outputs are numbered. For each that may not have been given on yet the stage
 * keeps a *mark*: where it stood after it, and how much it had taken for that.
 * So the state after any of them can be told later, when the stages before it
 * are long ahead: the last stage's after what was given away, that of the stage
 * before it after what the mark says, and so on to the source. A stage whose
 * state is large keeps few marks, and tells how many outputs are to be dropped
 * behind one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STAGE_H
#define TD_STAGE_H

#include "engine/base/vec.h"
#include "engine/pipeline/pipeline.h"

typedef struct td_stage td_stage;

/* A tuple, an error, or the end of an epoch. */
typedef struct td_element {
  td_tensor *at; /* n of them; NULL for the other two and where n is 0 */
  int n;
  td_status *status;
  bool end;
  int64_t epoch; /* of an end: the number of the next epoch */
  size_t bytes;  /* of its tensors; 0: not counted yet */
} td_element;

void td_element_drop(td_element *e);
/* `e` of n tensors, uninitialised. */
td_status *td_element_new(int n, td_element *e) TD_MUST_USE;
/* The same two for who is at the pipeline, and many: what one lets go of the
 * other uses. `e` has a tensor for each column of `s`. */
void td_stage_drop(td_stage *s, td_element *e);
td_status *td_stage_element(td_stage *s, td_element *e) TD_MUST_USE;

enum { TD_MARK_OWN = 5, TD_STAGE_MANY = 32 /* elements at a time */ };

/* Where a stage stood after an output. */
typedef struct td_mark {
  int64_t in;       /* elements that it had taken for that, ends among them */
  int64_t in_epoch; /* the number of the epoch that it took from */
  int64_t epoch;    /* of the one that it was putting */
  int64_t at[TD_MARK_OWN]; /* the kind's own, of this epoch */
} td_mark;

typedef struct td_stage_kind {
  const char *name;
  bool joins; /* its epochs have numbers of their own: it skips by itself */
  bool light; /* it holds nothing: as many are put as the one before it may put,
                 or, of a source, many; else a few */
  /* Takes, works, gives; true when anything changed. */
  bool (*advance)(td_stage *s);
  void (*free)(td_stage *s); /* (optional) what it has of its own */
  /* (optional) Nothing more is given: ends the work under way soon. */
  void (*stop)(td_stage *s);
  /* (optional) Nobody waits for elements now: what would wait for long ends, and
   * is begun anew when somebody does. May be called often. */
  void (*rest)(td_stage *s);
  /* (optional) Appends what it has beside a mark, as of some output not after
   * `upto`, whose mark it gives. */
  td_status *(*save)(td_stage *s, int64_t upto, td_str *out, int64_t *at,
                     td_mark *mark);
  /* (optional) Reads that again. */
  td_status *(*load)(td_stage *s, const char **at, const char *end);
  /* (optional) Nobody asks for states before `upto` any more: the least number
   * of taken elements that later ones may need. */
  int64_t (*forget)(td_stage *s, int64_t upto);
  /* (optional) What it waits for. */
  void (*why)(td_stage *s, td_str *out);
} td_stage_kind;

struct td_stage {
  const td_stage_kind *kind;
  td_pipeline *pipeline;
  td_stage *before; /* NULL: the source */
  td_column *columns;
  int n_columns;
  int64_t out;   /* elements put into `ready`, since the very beginning */
  int64_t given; /* of these taken out by the next stage */
  int64_t skip;  /* outputs still to be dropped */
  bool alone;    /* it wants nothing: the stages before it rest */
  td_mark now;   /* where it stands, after all that it took */
  int64_t wanted; /* nobody wants what is of epochs below that number */
  int64_t refill_to; /* inputs before that one were taken before a state was
                        saved, and are taken again: none may be left out */
  size_t room;
  size_t bytes; /* of what is ready */
  TD_VEC(td_element) ready; /* a queue: from ready_at on */
  size_t ready_at;
  TD_VEC(td_mark) marks; /* of outputs first_mark, first_mark + 1, ... */
  int64_t first_mark;
};

/* Adds a stage of `size` bytes behind the last, with the columns of that one
 * unless others are given. Borrowed. */
td_status *td_stage_add(td_pipeline *p, const td_stage_kind *kind, size_t size,
                        const td_column *columns, int n_columns,
                        void *out) TD_MUST_USE;
/* A pipeline that has none yet. Caller owns the result. */
td_status *td_pipeline_new(td_pipeline **out) TD_MUST_USE;
td_stage *td_pipeline_last(td_pipeline *p);

/* For the large tensors that stages make one like the other: what is freed is
 * kept for the next, so that not each is of fresh pages, until a pipeline ends.
 * Counts against the process's limit. Borrowed for good; NULL, the host's
 * memory, where there was no other to be had. */
td_allocator *td_stage_memory(void);

/* ---- for `advance` ---- */

/* May an output be put? (One that is to be dropped always may, as long as there
 * is memory to go on.) */
bool td_stage_has_room(const td_stage *s);
/* Is there an input? */
bool td_stage_has_input(const td_stage *s);
/* Takes it; the caller's. */
td_element td_stage_take(td_stage *s);
/* Takes ownership of `e`; s->now is its mark. The end of an epoch sets
 * now.epoch and clears now.at. */
void td_stage_put(td_stage *s, td_element e);
/* The end of an epoch, `next` following. */
void td_stage_put_end(td_stage *s, int64_t next);
/* The same with a mark of the caller's; s->now stays. */
void td_stage_put_as(td_stage *s, td_element e, const td_mark *mark);
/* An error as an output: takes ownership. */
void td_stage_put_error(td_stage *s, td_status *status);
/* The next that `s` wants is of epoch `epoch`: the source gets there soon. What
 * is under way still comes, ends of epochs before that one among it. */
void td_stage_skip_to(td_stage *s, int64_t epoch);
/* Is nobody interested in what `s` is putting? (Not before what is to be dropped
 * was put.) */
static inline bool td_stage_is_unwanted(const td_stage *s) {
  return s->wanted > s->now.epoch && s->skip == 0;
}
/* Of a source: what follows the epoch that ends now. */
static inline int64_t td_stage_next_epoch(const td_stage *s) {
  return td_stage_is_unwanted(s) ? s->wanted : s->now.epoch + 1;
}

/* ---- for work that was begun ---- */

/* The pipeline lives until the work has poked it, or was not begun after all.
 * From then on whoever did the work looks at nothing of the stage. */
void td_stage_begin(td_stage *s);
void td_stage_poke(td_stage *s);
void td_stage_not_begun(td_stage *s);
/* There is no memory to go on: whoever wants elements is told so. */
void td_stage_break(td_stage *s);

/* A number that (seed, epoch, k) draws; the same everywhere. */
uint64_t td_stage_draw(uint64_t seed, int64_t epoch, int64_t k);
/* The numbers 0 to n - 1 in an order drawn by (seed, epoch), by Fisher and Yates.
 * Made where *order is NULL, td_free'd by its owner; false: no memory. */
bool td_stage_order(uint64_t seed, int64_t epoch, int64_t n, int64_t **order);

/* Numbers in saved states. */
void td_stage_write(td_str *out, int64_t v);
td_status *td_stage_read(const char **at, const char *end,
                         int64_t *v) TD_MUST_USE;

#endif
