#!/bin/sh
# curl --http2 against the simulator as it starts without arguments: the line that it prints must work.
set -eu
: "${APNS_SIMULATOR:?must name the apns-simulator binary}"
work=$(mktemp -d)
"$APNS_SIMULATOR" --folder "$work/made" >"$work/ready" 2>"$work/told" &
pid=$!
trap 'kill "$pid" 2>/dev/null || :; rm -rf "$work"' EXIT
tries=0
until grep -q '^  curl' "$work/told"; do
  tries=$((tries + 1))
  [ "$tries" -lt 100 ] || { echo "FAIL  no curl line within 10 s"; exit 1; }
  sleep 0.1
done
line=$(sed -n 's/^  \(curl .*\)/\1/p' "$work/told")
status=0
expect() {
  if printf '%s' "$3" | grep -q "$2"; then echo "ok    $1"; else echo "FAIL  $1: $3"; status=1; fi
}
expect "the printed line" '^HTTP/2 200' "$(eval "$line -sS")"
expect "a token of a device that is gone" '"reason":"Unregistered","timestamp":' "$(eval "$(printf '%s' "$line" | sed 's#/3/device/00fc#/3/device/dead#') -sS")"
expect "without authorization" 'MissingProviderToken' "$(eval "$(printf '%s' "$line" | sed "s#-H 'authorization[^']*'##") -sS")"
kill -TERM "$pid"
if wait "$pid"; then echo "ok    SIGTERM ends it with exit 0"; else echo "FAIL  exit $?"; status=1; fi
exit "$status"
