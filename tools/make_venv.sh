#!/usr/bin/env bash
# Makes the virtual environment $VENV (default .venv) with Python 3.11 or newer and pip in it. A whole one is kept.
# $PYTHON names the interpreter; without it the first that fits is taken. $ACTIVE: the environment now active, if any.
# Called by the Makefile.
set -euo pipefail
venv=${VENV:-.venv}

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

if [ ! -e "$venv/.unfinished" ] && fits "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi
if [ -e "$venv" ]; then
    echo "$venv is not whole (an install was broken off): building it anew."
fi

# An active virtual environment may be this very one, or one that is going away: look past it.
if [ -n "${ACTIVE:-}" ]; then
    PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -vxF "$ACTIVE/bin" | paste -sd: -)
fi

python=
for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    if fits "$candidate"; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
    echo "error: ${PYTHON:-no python3.11, python3.12, python3.13 or python3 here} is not Python 3.11 or newer;" \
        "name one: make PYTHON=/path/to/python3.11" >&2
    exit 2
fi
python=$("$python" -c 'import sys; print(sys.executable)')

rm -rf "$venv"
echo "Making $venv with $("$python" --version) ($python)."
if "$python" -c 'import ensurepip, venv; ensurepip.version()' >/dev/null 2>&1; then
    "$python" -m venv "$venv"
elif "$python" -m virtualenv --version >/dev/null 2>&1; then
    "$python" -m virtualenv -q "$venv"
elif "$python" -m pip --version >/dev/null 2>&1; then
    # Debian without python3-venv. A folder of its own (--target) leaves the system's Python untouched, which is
    # what PEP 668 asks for.
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    "$python" -m pip install -qq --disable-pip-version-check -c constraints.txt --target "$scratch" virtualenv
    PYTHONPATH="$scratch" "$python" -m virtualenv -q "$venv"
else
    echo "error: $python has neither venv nor pip; on Debian: apt-get install python3-venv" >&2
    exit 2
fi
