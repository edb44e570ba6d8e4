/* nvml.h - the door to the library of the driver that tells of cards.
 *
 * libnvidia-ml.so.1 comes with every driver; its header does not come with the
 * toolkit, so what is needed of it is declared in nvml.c. It makes no context.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NVML_H
#define TD_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 and "": it does not say. */
typedef struct td_nvml_card {
  uint64_t total, used; /* bytes */
  int celsius, watts;
  char uuid[96];
} td_nvml_card;

/* The card at "0000:01:00.0". False: there is no such library or card. */
bool td_nvml_card_at(const char *bus, td_nvml_card *out);
/* "580.65.06". */
bool td_nvml_driver(char *out, size_t room);

#endif
