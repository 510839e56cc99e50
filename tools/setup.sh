#!/bin/sh
# Finds a Python that can make environments and hands over to tools/bootstrap.py with the arguments given.
# $PYTHON decides when it is set; otherwise the first of the names below that really runs and is new enough.
# (A version manager may put python3.12 on PATH that only says "command not found", so each one is tried.)
set -eu

candidates="python3.14 python3.13 python3.12 python3.11 python3 python"
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
makes_environments='import ensurepip, venv'

runs() {
    "$1" -c "$2" </dev/null >/dev/null 2>&1
}

complain() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null 2>&1 || complain "PYTHON=$PYTHON is not a command. Give the path of a Python 3.11 or newer."
    runs "$PYTHON" 'pass' || complain "PYTHON=$PYTHON does not run. Give the path of a Python 3.11 or newer."
    runs "$PYTHON" "$new_enough" || complain "PYTHON=$PYTHON is $("$PYTHON" -V 2>&1), but dynograd needs 3.11 or newer."
    candidates=
    chosen=$PYTHON
fi

without_ensurepip=
for candidate in $candidates; do
    runs "$candidate" "$new_enough" || continue
    if runs "$candidate" "$makes_environments"; then
        chosen=$candidate
        break
    fi
    without_ensurepip=${without_ensurepip:-$candidate}
done

chosen=${chosen:-$without_ensurepip}
[ -n "$chosen" ] || complain \
    "no Python 3.11 or newer found (tried $candidates)." \
    "Install one from https://www.python.org, or name yours: make PYTHON=/path/to/python3.12 ..."

runs "$chosen" "$makes_environments" || complain \
    "$chosen ($("$chosen" -V 2>&1)) cannot make environments: its modules venv and ensurepip are not installed." \
    "On Debian and Ubuntu they are in a package of their own: apt install python3-venv." \
    "Or name another Python: make PYTHON=/path/to/python3.12 ..."

exec "$chosen" "${0%/*}/bootstrap.py" "$@"
