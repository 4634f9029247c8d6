# Steps with a time limit and a summary, and the steps that need no build; sourced by scripts/check and scripts/test after common.sh.
# shellcheck shell=bash

summary=()
began=$SECONDS
step_output="$(mktemp "${TMPDIR:-/tmp}/herald-step.XXXXXX")"
trap 'rm -f "$step_output"' EXIT

# step NAME MINUTES COMMAND…: notes its result and its time for the summary; the first one that fails ends the script.
step() {
  local name="$1" minutes="$2" start=$SECONDS status=0
  shift 2
  heading "$name"
  # In the foreground, so that Ctrl-C still reaches what runs.
  local limited=(timeout --foreground --kill-after=30 "${minutes}m" "$@")
  if [[ -t 1 ]]; then
    "${limited[@]}" </dev/null || status=$?
  else
    # No pipeline, which would also wait for whatever a step that is out of time leaves behind.
    "${limited[@]}" </dev/null > >(tee "$step_output") 2>&1 || status=$?
  fi
  if ((status == 0)); then
    summary+=("$(printf 'ok      %4d s  %s' $((SECONDS - start)) "$name")")
    return
  fi
  what_failed
  if ((status == 124 || status == 137)); then name="$name (over $minutes minutes)"; fi
  summary+=("$(printf 'FAILED  %4d s  %s' $((SECONDS - start)) "$name")")
  finish 1
}

# Again, because whoever reads a log from its end would have to look for it among thousands of lines.
what_failed() {
  [[ ! -t 1 ]] || return 0
  # For tee's last lines.
  sleep 1
  heading "What failed"
  grep -A 4 -E 'recorded an issue|^(FAILED|error:)|: error:' "$step_output" | head -n 60 || tail -n 20 "$step_output"
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
