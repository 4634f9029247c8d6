# Shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# The caller's variables would override the scripts' own configuration.
for name in $(compgen -e HERALD_); do unset "$name"; done
unset name

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# heading TEXT: one line before a step; bold on a terminal.
heading() {
  if [[ -t 2 && -z "${NO_COLOR:-}" ]]; then printf '\n\033[1m%s\033[0m\n' "$*" >&2; else printf '\n== %s\n' "$*" >&2; fi
}

# swift_build OPTION…: `swift build` with these options. Shows progress in place of its output: on a terminal one line that is rewritten,
# elsewhere a line every 30 s. It leaves out the warnings of other packages; our own targets treat warnings as errors, so none of ours is
# lost. If the build fails, it prints the errors and the path of the whole log. Returns the exit code of `swift build`.
#
# With OPTIMIZED_TESTS, for `make test`, it compiles each module as a whole, which takes a quarter less CPU than file by file. A process of
# its own that emits the module would check all types twice, and SwiftPM waits for both processes anyway. Information for debuggers costs a
# tenth of the CPU, and a failed check names its line without it.
swift_build() {
  local log status=0 began=$SECONDS told=$SECONDS pid
  local options=(--explicit-target-dependency-import-check error)
  if [[ -n ${OPTIMIZED_TESTS:-} ]]; then
    options+=(-Xswiftc -whole-module-optimization -Xswiftc -no-emit-module-separately-wmo -Xswiftc -num-threads -Xswiftc 2 -debug-info-format none)
  fi
  mkdir -p "$root/.build/logs"
  log="$root/.build/logs/build$(tr -cs '[:alnum:]\n' - <<<" $*" | cut -c 1-120).log"
  # A script's background command ignores SIGINT by default, but Ctrl-C must end the build too.
  env --default-signal=INT,QUIT swift build "${options[@]}" "$@" </dev/null >"$log" 2>&1 &
  pid=$!
  # At the end of a step's time, or when the terminal closes.
  trap 'kill "$pid" 2>/dev/null; exit 143' TERM HUP
  while is_alive "$pid"; do
    if [[ -t 2 ]]; then
      printf '\r\033[K%.78s' "$(swift_build_progress "$log")" >&2
    elif ((SECONDS - told >= 30)); then
      told=$SECONDS
      say "building for $((SECONDS - began)) s: $(swift_build_progress "$log")"
    fi
    sleep 0.2
  done
  wait "$pid" || status=$?
  trap - TERM HUP
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  if ((status == 0)); then
    say "built in $((SECONDS - began)) s"
  else
    swift_build_errors "$log" >&2
    say "error: swift build${*:+ $*} failed with exit code $status; the whole log: $log"
  fi
  return "$status"
}

# swift_build_progress LOG: the newest line of progress (`[12/345] Compiling …`, `Fetching …`), without compiler messages.
swift_build_progress() { tail -n 200 "$1" | grep -E '^(\[[0-9]+/[0-9]+\]|[A-Z][a-z]+ )' | tail -n 1 || true; }

# swift_build_errors LOG: each error with its lines, once; the end of the log if there is none.
swift_build_errors() {
  local errors
  errors="$(awk '
    function flush() { sub(/\n+$/, "\n", block); if (block != "" && !(block in seen)) { seen[block] = 1; printf "%s", block } block = "" }
    /^\[[0-9]+\/[0-9]+\]/ || /^[^ |0-9][^|]*(warning|note|remark):/ { flush(); next }
    /^[^ |0-9][^|]*error:/ || /^error:/ { flush(); block = $0 "\n"; next }
    block != "" { block = block $0 "\n" }
    END { flush() }' "$1" | head -n 200)"
  if [[ -n $errors ]]; then printf '%s\n' "$errors"; else tail -n 30 "$1"; fi
}

