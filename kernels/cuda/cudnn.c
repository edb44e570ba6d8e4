/* cudnn.c - cuDNN opened, and cards as it plans for them (cudnn.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/cudnn.h"

#include <string.h>

#include "engine/base/mem.h"
#include "kernels/cuda/door.h"

enum { OLDEST = 90800, NEXT_MAJOR = 100000 }; /* versions: 9.8.0, 10.0.0 */

#define SYMBOL(name)                                                           \
  { "cudnn" #name, offsetof(td_cudnn_api, name) }
static const td_cuda_symbol symbols[] = {
    SYMBOL(GetVersion),
    SYMBOL(GetErrorString),
    SYMBOL(GetLastErrorString),
    SYMBOL(Create),
    SYMBOL(Destroy),
    SYMBOL(SetStream),
    SYMBOL(BackendCreateDescriptor),
    SYMBOL(BackendDestroyDescriptor),
    SYMBOL(BackendSetAttribute),
    SYMBOL(BackendGetAttribute),
    SYMBOL(BackendFinalize),
    SYMBOL(BackendExecute),
    {0},
};

static bool fits(const void *table, td_str *why) {
  size_t version = ((const td_cudnn_api *)table)->GetVersion();
  if (version >= OLDEST && version < NEXT_MAJOR) return true;
  td_str_addf(why, "it is of version %zu, of those from %d to %d one is needed",
              version, OLDEST, NEXT_MAJOR - 1);
  return false;
}

static td_cudnn_api functions; /* set when the door is opened */
static td_cuda_door door = {.soname = "libcudnn.so.9",
                            .what = "cuDNN",
                            .symbols = symbols,
                            .check = fits};

const td_cudnn_api *td_cudnn_open(void) {
  return td_cuda_door_open(&door, &functions) ? &functions : NULL;
}

void td_cudnn_tell(td_str *out) {
  td_cuda_door_tell(&door, &functions, out);
}

td_status *td_cudnn_error(const td_cudnn_api *api, int e, const char *what) {
  char last[256] = "";
  api->GetLastErrorString(last, sizeof last);
  return td_error(TD_INTERNAL, "cuDNN: %s (error %d) in %s%s%s",
                  api->GetErrorString(e), e, what, last[0] ? ": " : "", last);
}

/* ---- cards --------------------------------------------------------------- */

static td_status *describe(td_cudnn_card *c, const char *json) {
  const td_cudnn_api *api = c->api;
  int e = api->BackendCreateDescriptor(TD_CUDNN_DEVICEPROP, &c->props);
  if (!e && json)
    e = api->BackendSetAttribute(c->props, TD_CUDNN_DEVICEPROP_JSON,
                                 TD_CUDNN_CHAR, (int64_t)strlen(json) + 1,
                                 json);
  if (!e && !json)
    e = api->BackendSetAttribute(c->props, TD_CUDNN_DEVICEPROP_HANDLE,
                                 TD_CUDNN_HANDLE, 1, &c->handle);
  if (!e) e = api->BackendFinalize(c->props);
  return e ? td_cudnn_error(api, e, "a description of the card") : NULL;
}

static td_status *read_back(td_cudnn_card *c) {
  const td_cudnn_api *api = c->api;
  int64_t n = 0;
  int e = api->BackendGetAttribute(c->props, TD_CUDNN_DEVICEPROP_JSON,
                                   TD_CUDNN_CHAR, 0, &n, NULL);
  if (e || n < 0 || n > 1 << 20)
    return td_cudnn_error(api, e, "the size of a card's description");
  c->json = td_calloc((size_t)n + 1, 1);
  if (!c->json) return td_oom();
  e = api->BackendGetAttribute(c->props, TD_CUDNN_DEVICEPROP_JSON,
                               TD_CUDNN_CHAR, n, &n, c->json);
  return e ? td_cudnn_error(api, e, "a card's description") : NULL;
}

td_status *td_cudnn_card_init(const td_cudnn_api *api, const char *json,
                              td_cudnn_card *out) {
  *out = (td_cudnn_card){.api = api};
  if (!json) {
    int e = api->Create(&out->handle);
    if (e) return td_cudnn_error(api, e, "a handle");
  }
  TD_TRY(describe(out, json));
  return read_back(out);
}

void td_cudnn_card_deinit(td_cudnn_card *c, bool dead) {
  if (c->props) (void)c->api->BackendDestroyDescriptor(c->props);
  if (c->handle && !dead) (void)c->api->Destroy(c->handle);
  td_free(c->json);
  *c = (td_cudnn_card){0};
}
