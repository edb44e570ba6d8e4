/* nvml.c - see nvml.h.
 *
 * Names and numbers are those of NVML's documented interface, which keeps them
 * from version to version: a name that changes gets "_v2" at its end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/str.h"
#include "kernels/cuda/cuda.h"

enum { DONE = 0, OF_THE_CARD = 0 /* which of its temperatures */ };

typedef struct memory_info {
  unsigned long long total, free, used;
} memory_info;

static struct {
  pthread_once_t once;
  td_status *why; /* NULL: it is open */
  int (*init)(void);
  int (*driver)(char *out, unsigned room);
  int (*version)(char *out, unsigned room);
  const char *(*error)(int e);
  int (*find)(const char *bus, void **card);
  int (*temperature)(void *card, int which, unsigned *out);
  int (*memory)(void *card, memory_info *out);
  int (*power)(void *card, unsigned *milliwatts);
  int (*uuid)(void *card, char *out, unsigned room);
} door = {.once = PTHREAD_ONCE_INIT};

static td_status *find_all(void *library) {
  const struct {
    void **at;
    const char *name;
  } names[] = {
      {(void **)&door.init, "nvmlInit_v2"},
      {(void **)&door.driver, "nvmlSystemGetDriverVersion"},
      {(void **)&door.version, "nvmlSystemGetNVMLVersion"},
      {(void **)&door.error, "nvmlErrorString"},
      {(void **)&door.find, "nvmlDeviceGetHandleByPciBusId_v2"},
      {(void **)&door.temperature, "nvmlDeviceGetTemperature"},
      {(void **)&door.memory, "nvmlDeviceGetMemoryInfo"},
      {(void **)&door.power, "nvmlDeviceGetPowerUsage"},
      {(void **)&door.uuid, "nvmlDeviceGetUUID"},
  };
  for (size_t i = 0; i < TD_COUNT(names); i++)
    if (!(*names[i].at = dlsym(library, names[i].name)))
      return td_error(TD_NOT_FOUND, "libnvidia-ml.so.1 has no %s",
                      names[i].name);
  return NULL;
}

static td_status *open_library(void) {
  void *library;
  TD_TRY(td_cuda_library("libnvidia-ml.so.1", &library));
  TD_TRY(find_all(library));
  int e = door.init();
  if (e == DONE) return NULL;
  return td_error(TD_UNAVAILABLE, "nvmlInit: %s (error %d)", door.error(e), e);
}

static void open_once(void) {
  door.why = open_library();
}

static bool is_open(void) {
  pthread_once(&door.once, open_once);
  return td_ok(door.why);
}

td_status *td_cuda_door_nvml(td_str *out) {
  char text[96] = "";
  if (!is_open()) return td_status_retain(door.why);
  if (door.version(text, sizeof text - 1) != DONE) strcpy(text, "is there");
  td_str_add(out, text);
  return NULL;
}

bool td_nvml_driver(char *out, size_t room) {
  return is_open() && door.driver(out, (unsigned)room) == DONE;
}

/* What it refuses to say of a card, which some are, is left out. */
bool td_nvml_card_at(const char *bus, td_nvml_card *out) {
  void *card;
  memory_info m;
  unsigned n;
  memset(out, 0, sizeof *out);
  if (!is_open() || door.find(bus, &card) != DONE) return false;
  if (door.memory(card, &m) != DONE) return false;
  out->total = m.total;
  out->used = m.used;
  if (door.temperature(card, OF_THE_CARD, &n) == DONE) out->celsius = (int)n;
  if (door.power(card, &n) == DONE) out->watts = (int)((n + 500) / 1000);
  if (door.uuid(card, out->uuid, sizeof out->uuid) != DONE) out->uuid[0] = '\0';
  return true;
}
