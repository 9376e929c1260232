"""What the broker asks a Docker Engine for: through a proxy that writes down every request.

Never archive, copy or exec: files and programs go through the agent. And nothing is left.
"""
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading

SCB = sys.argv[1]
ENGINE = os.environ["DOCKER_HOST"][len("unix://"):]
ALLOWED = re.compile(
    r"^(GET /version|GET /v1\.\d+/(info|images/[^/ ]+/json|containers/scb-x-[0-9a-f]{32}/json)"
    r"|POST /v1\.\d+/containers/create\?name=scb-x-[0-9a-f]{32}"
    r"|POST /v1\.\d+/containers/scb-x-[0-9a-f]{32}/(attach\?stream=1&stdin=1&stdout=1&stderr=1|start)"
    r"|DELETE /v1\.\d+/containers/scb-x-[0-9a-f]{32}\?force=1&v=1) HTTP/1\.1$")
requests = []
n = 0


def ok(good, name, detail=""):
    global n
    n += 1
    print(f"{'ok' if good else 'not ok'} {n} - {name}")
    if not good and detail:
        print("\n".join("# " + line for line in detail.splitlines()))
    return good


def pump(source, target, note):
    first = True
    while True:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if note and (first or b" HTTP/1.1\r\n" in data):
            # A second one on a connection that is no stream would be seen here, too.
            requests.extend(re.findall(r"[A-Z]+ /\S* HTTP/1\.1", data.decode("latin-1")))
        first = False
        try:
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
        except OSError:
            return


def serve(listener):
    while True:
        client, _ = listener.accept()
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(ENGINE)
        threading.Thread(target=pump, args=(client, engine, True), daemon=True).start()
        threading.Thread(target=pump, args=(engine, client, False), daemon=True).start()


def containers():
    out = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


with tempfile.TemporaryDirectory(prefix="scb-proxy-") as home:
    os.chmod(home, 0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(home + "/engine.sock")
    listener.listen(16)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    before = containers()
    os.mkdir(home + "/in")
    os.chmod(home + "/in", 0o755)
    os.chmod(home, 0o711)
    with open(home + "/in/data.csv", "w") as f:
        f.write("a\n41\n")
    env = dict(os.environ, DOCKER_HOST="unix://" + home + "/engine.sock", BROKER_PROVIDER="docker",
               HOME=home, XDG_STATE_HOME=home + "/state", XDG_RUNTIME_DIR=home + "/run")
    os.mkdir(home + "/run", 0o700)
    run = subprocess.run([SCB, "run", "--solo", "--mount", f"in={home}/in", "-c",
                          "open('out.txt', 'w').write('x')\n"
                          "print(int(open('/mnt/in/data.csv').read().split()[1]) + 1)"],
                         env=env, capture_output=True, text=True, timeout=300)
    ok(run.returncode == 0 and run.stdout.strip() == "42", "code runs through the proxied engine",
       f"exit {run.returncode}\n{run.stdout}\n{run.stderr}")
    odd = [r for r in requests if not ALLOWED.match(r)]
    ok(len(requests) >= 7 and not odd, "the engine is asked for nothing but what the specification says",
       "\n".join(odd or requests))
    ok(not [r for r in requests if re.search(r"/(archive|copy|exec)\b", r)], "never archive, copy or exec")
    ok(containers() == before, "no container is left")

    env["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
    run = subprocess.run([SCB, "run", "--solo", "-c", "1"], env=env, capture_output=True, text=True, timeout=60)
    ok(run.returncode != 0 and "apt install docker.io" in run.stderr, "no engine: says what to do", run.stderr)
    env.update(DOCKER_HOST="unix://" + home + "/engine.sock", BROKER_IMAGE="no-such-image:latest")
    run = subprocess.run([SCB, "run", "--solo", "-c", "1"], env=env, capture_output=True, text=True, timeout=60)
    ok(run.returncode != 0 and "scb image build" in run.stderr, "no image: says how to get it", run.stderr)
print(f"1..{n}")
