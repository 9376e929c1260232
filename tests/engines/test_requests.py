"""What the broker asks a Docker Engine for: through a proxy that writes down every request.

Never archive, copy or exec: files and programs go through the agent. And nothing is left.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

SCB = sys.argv[1]
os.environ["SCB_BUILD"] = os.path.dirname(os.path.abspath(SCB))
sys.dont_write_bytecode = True
import leftovers  # noqa: E402

ENGINE = os.environ["DOCKER_HOST"][len("unix://"):]
ALLOWED = re.compile(
    r"^(GET /(_ping|version)|GET /v1\.\d+/(info|images/[^/ ]+/json|containers/scb-x-[0-9a-f]{32}/json)"
    r"|POST /v1\.\d+/containers/create\?name=scb-x-[0-9a-f]{32}"
    r"|POST /v1\.\d+/containers/scb-x-[0-9a-f]{32}/(attach\?stream=1(&stdin=1)?&stdout=1&stderr=1|start)"
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

    def refused(what, words, command=("run", "--solo", "-c", "1"), prefix=(), **more):
        """What it says where no sandbox can be made, in a call and in doctor."""
        e = {k: v for k, v in {**env, **more}.items() if v is not None}
        run = subprocess.run([*prefix, SCB, *command], env=e, capture_output=True, text=True, timeout=120)
        doctor = subprocess.run([*prefix, SCB, "doctor"], env=e, capture_output=True, text=True, timeout=120)
        said = " ".join(doctor.stdout.split())
        ok(run.returncode != 0 and all(w in run.stderr and w in said for w in words), what,
           f"exit {run.returncode}\n{run.stderr}\n{doctor.stdout}")

    refused("no engine: says what to do", ["apt install docker.io"], DOCKER_HOST="unix:///nonexistent/docker.sock")
    refused("no image: says how to get it", ["scb image build", "no-such-image"], BROKER_IMAGE="no-such-image:latest")
    refused("no such runtime: says where it is registered", ["no-such-runtime", "daemon.json"], BROKER_RUNTIME="no-such-runtime")
    refused("no address: says what one is", ["unix:///PATH", "tcp://HOST:PORT"], DOCKER_HOST="ssh://host")
    down = socket.socket(socket.AF_UNIX)
    down.bind(home + "/down.sock")
    down.listen()
    down.close()
    refused("an engine that does not run: says how to start it", ["systemctl start docker"],
            DOCKER_HOST="unix://" + home + "/down.sock")
    # Everything that the program needs is found by its own path, which an ordinary user may not enter.
    user = tempfile.mkdtemp(prefix="scb-user-")
    for part in ("scb", "scb-agent"):
        shutil.copy2(os.path.join(os.path.dirname(os.path.abspath(SCB)), part), user)
    os.chmod(user, 0o755)
    os.mkdir(user + "/home", 0o700)
    os.chown(user + "/home", 31234, 31234)
    os.chmod(home + "/engine.sock", 0o600)
    scb, SCB = SCB, user + "/scb"
    refused("a socket of others: says which group is missing", ["permission denied", "usermod -aG docker"],
            prefix=("setpriv", "--reuid=31234", "--regid=31234", "--clear-groups", "--inh-caps=-all"),
            HOME=user + "/home", XDG_STATE_HOME=user + "/home", XDG_RUNTIME_DIR=user + "/home")
    SCB = scb
    shutil.rmtree(user)

    # By TLS: the engine knows its clients by certificates, and they know it.
    tcp, certs = os.environ["SCB_DOCKERD_TCP"], os.environ["SCB_DOCKERD_CERTS"]
    env.update(DOCKER_HOST=tcp, DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=certs)
    for host in (tcp, tcp.replace("127.0.0.1", "localhost")):
        run = subprocess.run([SCB, "run", "--solo", "-c", "import os; os.write(1, b'x' * 3000000); print(6 * 7)"],
                             env={**env, "DOCKER_HOST": host}, capture_output=True, text=True, timeout=300)
        ok(run.returncode == 0 and run.stdout.strip().endswith("42"), f"code runs through {host.split(':')[1]} by TLS",
           f"exit {run.returncode}\n{run.stdout[-1000:]}\n{run.stderr}")
    refused("a certificate for another name", ["no TLS", "mismatch"], DOCKER_HOST=tcp.replace("127.0.0.1", "127.1"))
    refused("certificates of another authority", ["no TLS", "certificate"], DOCKER_CERT_PATH=certs + "/other")
    mixed = home + "/mixed"
    shutil.copytree(certs, mixed)
    for name in ("cert.pem", "key.pem"):
        shutil.copy2(certs + "/other/" + name, mixed)
    refused("a client that the engine does not know", ["no TLS"], DOCKER_CERT_PATH=mixed)
    for name in ("cert.pem", "key.pem"):
        os.unlink(mixed + "/" + name)
    refused("a client without a certificate", ["no TLS"], DOCKER_CERT_PATH=mixed)
    refused("no certificates", ["no TLS", "ca.pem"], DOCKER_CERT_PATH=home + "/nowhere")
    refused("an engine that wants TLS, and is not asked by it", ["wants TLS", "DOCKER_TLS_VERIFY=1"], DOCKER_TLS_VERIFY=None)
    refused("an engine elsewhere, without TLS", ["DOCKER_TLS_VERIFY=1"], DOCKER_HOST="tcp://192.0.2.1:2375", DOCKER_TLS_VERIFY=None)
    os.chmod(certs + "/key.pem", 0o644)
    refused("a key that others can read", ["chmod 600"])
    os.chmod(certs + "/key.pem", 0o600)
    ok(containers() == before, "no container is left of all this")

os.environ.pop("DOCKER_TLS_VERIFY", None)
leftovers.run(ok)
print(f"1..{n}")
