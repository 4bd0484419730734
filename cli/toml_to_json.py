#!/usr/bin/env python3
"""An experiment's TOML file as JSON, for builds without toml++."""
import json
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    print(json.dumps(tomllib.load(file), ensure_ascii=False))
