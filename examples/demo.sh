#!/usr/bin/env bash
# A guided tour of the program: a network, its kernel, the analysis before training, the controller, controlled training.
# usage: examples/demo.sh BUILD_FOLDER OUTPUT_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
mkdir -p "$2"
cd "$2"

step() { printf '\n\033[1m%s\033[0m\n\033[2m$ %s\033[0m\n' "$1" "$2"; }
run() {  # title, command line as a user would type it (cdt is build/cdt)
  step "$1" "$2"
  PATH="$build:$PATH" bash -c "$2"
}

run "1. A small network and data, in which one input stands twice with different labels" "example_save_model ."
run "2. Its neural tangent kernel" "cdt kernel --model model.safetensors --inputs x.npy --out theta.npy"
run "3. What can be said before training: it finds the conflicting pair" \
  "cdt analyze --model model.safetensors --inputs x.npy --labels y.npy --lr 0.1 --json report.json"
run "4. The feedback gain, with its certificate" "cdt design --kernel theta.npy --lr 0.1 --p 0.1 --out gain.npy"
run "5. Training with it: one line of an ordinary LibTorch loop changes" "example_drop_in"
printf '\nThe files of this tour are in %s.\n' "$PWD"
