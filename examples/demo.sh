#!/usr/bin/env bash
# The main job from end to end: a table, a model that predicts new rows and its intervals; then the paper's: the analysis before training,
# fitting by three methods, a comparison.
# usage: examples/demo.sh BUILD_FOLDER OUTPUT_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
mkdir -p "$2"
cd "$2"

run() {  # title, command line as a user would type it (cdt is build/cdt)
  printf '\n\033[1m%s\033[0m\n\033[2m$ %s\033[0m\n' "$1" "$2"
  PATH="$build:$PATH" bash -c "$2"
}
field() { sed -n "s/^ *\"$2\": \([0-9.e+-]*\),\{0,1\}$/\1/p" "$1/run.json" | sed -n "${3:-1}p"; }

network="--target price --hidden 200,200"
run "1. A table of houses and their prices: numbers, text, missing values, noise" "cdt data make houses.csv --rows 600 --seed 1"
run "2. A model that predicts: rows held out choose it, and say what to expect of new ones" \
  "cdt train houses.csv --target price --out model --overwrite"
run "3. Prices for a table that the model has not seen, with bounds for nine rows of ten" \
  "cdt data make new.csv --rows 100 --seed 2 && cdt predict model new.csv --interval 0.9 --out prices.csv && head -n 4 prices.csv"
run "4. What can be said before a network is fitted to its training rows" "cdt analyze houses.csv $network"
run "5. Gradient descent, at a rate that is safe" \
  "cdt train houses.csv $network --goal fit --method gd --out gd --overwrite --no-analysis"
run "6. The paper's controlled descent, at the same rate" \
  "cdt train houses.csv $network --goal fit --method cdt --out cdt --overwrite --no-analysis"
run "7. Guarded controlled descent, which needs no rate" \
  "cdt train houses.csv $network --goal fit --method guarded --out guarded --overwrite --no-analysis"

printf '\n\033[1mSide by side\033[0m\n  %-10s %10s %7s %9s %14s %14s %16s\n' \
  method lr steps seconds "training mse" "validation mse" "price off by"
for method in gd cdt guarded; do
  printf '  %-10s %10.4g %7d %9.2f %14.2e %14.2e %16.0f\n' $method "$(field $method lr)" "$(field $method steps)" \
    "$(field $method seconds)" "$(field $method train_loss)" "$(field $method val_loss)" "$(field $method rmse 2)"
done
run "8. The same as a page with figures, for any browser" "cdt report gd cdt guarded --out methods.html"
printf '\nThe files of this tour are in %s; README.md says where to go from here.\n' "$PWD"
