/* tell.c - what is known of the cards, for `tide doctor` and %devices.
 *
 * No card is used for it: no context is made. Where there are cards, the doors
 * are tried as well (doors.def): a line for each library that is there, or why
 * it is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/str.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/nvml.h"

/* ---- libraries ----------------------------------------------------------- */

static void *open_in(const char *folder, size_t len, const char *soname) {
  td_str path;
  td_str_init(&path);
  td_str_addn(&path, folder, len);
  td_str_addf(&path, "/%s", soname);
  void *l = path.failed ? NULL : dlopen(td_str_c(&path), RTLD_NOW | RTLD_LOCAL);
  td_str_deinit(&path);
  return l;
}

static void *open_in_folders(const char *folders, const char *soname) {
  void *l = NULL;
  while (folders && *folders && !l) {
    size_t len = strcspn(folders, ":");
    if (len) l = open_in(folders, len, soname);
    folders += len + (folders[len] == ':');
  }
  return l;
}

/* Folders that are named come first: who names them wants what is there. */
td_status *td_cuda_library(const char *soname, void **out) {
  *out = open_in_folders(getenv("TIDE_CUDA_LIBS"), soname);
  if (*out || (*out = dlopen(soname, RTLD_NOW | RTLD_LOCAL))) return NULL;
  td_status *s = td_error(TD_NOT_FOUND, "%s", dlerror());
  *out = open_in_folders("/usr/local/cuda/lib64", soname);
  if (!*out) return s;
  td_status_release(s);
  return NULL;
}

/* ---- doors --------------------------------------------------------------- */

typedef struct door {
  const char *name, *without;
  td_status *(*version)(td_str *out);
} door;

static const door doors[] = {
#define TD_CUDA_DOOR(id, name, without) {name, without, td_cuda_door_##id},
#include "kernels/cuda/doors.def"
#undef TD_CUDA_DOOR
};

static void tell_door(td_str *out, const door *d) {
  td_str version;
  td_str_init(&version);
  td_status *s = d->version(&version);
  if (td_ok(s))
    td_str_addf(out, "%s: %s\n", d->name, td_str_c(&version));
  else
    td_str_addf(out, "%s! %s; without it %s\n", d->name, td_status_message(s),
                d->without);
  td_status_release(s);
  td_str_deinit(&version);
}

/* ---- cards --------------------------------------------------------------- */

static int attribute(enum cudaDeviceAttr what, int card) {
  int v = 0;
  (void)cudaDeviceGetAttribute(&v, what, card);
  return v;
}

static void add_size(td_str *out, const char *before, uint64_t bytes) {
  td_str_addf(out, "%s%.1f GiB", before, (double)bytes / (double)(1 << 30));
}

/* What the driver's own library tells of it. */
static void tell_state(td_str *out, const td_nvml_card *c) {
  add_size(out, ", ", c->total);
  add_size(out, " of memory, ", c->used);
  td_str_add(out, " in use by all");
  if (c->celsius > 0) td_str_addf(out, ", %d °C", c->celsius);
  if (c->watts > 0) td_str_addf(out, ", %d W", c->watts);
  if (c->uuid[0]) td_str_addf(out, ", %s", c->uuid);
}

static void tell_card(td_str *out, int i) {
  char bus[32] = "?";
  td_nvml_card known = {0};
  struct cudaDeviceProp p = {.name = ""};
  (void)cudaDeviceGetPCIBusId(bus, sizeof bus, i);
  if (cudaGetDeviceProperties(&p, i) != cudaSuccess) p.name[0] = '\0';
  td_str_addf(out, "CUDA:%d: %s at %s, capability %d.%d, %d multiprocessors", i,
              p.name[0] ? p.name : "a card", bus,
              attribute(cudaDevAttrComputeCapabilityMajor, i),
              attribute(cudaDevAttrComputeCapabilityMinor, i),
              attribute(cudaDevAttrMultiProcessorCount, i));
  if (td_nvml_card_at(bus, &known))
    tell_state(out, &known);
  else if (p.name[0])
    add_size(out, ", ", p.totalGlobalMem);
  td_str_addc(out, '\n');
}

/* A driver of CUDA 13 says 13000. */
static void add_version(td_str *out, const char *before, int v) {
  td_str_addf(out, "%sCUDA %d.%d", before, v / 1000, v % 1000 / 10);
}

static void tell_driver(td_str *out, cudaError_t e, int driver, int runtime) {
  char text[80];
  if (e == cudaSuccess)
    td_str_add(out, "CUDA: ");
  else
    td_str_addf(out, "CUDA! no device: %s (error %d); ", cudaGetErrorString(e),
                (int)e);
  if (driver == 0) {
    td_str_add(out, "there is no driver");
  } else {
    td_str_add(out, "driver ");
    if (td_nvml_driver(text, sizeof text)) td_str_addf(out, "%s ", text);
    add_version(out, "of ", driver);
  }
  add_version(out, ", Tide is built with ", runtime);
  td_str_addc(out, '\n');
}

void td_cuda_tell_all(td_str *out) {
  int driver = 0, runtime = 0, n = 0;
  cudaError_t e = cudaGetDeviceCount(&n);
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDriverGetVersion(&driver);
  tell_driver(out, e, driver, runtime);
  if (e != cudaSuccess) n = 0;
  for (int i = 0; i < n; i++) tell_card(out, i);
  (void)cudaGetLastError();
  for (size_t i = 0; n > 0 && i < TD_COUNT(doors); i++)
    tell_door(out, &doors[i]);
  if (n > 0) td_cuda_blas_tell(out);
  if (n > 0) td_cudnn_tell(out);
}
