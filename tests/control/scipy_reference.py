#!/usr/bin/env python3
"""Prints the SciPy values that stand in riccati_test.cpp (needs python3-scipy; the tests do not).

usage: python3 tests/control/scipy_reference.py
"""
import numpy as np
import scipy.linalg


def literal(matrix):
    return "{" + ", ".join("{" + ", ".join(repr(float(v)) for v in row) + "}" for row in matrix) + "}"


def gain(A, B, P, R):
    return np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)


# A general problem, two inputs.
A = np.array([[0.9, 0.2, 0.0], [-0.1, 1.1, 0.3], [0.0, 0.4, 0.5]])
B = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 0.2]])
Q = np.diag([1.0, 2.0, 0.5])
R = np.array([[0.5, 0.1], [0.1, 0.3]])
print("general P:", literal(scipy.linalg.solve_discrete_are(A, B, Q, R)))

# The training problem in error coordinates, one mode beyond gradient descent's stability, then with weights per sample.
S = np.array([[1.9, 0.6, 0.1], [0.6, 0.8, -0.2], [0.1, -0.2, 0.3]])
A = np.eye(3) - S
for name, Q in (("identity", np.eye(3)), ("weighted", np.diag([1.0, 3.0, 0.2]))):
    R = 0.1 * np.eye(3)
    P = scipy.linalg.solve_discrete_are(A, S, Q, R)
    print(f"training K, {name} Q:", literal(gain(A, S, P, R)))
