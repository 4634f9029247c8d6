# Steps with a time limit and a summary, and the steps that need no build; sourced by scripts/check and scripts/test after common.sh.
# shellcheck shell=bash

summary=()
began=$SECONDS

# step NAME MINUTES COMMAND…: notes its result and its time for the summary; the first one that fails ends the script.
step() {
  local name="$1" minutes="$2" start=$SECONDS status=0
  shift 2
  heading "$name"
  # In the foreground, so that Ctrl-C still reaches what runs.
  timeout --foreground --kill-after=30 "${minutes}m" "$@" </dev/null || status=$?
  if ((status == 0)); then
    summary+=("$(printf 'ok      %4d s  %s' $((SECONDS - start)) "$name")")
    return
  fi
  if ((status == 124 || status == 137)); then name="$name (over $minutes minutes)"; fi
  summary+=("$(printf 'FAILED  %4d s  %s' $((SECONDS - start)) "$name")")
  finish 1
}

finish() {
  heading "Summary"
  printf '%s\n' "${summary[@]}"
  printf '        %4d s  in all\n' $((SECONDS - began))
  exit "$1"
}

# What can be said without a build, in less than a minute.
steps_without_build() {
  step "Setup" 10 scripts/setup
  step "Format" 5 scripts/format --check
  step "Scripts" 2 scripts/check-scripts
  step "Rooms" 2 scripts/rooms
  step "Documents" 2 scripts/check-docs
  step "Auditor" 2 scripts/chaos/check
  step "Mutants" 2 scripts/mutants/run --check
  step "Schemas" 2 scripts/check-schemas
  step "Producers" 3 scripts/check-producers
}
