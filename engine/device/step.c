/* step.c - a step that fails.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/step.h"

void td_step_fail(td_step *step, td_status *cause) {
  td_cancel_fire(step->cancel, cause);
  td_status *first = td_cancel_cause(step->cancel);
  td_rendezvous_abort(step->rendezvous, first);
  td_status_release(first);
}
