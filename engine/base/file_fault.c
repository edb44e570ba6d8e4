/* file_fault.c - one counter of file operations, and what errno means.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file_fault.h"

#include <errno.h>
#include <string.h>

#include "engine/base/fault.h"

static td_fault door;

void td_file_fail(int64_t nth, bool for_ever) {
  td_fault_arm(&door, nth, for_ever);
}

int64_t td_file_calls(void) {
  return td_fault_calls(&door);
}

td_status *td_file_enter(const char *doing, const char *path) {
  if (TD_LIKELY(td_fault_try(&door))) return NULL;
  return td_error(TD_UNAVAILABLE, "cannot %s '%s': failed by a test", doing,
                  path);
}

static td_code code_of(int err) {
  switch (err) {
  case ENOENT:
    return TD_NOT_FOUND;
  case EEXIST:
    return TD_ALREADY_EXISTS;
  case EACCES:
  case EPERM:
  case EROFS:
    return TD_PERMISSION_DENIED;
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
  case EMFILE:
  case ENFILE:
  case ENOMEM:
    return TD_RESOURCE_EXHAUSTED;
  case EISDIR:
  case ENOTDIR:
  case ENOTEMPTY:
  case EBUSY:
    return TD_FAILED_PRECONDITION;
  case EINVAL:
  case ELOOP:
  case ENAMETOOLONG:
    return TD_INVALID_ARGUMENT;
  case EIO:
    return TD_DATA_LOSS;
  case EAGAIN:
  case EINTR:
    return TD_UNAVAILABLE;
  default:
    return TD_UNKNOWN;
  }
}

/* What helps; "" where the message says it. */
static const char *remedy(int err) {
  switch (err) {
  case ENOSPC:
    return ": the disk is full; make room there, or choose another";
  case EDQUOT:
    return "; the quota there is used up";
  case EFBIG:
    return "; see ulimit -f";
  case EMFILE:
    return "; close some, or see ulimit -n";
  case EACCES:
  case EPERM:
    return "; see who may do that there";
  case EROFS:
    return "; choose a place that can be written";
  default:
    return "";
  }
}

td_status *td_file_error(const char *doing, const char *path, int err) {
  char buf[128];
  return td_error(code_of(err), "cannot %s '%s': %s%s", doing, path,
                  strerror_r(err, buf, sizeof buf), remedy(err));
}
