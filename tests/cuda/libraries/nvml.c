/* nvml.c - a libnvidia-ml.so.1 without a driver, for tests: one kind of card,
 * and what TIDE_FAKE_NVML says does not work ("init", "temperature").
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL __attribute__((visibility("default")))

CALL int nvmlInit_v2(void);
CALL const char *nvmlErrorString(int e);
CALL int nvmlSystemGetDriverVersion(char *out, unsigned room);
CALL int nvmlSystemGetNVMLVersion(char *out, unsigned room);
CALL int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **card);
CALL int nvmlDeviceGetTemperature(void *card, int which, unsigned *out);
CALL int nvmlDeviceGetMemoryInfo(void *card, unsigned long long *out);
CALL int nvmlDeviceGetPowerUsage(void *card, unsigned *out);
CALL int nvmlDeviceGetUUID(void *card, char *out, unsigned room);

static char bus_of_a[] = "0000:00:0a.0";

static int unless(const char *what) {
  const char *fails = getenv("TIDE_FAKE_NVML");
  return fails && strcmp(fails, what) == 0 ? 3 : 0;
}

int nvmlInit_v2(void) {
  return unless("init");
}
const char *nvmlErrorString(int e) {
  return e == 3 ? "Not Supported" : "Success";
}
int nvmlSystemGetDriverVersion(char *out, unsigned room) {
  snprintf(out, room, "580.65.06");
  return 0;
}
int nvmlSystemGetNVMLVersion(char *out, unsigned room) {
  snprintf(out, room, "13.580.65.06");
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **card) {
  *card = bus_of_a;
  return strcmp(bus, bus_of_a) == 0 ? 0 : 6;
}
int nvmlDeviceGetTemperature(void *card, int which, unsigned *out) {
  (void)card;
  *out = which == 0 ? 41 : 0;
  return unless("temperature");
}
/* Total, free, used. */
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long *out) {
  (void)card;
  out[0] = 4ull << 30;
  out[1] = 3ull << 30;
  out[2] = 1ull << 30;
  return 0;
}
int nvmlDeviceGetPowerUsage(void *card, unsigned *out) {
  (void)card;
  *out = 119600;
  return 0;
}
int nvmlDeviceGetUUID(void *card, char *out, unsigned room) {
  (void)card;
  snprintf(out, room, "GPU-0123");
  return 0;
}
