/* door.h - NVIDIA's libraries, opened when they are first needed.
 *
 * The plugin is linked with none of them: where one is not there, kernels of our
 * own do its work. It is looked for in the folders that $TIDE_CUDA_LIBS names
 * (`:` between them) and nowhere else; without that by its name, as the system
 * finds libraries, and in /usr/local/cuda/lib64. What was opened stays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_DOOR_H
#define TD_CUDA_DOOR_H

#include "engine/base/str.h"

typedef struct td_cuda_symbol {
  const char *name; /* NULL: behind the last */
  size_t at;        /* where in the table of functions its address goes */
} td_cuda_symbol;

/* One library; static, with td_cuda_door_of. */
typedef struct td_cuda_door {
  const char *soname, *what; /* "libcublasLt.so.13", "cuBLASLt" */
  const td_cuda_symbol *symbols;
  /* (optional) Is it what we can use? False: adds why not to `why`. */
  bool (*check)(const void *table, td_str *why);
  /* Set once, by td_cuda_door_open. */
  int state; /* atomic; 0 not tried, 1 open, 2 absent */
  char why[512], from[256];
} td_cuda_door;

/* Opens it at the first call, fills `table`; the same answer ever after. */
bool td_cuda_door_open(td_cuda_door *d, void *table);
/* A line for people: from where it is, or why it is not. Tries to open it. */
void td_cuda_door_tell(td_cuda_door *d, void *table, td_str *out);

#endif