# json_field LINE KEY: a string or number of a flat JSON object, without a JSON tool.
json_field() {
  sed -nE "s/.*\"$2\" *: *(\"(([^\"\\\\]|\\\\.)*)\"|([-0-9.]+|true|false)).*/\2\4/p" <<<"$1" | sed 's#\\\([/"]\)#\1#g'
}

# is_open PORT: something accepts connections there.
is_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: a port without a listener. It is below the range of outgoing connections: there, a client that keeps dialling a stopped
# server can be connected to itself. Tests reserve ports below 28000.
free_port() {
  local port
  for _ in $(seq 200); do
    port=$((28000 + RANDOM % 4000))
    if ! is_open "$port"; then echo "$port"; return; fi
  done
  fail "found no free port on 127.0.0.1"
}

# wait_until SECONDS COMMAND…: tries again until it succeeds.
wait_until() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    if ((SECONDS >= deadline)); then return 1; fi
    sleep 0.1
  done
}

# start_process FOLDER NAME COMMAND…: in a session of its own, so that Ctrl-C reaches only this script, which then stops
# everything in order. Output goes to FOLDER/NAME.out and .log, the id to FOLDER/NAME.pid.
start_process() {
  local folder="$1" name="$2"
  shift 2
  # shellcheck disable=SC2016
  setsid --fork bash -c 'echo $$ > "$0"; exec "$@"' "$folder/$name.pid" "$@" \
    </dev/null >>"$folder/$name.out" 2>>"$folder/$name.log"
  wait_until 5 test -s "$folder/$name.pid" || fail "$name did not start; see $folder/$name.log"
}

# is_running FOLDER NAME
is_running() {
  local pid
  pid="$(cat "$1/$2.pid" 2>/dev/null)" && [[ -n "$pid" ]] && is_alive "$pid"
}

# is_alive PID: the process runs; a zombie does not.
is_alive() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat="${stat##*) }"
  [[ -n $stat && ${stat:0:1} != Z ]]
}

# group_is_gone ID: no process of the group runs.
group_is_gone() {
  local file stat fields
  kill -0 -- "-$1" 2>/dev/null || return 0
  for file in /proc/[0-9]*/stat; do
    { read -r stat <"$file"; } 2>/dev/null || continue
    # State, parent and group follow the name, which may contain anything.
    read -ra fields <<<"${stat##*) }"
    # Empty if the process ended while it was read.
    if [[ ${fields[2]:-} == "$1" && ${fields[0]} != Z ]]; then return 1; fi
  done
}

# stop_process FOLDER NAME SECONDS: SIGTERM to the process and all its children, and after this time SIGKILL.
stop_process() {
  local pid
  pid="$(cat "$1/$2.pid" 2>/dev/null)" || return 0
  [[ -n "$pid" ]] || return 0
  kill -TERM -- "-$pid" 2>/dev/null || true
  wait_until "$3" group_is_gone "$pid" || kill -KILL -- "-$pid" 2>/dev/null || true
  rm -f "$1/$2.pid"
}

# python_environment REQUIREMENTS FOLDER: makes a Python environment with these packages from PyPI, unless it is there already.
python_environment() {
  local requirements="$1" folder="$2"
  # The installed requirements, once all of them are installed.
  if cmp -s "$requirements" "$folder/requirements.txt"; then return; fi
  say "Installing $(sed 's/==.*//' "$requirements" | paste -sd ' ') from PyPI into $folder"
  rm -rf "$folder"
  # The system's Python: scripts/setup installs for that one.
  timeout 120 /usr/bin/python3 -m venv "$folder" \
    || fail "cannot make a Python environment in $folder; run scripts/setup, which installs python3-venv"
  timeout 240 "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 2 --timeout 20 -r "$requirements" \
    || fail "PyPI cannot be reached, or lacks what $requirements names; check the network (pip reads PIP_INDEX_URL and PIP_PROXY)" \
      "and run it again"
  cp "$requirements" "$folder/requirements.txt"
}
