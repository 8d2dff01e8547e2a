#!/usr/bin/env bash
# Runs the callback client, which stands in the same repository as this action, with the action's inputs.
set -euo pipefail
python=$(command -v python3 || command -v python) || { echo "not reported: there is no Python here" >&2; exit 2; }
strict=()
if [ "${IN_STRICT:-false}" = true ]; then strict=(--strict); fi
code=0
answer=$("$python" "$ACTION_PATH/../../relay/report.py" \
  "--callback-url=$IN_CALLBACK_URL" "--status=$IN_STATUS" "--conclusion=${IN_CONCLUSION:-}" \
  "--event-type=${IN_EVENT_TYPE:-}" "--delivery-id=${IN_DELIVERY_ID:-}" "--test-results=${IN_TEST_RESULTS:-}" \
  "--artifact-url=${IN_ARTIFACT_URL:-}" "--triage-verdict=${IN_TRIAGE_VERDICT:-}" "--job-name=${IN_JOB_NAME:-}" \
  "--started-at=${IN_STARTED_AT:-}" "--max-time=${IN_MAX_TIME:-120}" ${strict[@]+"${strict[@]}"}) || code=$?
echo "$answer"
if [ -n "${GITHUB_OUTPUT:-}" ]; then echo "answer=$answer" >> "$GITHUB_OUTPUT"; fi
exit $code
