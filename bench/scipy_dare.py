"""Times SciPy's solve_discrete_are on A = I - S, B = S with weights Q and R, and compares its gain with ours.

usage: scipy_dare.py S.npy Q.npy R.npy K.npy     (prints one JSON object)
"""
import json
import sys
import time

import numpy as np
import scipy
import scipy.linalg

S, Q, R, K = (np.load(path) for path in sys.argv[1:5])
A = np.eye(len(S)) - S
seconds = []
for _ in range(2):
    start = time.perf_counter()
    P = scipy.linalg.solve_discrete_are(A, S, Q, R)
    gain = np.linalg.solve(R + S.T @ P @ S, S.T @ P @ A)
    seconds.append(time.perf_counter() - start)
residual = np.linalg.norm(P - Q - A.T @ P @ (A - S @ gain)) / np.linalg.norm(P)
print(json.dumps({"scipy": scipy.__version__, "seconds": min(seconds), "residual": residual,
                  "gain_gap": np.linalg.norm(gain - K) / np.linalg.norm(K)}))
