#!/usr/bin/env python3
"""Work queues of kubewright and of client-go, the same cases turn by turn, each in its own process.

usage: bench/workqueue/run.py [--reps N] [--only PART-OF-A-CASE]

Needs Go on PATH and GOCODE, the GOPATH that holds the sources of client-go (see ../README.md); without them only our own
figures are printed. Exits 1 if a goal is missed: three times the adds per CPU second, half the memory and CPU in flight.
"""
import argparse, json, os, shutil, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))
ADDS = 1_000_000
# Case, and the goal: how many times less CPU than Go's, how many times less memory.
CASES = {"1/1 distinct": (3, None), "4/4 distinct": (3, None), "1/1 hot": (3, None), "4/4 hot": (3, None),
         "64/64 distinct": (3, None), "64/64 hot": (3, None), "in order": (None, None),
         "delayed": (2, 2), "failures": (2, 2)}


def build():
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "bench-workqueue"], cwd=os.path.join(HERE, ".."), check=True)
    contestants = {"kubewright": os.path.join(TARGET, "release", "bench-workqueue")}
    if not shutil.which("go") or "GOCODE" not in os.environ:
        print("SKIPPED client-go: no Go on PATH, or GOCODE does not say where its sources are", file=sys.stderr)
        return contestants
    contestants["client-go"] = os.path.join(TARGET, "release", "bench-workqueue-client-go")
    go = dict(os.environ, GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS="", GOPATH=os.environ["GOCODE"])
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", contestants["client-go"], "."]
    subprocess.run(command, cwd=os.path.join(HERE, "client-go"), env=go, check=True)
    return contestants


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--reps", type=int, default=5)
    arguments.add_argument("--only", default="")
    arguments = arguments.parse_args()
    contestants, runs, missed = build(), {}, []
    for _ in range(arguments.reps):
        for case in CASES:
            for name, program in contestants.items():
                if arguments.only in case:
                    out = subprocess.run([program, case], check=True, capture_output=True, text=True).stdout
                    run = json.loads(out)
                    # Of hot keys, most adds find the key in line already, and how many do depends on who runs when.
                    run["cpu_ns"] = run["cpu_s"] * 1e9 / (ADDS + 2 * run["delivered"])
                    runs.setdefault((case, name), []).append(run)
    median = lambda case, name, what: statistics.median(run[what] for run in runs[case, name])
    print("| case | kubewright, CPU ns a call | client-go | ratio | spread | kubewright, bytes a key | client-go | ratio |")
    print("|---|---:|---:|---:|---|---:|---:|---:|")
    for case, goals in CASES.items():
        if (case, "kubewright") not in runs:
            continue
        row = []
        for what, scale, goal in (("cpu_ns", 1, goals[0]), ("bytes", 1 / ADDS, goals[1])):
            ours = median(case, "kubewright", what) * scale
            if "client-go" not in contestants or (what == "bytes" and not ours):
                row += [f"{ours:.0f}" if ours else "", "", ""] + ([""] if what == "cpu_ns" else [])
                continue
            theirs = median(case, "client-go", what) * scale
            each = [b[what] / a[what] for a, b in zip(runs[case, "kubewright"], runs[case, "client-go"]) if a[what]]
            row += [f"{ours:.0f}", f"{theirs:.0f}", f"{theirs / ours:.1f}"]
            row += [f"{min(each):.1f}–{max(each):.1f}"] if what == "cpu_ns" else []
            if goal and theirs / ours < goal:
                missed.append(f"{case}: {what} {theirs / ours:.2f} times less than client-go, wanted {goal}")
        print(f"| {case} | " + " | ".join(row) + " |")
    for line in missed:
        print("MISSED", line)
    sys.exit(bool(missed))


main()
