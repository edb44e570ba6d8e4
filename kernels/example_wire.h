/* example_wire.h - Examples read where they lie, as the bytes of protobuf.
 *
 *   Example  { features = 1 }
 *   Features { feature = 1: map<string, Feature> }
 *   Feature  { bytes_list = 1 | float_list = 2 | int64_list = 3 }
 *   each list { value = 1, repeated }, numbers packed or one by one
 *   SequenceExample { context = 1: Features, feature_lists = 2 }
 *   FeatureLists { feature_list = 1: map<string, FeatureList> }
 *   FeatureList { feature = 1, repeated }
 *
 * No message is built: an entry of the map is a key and the bytes of its
 * Feature, which are looked at when somebody asked for that key, first to check
 * and count, then to copy. Protobuf's rules hold: unknown fields and groups are
 * passed over, parts of a message that come twice are merged, of two kinds of
 * list the last counts. No byte is trusted, and nothing here takes memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EXAMPLE_WIRE_H
#define TD_EXAMPLE_WIRE_H

#include "engine/base/str.h"

TD_BEGIN

/* What is left of a message; `at` is NULL once it turned out broken. */
typedef struct td_wire {
  const uint8_t *at, *end;
} td_wire;

/* Which map: an Example's, which is as a SequenceExample's context, or a
 * SequenceExample's lists. */
typedef enum td_example_map {
  TD_EXAMPLE_FEATURES = 1,
  TD_EXAMPLE_LISTS = 2,
} td_example_map;

/* The entries of a map of an Example, one after the other. */
typedef struct td_example_reader {
  td_wire example, features;
  uint32_t map;
} td_example_reader;

void td_example_open(td_example_reader *r, td_bytes example,
                     td_example_map map);
/* False at the end, and when the bytes are broken (td_example_broken). Borrowed;
 * valid while the example's bytes are. */
bool td_example_next(td_example_reader *r, td_bytes *key, td_bytes *feature);
bool td_example_broken(const td_example_reader *r);

/* The Features of a FeatureList, which are the steps of a sequence, in the same
 * way: `list` is opened on what an entry of the lists has. */
void td_example_list_open(td_wire *list, td_bytes from);
bool td_example_list_next(td_wire *list, td_bytes *feature);
bool td_example_list_broken(const td_wire *list);

/* The kinds of list, by their field; 0 where there is none. */
typedef enum td_example_kind {
  TD_EXAMPLE_NONE = 0,
  TD_EXAMPLE_BYTES = 1,
  TD_EXAMPLE_FLOATS = 2,
  TD_EXAMPLE_INTS = 3,
} td_example_kind;

/* What the bytes of a value are: fields of the Feature, among them lists of one
 * kind; the fields of its only list; the bytes of its numbers. */
typedef enum td_example_part {
  TD_EXAMPLE_FIELDS = 0,
  TD_EXAMPLE_LIST,
  TD_EXAMPLE_CHUNK,
} td_example_part;

/* The values of a Feature. Borrows its bytes. */
typedef struct td_example_value {
  td_bytes from;
  int64_t count; /* values */
  size_t text;   /* bytes of strings together */
  td_example_kind kind;
  td_example_part part;
} td_example_value;

/* Which kind, without looking into the lists; false when the Feature is
 * broken. */
bool td_example_value_open(td_bytes feature, td_example_value *v);
/* Checks and counts what the lists have; false when one is broken. */
bool td_example_value_count(td_example_value *v);
/* Writes the values, of one that was counted: float or int64. */
void td_example_floats(const td_example_value *v, float *to);
void td_example_ints(const td_example_value *v, int64_t *to);
/* Writes strings one after the other from `text` on, and where each ends, as
 * counted from `base`. */
void td_example_strings(const td_example_value *v, const char *base, char *text,
                        uint64_t *ends);

TD_END
#endif
