/* graphdef.h - graphs as TensorFlow's GraphDef bytes.
 *
 * Written bytes are reproducible: fields by number, attributes by name, lists
 * packed, defaults left out. Reading trusts nothing: depth, counts and sizes
 * are scanned before protobuf-c unpacks (it has no limits of its own), every
 * node is checked as one that is built, loops as by td_frames_check.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPHDEF_H
#define TD_GRAPHDEF_H

#include "engine/graph/graph.h"

TD_BEGIN

/* Caller owns *bytes (td_free), and holds the lock where others may change `g`.
 * Fails beyond 2 GiB, naming the largest constants. */
td_status *td_graphdef_write(const td_graph *g, char **bytes, size_t *len)
    TD_MUST_USE;
/* The same for who reads it elsewhere: what can only be had in this process
 * (TD_FED) is a Placeholder, one for each output, the second called "x/1". */
td_status *td_graphdef_export(const td_graph *g, char **bytes, size_t *len)
    TD_MUST_USE;

typedef struct td_graphdef_options {
  const char *prefix;       /* optional: put before every name, with "/" */
  const char *const *names; /* inputs replaced: "x:0" in the file ... */
  const td_edge *edges;     /* ... by this edge of `g` */
  int n_inputs;
  bool part; /* of a plan: a loop's LoopCond may be in another one */
  bool clear_devices; /* nodes ask for none, whatever the file says */
} td_graphdef_options;

/* Adds the nodes to `g`, all or none, in the file's order where inputs come
 * first there. A MetaGraphDef or SavedModel is read for the GraphDef within.
 * Takes the lock itself. `options` may be NULL. */
td_status *td_graphdef_read(td_graph *g, const void *bytes, size_t len,
                            const td_graphdef_options *options) TD_MUST_USE;

/* One tensor as TensorProto bytes and back (golden vectors, the wire).
 * `limit` bounds the memory a repeated value may expand to. */
td_status *td_tensorproto_write(const td_tensor *t, char **bytes, size_t *len)
    TD_MUST_USE;
td_status *td_tensorproto_read(const void *bytes, size_t len, size_t limit,
                               td_tensor *out) TD_MUST_USE;

TD_END
#endif
