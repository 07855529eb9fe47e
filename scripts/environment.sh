# Sourced by scripts/demo and scripts/test: a virtual environment in .venv with this checkout and the named extras.
# Usage: prepare_environment verify,optimal,dev   (sets $python)

prepare_environment() {
    local extras=$1 root stamp
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    cd "$root" || exit 1
    python=$root/.venv/bin/python
    if [ ! -x "$python" ]; then
        echo "Setting up a Python environment in .venv (once) ..." >&2
        if ! python3 -m venv .venv >&2; then
            rm -rf .venv
            echo "python3 cannot make virtual environments here: install Debian's python3-venv and run this again." >&2
            exit 2
        fi
    fi
    stamp=.venv/installed-$(cat setup.cfg pyproject.toml | sha256sum | cut -c1-16)-$extras
    if [ ! -e "$stamp" ]; then
        "$python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]" || exit 2
        touch "$stamp"
    fi
}
