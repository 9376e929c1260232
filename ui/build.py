#!/usr/bin/python3
"""build.py app|host MODE VERSION OUT_HTML OUT_C OUT_H: a page as one HTML file, and that file as a C array:
the App, or the broker's own host page (with gzip, as browsers take it).

What it is made with (esbuild, preact) comes from npm, once, as package-lock.json names it, into
ui/node_modules; after that nothing is asked of the network. MODE says what happens where that cannot
be had: `enabled` fails; `auto` warns and makes an empty array, with which scb works and its dashboards
are text, and tries again at the next build; `disabled` does not try.
"""
import base64
import fcntl
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.join(HERE, "node_modules")
NODE_MIN = 18
WHAT = {"app": "the dashboard's page", "host": "its own page at /"}


class Missing(Exception):
    pass


def fetch():
    """node_modules as the lock file has it. Builds in several directories wait for each other."""
    lock = os.path.join(HERE, "package-lock.json")
    stamp = os.path.join(MODULES, ".installed")
    os.makedirs(MODULES, exist_ok=True)
    with open(lock, "rb") as f:
        wanted = f.read()
    guard = os.open(HERE, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        try:
            with open(stamp, "rb") as f:
                if f.read() == wanted:
                    return
        except OSError:
            pass
        if not shutil.which("npm"):
            raise Missing("npm is not installed")
        made = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"], cwd=HERE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if made.returncode:
            raise Missing("npm could not fetch what the App is made with:\n" + made.stdout.decode("utf-8", "replace")[-2000:])
        with open(stamp, "wb") as f:
            f.write(wanted)
    finally:
        os.close(guard)


def page(which, version, out):
    node = shutil.which("node")
    if not node:
        raise Missing("node is not installed")
    major = int(subprocess.run([node, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()[1:].split(".")[0])
    if major < NODE_MIN:
        raise Missing(f"the App needs Node {NODE_MIN}, this is {major}")
    fetch()
    subprocess.run([node, os.path.join(HERE, "host" if which == "host" else "", "build.mjs"), out, version], check=True)


def c_array(data):
    return ",\n".join(",".join(map(str, data[i:i + 40])) for i in range(0, len(data), 40)) or "0"


def c_app(html, out_c, out_h):
    with open(out_c, "w", encoding="ascii") as f:
        f.write('#include "ui_app.h"\n\nconst unsigned char ui_app_html[] = {\n' + c_array(html) + "};\n"
                f"const size_t ui_app_size = {len(html)};\n")
    with open(out_h, "w", encoding="ascii") as f:
        f.write("/* ui_app.h: the App, one HTML file; ui_app_size is 0 where scb was built without it. */\n#pragma once\n\n"
                "#include <stddef.h>\n\nextern const unsigned char ui_app_html[];\nextern const size_t ui_app_size;\n")


def source_hash(html, tag):
    """What the page's policy allows to run: the hash of its one script, or style."""
    text = html.partition(f"<{tag}>".encode())[2].partition(f"</{tag}>".encode())[0]
    return "sha256-" + base64.b64encode(hashlib.sha256(text).digest()).decode()


def c_host(html, out_c, out_h):
    data = gzip.compress(html, 9, mtime=0) if html else b""
    with open(os.path.join(HERE, "host", "sandbox.html"), encoding="utf-8") as f:
        sandbox = json.dumps(f.read(), ensure_ascii=True)
    with open(out_c, "w", encoding="ascii") as f:
        f.write('#include "ui_host.h"\n\nconst unsigned char ui_host_gz[] = {\n' + c_array(data) + "};\n"
                f"const size_t ui_host_size = {len(data)};\nconst char ui_sandbox_html[] = {sandbox};\n")
    with open(out_h, "w", encoding="ascii") as f:
        f.write("/* ui_host.h: the host page, one HTML file under gzip; ui_host_size is 0 where scb was built without it.\n"
                " * What its policy names; and the frame that Apps stand in. */\n#pragma once\n\n"
                "#include <stddef.h>\n\nextern const unsigned char ui_host_gz[];\nextern const size_t ui_host_size;\n"
                "extern const char ui_sandbox_html[];\n"
                f'#define UI_HOST_SCRIPT "{source_hash(html, "script")}"\n#define UI_HOST_STYLE "{source_hash(html, "style")}"\n')


def main():
    which, mode, version, out_html, out_c, out_h = sys.argv[1:7]
    outputs = out_html, out_c, out_h
    whole = mode != "auto"
    try:
        if mode == "disabled":
            raise Missing("the option ui is disabled")
        page(which, version, out_html)
        whole = True
    except Missing as why:
        if mode == "enabled":
            sys.exit(f"ui: {why}")
        print(f"ui: scb is built without {WHAT[which]}: {why}", file=sys.stderr)
        with open(out_html, "wb"):
            pass
    with open(out_html, "rb") as f:
        (c_host if which == "host" else c_app)(f.read(), out_c, out_h)
    if not whole:
        for path in outputs:  # older than what they are made of, so the next build tries again
            os.utime(path, (0, 0))


main()
