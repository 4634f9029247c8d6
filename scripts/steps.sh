# Steps with a time limit and a summary, and the steps that need no build; sourced by scripts/check and scripts/test after common.sh.
# shellcheck shell=bash

summary=()
began=$SECONDS
step_output="$(mktemp "${TMPDIR:-/tmp}/herald-step.XXXXXX")"
# Steps that run beside the others, by name: process, file with its output, time limit.
declare -A beside_processes=() beside_outputs=() beside_minutes=()
trap stop_beside EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

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
    # No pipeline: it would also wait for processes that a step leaves behind at its time limit.
    "${limited[@]}" </dev/null > >(tee "$step_output") 2>&1 || status=$?
  fi
  note_result "$name" "$minutes" "$status" $((SECONDS - start))
}

# begin NAME MINUTES COMMAND…: starts a step that runs beside the following ones. `join` shows its output and notes its result.
begin() {
  local name="$1" minutes="$2"
  shift 2
  beside_minutes[$name]="$minutes"
  beside_outputs[$name]="$(mktemp "${TMPDIR:-/tmp}/herald-step.XXXXXX")"
  # In a process group of its own, which ends as a whole: Ctrl-C does not reach it, but stop_beside ends it.
  timeout --kill-after=30 "${minutes}m" "$@" </dev/null >"${beside_outputs[$name]}" 2>&1 &
  beside_processes[$name]=$!
  say "$name: runs beside the following steps"
}

# join NAME: shows the output of a step that `begin` started, until it ends. Its time in the summary is the time of this wait.
join() {
  local name="$1" start=$SECONDS status=0
  heading "$name"
  tail --lines=+1 --follow --sleep-interval=0.2 --pid="${beside_processes[$name]}" "${beside_outputs[$name]}" &
  wait $!
  wait "${beside_processes[$name]}" || status=$?
  unset "beside_processes[$name]"
  cp "${beside_outputs[$name]}" "$step_output"
  note_result "$name" "${beside_minutes[$name]}" "$status" $((SECONDS - start)) " (the rest of it: it ran beside others)"
}

# Ends all steps that still run beside others, with everything that they started.
stop_beside() {
  local pid
  for pid in "${beside_processes[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${beside_processes[@]}"; do wait_until 30 group_is_gone "$pid" || kill -KILL -- "-$pid" 2>/dev/null || true; done
  rm -f "$step_output" "${beside_outputs[@]}"
}

# note_result NAME MINUTES STATUS SECONDS [REMARK]: for the summary; ends the script if the step failed.
note_result() {
  local name="$1" minutes="$2" status="$3" seconds="$4" remark="${5:-}"
  if ((status == 0)); then
    summary+=("$(printf 'ok      %4d s  %s' "$seconds" "$name$remark")")
    return
  fi
  what_failed
  if ((status == 124 || status == 137)); then name="$name (over $minutes minutes)"; fi
  summary+=("$(printf 'FAILED  %4d s  %s' "$seconds" "$name$remark")")
  finish 1
}

# Repeats the errors at the log's end; the first ones may be thousands of lines above.
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

# The steps that need no build, after the setup; less than a minute.
steps_without_build() {
  step "Format" 5 scripts/format --check
  step "Scripts" 2 scripts/check-scripts
  step "Rooms" 2 scripts/rooms
  step "Texts" 2 scripts/check-texts
  step "hiredis" 2 scripts/check-hiredis
  step "Documents" 2 scripts/check-docs
  step "Auditor" 2 scripts/chaos/check
  step "Mutants" 2 scripts/mutants/run --check
  step "Schemas" 2 scripts/check-schemas
  step "OpenAPI" 1 scripts/openapi --check
  step "Producers" 3 scripts/check-producers
}
