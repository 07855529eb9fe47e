# Sourced by the other shell scripts: a virtual environment with this checkout, and the checks of the project as steps.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

# prepare_environment EXTRAS: .venv with this checkout and the named extras, as verify,dev. Sets $python.
prepare_environment() {
    local extras=$1 stamp
    python=$root/.venv/bin/python
    make_environment .venv
    stamp=.venv/installed-$(cat setup.cfg pyproject.toml | sha256sum | cut -c1-16)-$extras
    if [ ! -e "$stamp" ]; then
        "$python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]" || exit 2
        touch "$stamp"
    fi
}

# make_environment FOLDER: an empty virtual environment, where there is none yet.
make_environment() {
    if [ ! -x "$1/bin/python" ]; then
        echo "Setting up a Python environment in $1 (once) ..." >&2
        if ! python3 -m venv "$1" >&2; then
            rm -rf "$1"
            echo "python3 cannot make virtual environments here: install Debian's python3-venv and run this again." >&2
            exit 2
        fi
    fi
}

check_lint() { "$python" -m ruff check .; }
check_format() { "$python" -m ruff format --check .; }
# For each system the package is installed on: what one lacks is an error there.
types_for() { "$python" -m mypy --platform "$1" --cache-dir ".mypy_cache/$1"; }
check_types() { types_for linux && types_for darwin && types_for win32; }
check_own_types() { types_for "$("$python" -c 'import sys; print(sys.platform)')"; }
check_docs() { "$python" -m sphinx --quiet --fail-on-warning --keep-going -c docs -b html . build/docs; }
check_tests() { "$python" -m pytest --numprocesses auto; }

# The rooms a change most often touches, without tests that take seconds each: no compiler, emulator or browser.
quick_tests=(tests/model tests/memory tests/ops tests/cost tests/search tests/report tests/project
    tests/zoo tests/test_api.py)
check_quick_tests() { "$python" -m pytest --numprocesses auto --exitfirst -m "not slow" "${quick_tests[@]}"; }

step_times=()
step_running=
beside=

# step NAME COMMAND ...: says what runs, runs it, notes how long it took; a command that fails ends the script.
step() {
    step_running=$1
    shift
    local start=$SECONDS
    printf '\n== %s\n' "$step_running"
    "$@"
    step_times+=("$(printf '%4d s  %s' $((SECONDS - start)) "$step_running")")
    step_running=
}

# alongside NAME COMMAND ...: runs in the background, because the step that follows leaves a core free.
alongside() {
    local name=$1
    shift
    mkdir -p build
    "$@" > "build/$name.log" 2>&1 &
    beside=$!
}

# finish NAME: waits for what runs alongside, says what it said, and fails if it did.
finish() {
    local code=0
    wait "$beside" || code=$?
    beside=
    cat "build/$1.log"
    return "$code"
}

# report_steps: for a trap on EXIT, what ran, for how long, and where it ended.
report_steps() {
    local code=$?
    [ -z "$beside" ] || kill "$beside" 2>/dev/null || true
    printf '\n== times\n'
    [ ${#step_times[@]} -eq 0 ] || printf '%s\n' "${step_times[@]}"
    printf '%4d s  in all\n' "$SECONDS"
    [ -z "$step_running" ] || printf 'failed: %s\n' "$step_running"
    return "$code"
}
