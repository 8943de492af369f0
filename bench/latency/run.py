#!/usr/bin/env python3
"""A small get over loopback TLS, by kubewright and by client-go from the same server, turn by turn.

usage: bench/latency/run.py [--kubeconfig FILE] [--namespace NAME] [--rounds N] [--reads N]

Without --kubeconfig it builds and starts `kubewright apiserver`. Needs Go on PATH and GOCODE, the GOPATH that holds the
sources of client-go (see ../README.md); without them only our own figures are printed. Exits 1 if our median is above
client-go's.
"""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))


def build():
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "bench-latency"], cwd=os.path.join(HERE, ".."), check=True)
    contestants = {"kubewright": os.path.join(TARGET, "release", "bench-latency")}
    if not shutil.which("go") or "GOCODE" not in os.environ:
        print("SKIPPED client-go: no Go on PATH, or GOCODE does not say where its sources are", file=sys.stderr)
        return contestants
    contestants["client-go"] = os.path.join(TARGET, "release", "bench-latency-client-go")
    go = dict(os.environ, GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS="", GOPATH=os.environ["GOCODE"])
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", contestants["client-go"], "."]
    subprocess.run(command, cwd=os.path.join(HERE, "client-go"), env=go, check=True)
    return contestants


def start_server(folder):
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "kubewright-cli"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    kubeconfig = os.path.join(folder, "kubeconfig")
    command = [os.path.join(target, "release", "kubewright"), "apiserver", "--listen", "127.0.0.1:0", "--write-kubeconfig", kubeconfig]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline().startswith("ready"), "the server did not start"
    return server, kubeconfig


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kubeconfig")
    arguments.add_argument("--namespace", default="default")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--reads", type=int, default=3000)
    arguments = arguments.parse_args()
    contestants, runs, server = build(), {}, None
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = arguments.kubeconfig
        if not kubeconfig:
            server, kubeconfig = start_server(folder)
        try:
            for round in range(arguments.rounds):
                for encoding in ("json", "protobuf"):
                    # Who goes first changes each round, so that neither has the quieter moments.
                    turns = list(contestants.items())[:: 1 if round % 2 else -1]
                    for name, program in turns:
                        command = [program, kubeconfig, arguments.namespace, encoding, str(arguments.reads)]
                        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                        runs.setdefault((encoding, name), []).append(json.loads(out))
        finally:
            if server:
                server.terminate()
                server.wait()
    median = lambda key, what: statistics.median(run[what] for run in runs[key])
    print("| get of a small ConfigMap, µs | p50 | best p50 | p90 | p99 |")
    print("|---|---:|---:|---:|---:|")
    for key in sorted(runs):
        best = min(run["p50"] for run in runs[key])
        print(f"| {key[0]}, {key[1]} | {median(key, 'p50'):.0f} | {best:.0f} | {median(key, 'p90'):.0f} | {median(key, 'p99'):.0f} |")
    missed = False
    for encoding in ("json", "protobuf"):
        if (encoding, "client-go") in runs:
            ours, theirs = median((encoding, "kubewright"), "p50"), median((encoding, "client-go"), "p50")
            missed |= ours > theirs
            print(f"{'MISSED' if ours > theirs else 'holds'}: {encoding}: p50 {ours:.0f} µs, client-go's {theirs:.0f} µs ({ours / theirs:.2f})")
    sys.exit(missed)


main()
