#!/usr/bin/env bash
# A wheel of the Python module from a build folder. usage: python/wheel.sh BUILD OUT [PYTHON]
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
python=${3:-/usr/bin/python3}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cmake --install "$build" --component python --prefix "$stage/prefix" >/dev/null
mv "$stage"/prefix/lib/python*/site-packages/cdt "$stage/cdt"
rm -r "$stage/prefix"
cp "$source/pyproject.toml" "$source/setup.py" "$stage/"
rm -f "$out"/cdt-*.whl
cd "$stage"
env -u PYTHONPATH "$python" -m build --wheel --no-isolation --outdir "$out" . >"$stage/log" 2>&1 || { cat "$stage/log" >&2; exit 1; }
ls "$out"/cdt-*.whl
