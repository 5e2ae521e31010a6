#!/usr/bin/env bash
# The whole way of a repair, on copies of the three examples: check, dry run, proof.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=.demo
rm -rf "$work"
mkdir "$work"
cp examples/*.py "$work"
cd "$work"

show() {
    printf '\n$ %s\n' "$*"
    status=0
    "$@" || status=$?
    # 1 is an answer (problems found, changes to make); anything above is a failure
    if [ "$status" -gt 1 ]; then exit "$status"; fi
}

for example in vae_decoder.py sequence_buffers.py routing.py; do
    printf '\n==== %s ====\n' "$example"
    show tapefix check "$example"
    show tapefix apply --dry-run --unsafe-fixes "$example"
    show tapefix apply --unsafe-fixes --verify "$example"
    if [ "$status" -ne 0 ]; then
        printf 'demo: %s was not repaired\n' "$example" >&2
        exit 1
    fi
done
