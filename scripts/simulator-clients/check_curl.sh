#!/usr/bin/env bash
# curl --http2 against the simulator as it starts without arguments: the line that it prints must work as it stands.
set -euo pipefail
: "${APNS_SIMULATOR:?must name the apns-simulator binary}"

work="$(mktemp -d "${TMPDIR:-/tmp}/apns-simulator-curl.XXXXXX")"
# Without arguments, so its own folder is in the place for temporary ones.
TMPDIR="$work" "$APNS_SIMULATOR" >"$work/ready" 2>"$work/told" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
tries=0
until grep -q '^  curl' "$work/told"; do
  ((++tries < 100)) || { echo "FAIL  no curl line within 10 s"; exit 1; }
  sleep 0.1
done
line="$(sed -n 's/^  \(curl .*\)/\1/p' "$work/told")"

count=0 failed=0
# expect NAME PATTERN LINE: the line, run by a shell, prints what matches.
expect() {
  local output
  output="$(bash -c "$3 -sS --max-time 20" 2>&1)" || true
  count=$((count + 1))
  if ! grep -q "$2" <<<"$output"; then
    failed=$((failed + 1))
    echo "FAIL  $1: $output"
  elif [[ -n ${VERBOSE:-} ]]; then
    echo "ok    $1"
  fi
}
port="$(sed -n 's/.*"control_port":\([0-9]*\).*/\1/p' "$work/ready")"
expect "the printed line" '^HTTP/2 200' "$line"
expect "a device that is gone" '"reason":"Unregistered","timestamp":' "${line/'/3/device/00fc'/'/3/device/dead'}"
expect "without authorization" 'MissingProviderToken' "${line/authorization:/x-nothing:}"
expect "another topic" 'BadTopic' "${line/com.example.app/com example}"
expect "a fault that is set" '"fault":"share=0.5,status=503,reason=ServiceUnavailable"' \
  "curl -d share=0.5,status=503,reason=ServiceUnavailable localhost:$port/faults"
expect "the page" '<h1>APNs simulator' "curl localhost:$port/"
kill -TERM "$pid"
count=$((count + 1))
wait "$pid" || { failed=$((failed + 1)); echo "FAIL  SIGTERM: exit $?"; }
echo "      $count checks with curl, $failed failed"
((failed == 0))
