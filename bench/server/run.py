#!/usr/bin/env python3
"""Measures the embedded API server: start, idle memory, creates a second, and watchers that see every event.

usage: bench/server/run.py [BINARY]     (default: target/release/kubewright; build it with `cargo build --release`)
Plain HTTP on loopback; creates are driven by wrk (Debian's package) with 8 connections. Everything is bounded in time.
"""
import asyncio, json, re, shutil, subprocess, sys, tempfile, time, urllib.request

BINARY = sys.argv[1] if len(sys.argv) > 1 else "target/release/kubewright"
CREATES = """
local made = 0
local threads = 0
function setup(thread) thread:set("id", threads); threads = threads + 1 end
request = function()
  made = made + 1
  local name = "cm-" .. id .. "-" .. made
  return wrk.format("POST", "/api/v1/namespaces/default/configmaps", {["Content-Type"] = "application/json"},
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"' .. name .. '"},"data":{"a":"b"}}')
end
"""


def start():
    began = time.time()
    server = subprocess.Popen([BINARY, "apiserver", "--http", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    url = next(line.split()[1] for line in server.stdout if line.startswith("ready"))
    urllib.request.urlopen(url + "/api/v1/namespaces").read()
    return server, url, (time.time() - began) * 1000


def resident(server):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{server.pid}/status").read()).group(1)) / 1024


def creates(url):
    if not shutil.which("wrk"):
        print("SKIPPED: creates, because wrk is not installed (apt-get install wrk)")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(CREATES)
        script.flush()
        out = subprocess.run(["wrk", "-t2", "-c8", "-d5s", "-s", script.name, url], capture_output=True, text=True).stdout
    print("creates a second, 8 clients:", re.search(r"Requests/sec:\s+(\S+)", out).group(1))
    print("refused:", re.search(r"Non-2xx or 3xx responses: (\d+)", out).group(1) if "Non-2xx" in out else 0)


async def watchers(url, count=1000, events=200):
    host, port = url.split("//")[1].split(":")
    seen, ordered = [0] * count, [True] * count

    async def watch(index):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: x\r\n\r\n")
        rest, last = b"", 0
        while seen[index] < events:
            data = await reader.read(1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if b'"type":"ADDED"' in line and b'"watched-' in line:
                    version = int(re.search(rb'"resourceVersion":"(\d+)"', line).group(1))
                    ordered[index] &= version > last
                    last = version
                    seen[index] += 1
        writer.close()

    tasks = [asyncio.create_task(watch(index)) for index in range(count)]
    await asyncio.sleep(2)
    reader, writer = await asyncio.open_connection(host, int(port))
    for number in range(events):
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"watched-{number}"}}).encode()
        head = f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer.lower()).group(1)))
    await asyncio.wait_for(asyncio.gather(*tasks), 120)
    print(f"{count} watchers, events seen by each: {min(seen)} to {max(seen)} of {events}, in order: {all(ordered)}")


server, url, first = start()
print(f"start to first answer: {first:.1f} ms, idle: {resident(server):.1f} MiB")
creates(url)
server.terminate()
server.wait()
server, url, _ = start()
asyncio.run(watchers(url))
print(f"resident after that: {resident(server):.1f} MiB")
server.terminate()
sys.exit(server.wait())
