#!/usr/bin/env python3
"""Controllers of kubewright and of kube-rs over the same embedded server, turn by turn, each run in its own process.

usage: bench/controller/run.py [--reps N] [--seconds S] [--objects N]

Prints no-op reconciles a CPU second, the time from a write to its reconcile (over HTTP for both, and in memory), and the calls of
a storm of custom resources. Exits 1 if a goal is missed: five times kube-rs's reconciles, 1 ms at the 99th percentile in memory,
three calls for each object of the storm.
"""
import argparse, json, os, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))
OURS, KUBE = (os.path.join(TARGET, "release", name) for name in ("bench-controller", "kube-controller"))


def run(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--reps", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--objects", type=int, default=1000)
    arguments.add_argument("--storm", type=int, default=10_000)
    arguments = arguments.parse_args()
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "bench-controller"], cwd=os.path.join(HERE, ".."), check=True)
    server = subprocess.Popen([OURS, "serve", str(arguments.objects)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url, missed = server.stdout.readline().strip(), []
    try:
        rates, times = {}, {}
        for _ in range(arguments.reps):
            for name, program in (("kubewright", OURS), ("kube-rs", KUBE)):
                noop = run(program, "noop", url, str(arguments.seconds))
                rates.setdefault(name, []).append(noop["reconciles"] / noop["cpu_s"])
                times.setdefault(name, []).append(run(program, "latency", url))
            times.setdefault("kubewright in memory", []).append(run(OURS, "latency"))
    finally:
        server.stdin.close()
        server.wait()
    print("| | no-op reconciles a CPU second | ratio | write to reconcile, median | 99 % |")
    print("|---|---:|---:|---:|---:|")
    base = statistics.median(rates["kube-rs"])
    for name, runs in times.items():
        rate = statistics.median(rates[name]) if name in rates else None
        shown = f"{rate:,.0f} | {rate / base:.1f}" if rate else " | "
        median, p99 = (statistics.median(run[what] for run in runs) for what in ("median_us", "p99_us"))
        print(f"| {name} | {shown} | {median:.0f} µs | {p99:.0f} µs |")
        if name == "kubewright" and rate < 5 * base:
            missed.append("five times kube-rs's no-op reconciles")
        if name == "kubewright in memory" and p99 >= 1000:
            missed.append("1 ms from a write to its reconcile")
    storm = run(OURS, "storm", str(arguments.storm))
    print(f"\nA storm of {storm['objects']:,} custom resources: {storm['calls_each']} calls each, {storm['wall_s']} s, {storm['cpu_s']} s of CPU, server included.")
    if storm["calls_each"] > 3:
        missed.append("three calls for each object of a storm")
    for goal in missed:
        print(f"MISSED: {goal}", file=sys.stderr)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
