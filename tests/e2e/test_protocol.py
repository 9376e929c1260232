#!/usr/bin/python3
"""MCP over stdio: both eras, lists, schemas, cancellation, progress, concurrency."""
import json
import re
import time
import unittest

import harness
from harness import Case, until
from mcpclient import LEGACY, MODERN

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
TOOLS = ["run_code", "run_command", "job", "files", "present_output", "data_dashboard", "dashboard_event",
         "session"]


def schema_faults(schema, where, faults):
    """What clients are known to choke on (Anthropic, Gemini, the official SDKs)."""
    for word in ("$ref", "$defs", "oneOf", "anyOf", "allOf", "not", "if", "const", "patternProperties"):
        if word in schema:
            faults.append(f"{where}: {word}")
    kind = schema.get("type")
    if kind is not None and not isinstance(kind, str):
        faults.append(f"{where}: type is a list")
    if kind == "array" and "items" not in schema:
        faults.append(f"{where}: an array without items")
    for name, below in schema.get("properties", {}).items():
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) or name.startswith("_"):
            faults.append(f"{where}.{name}: name")
        schema_faults(below, f"{where}.{name}", faults)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema_faults(schema[key], f"{where}.{key}", faults)


def mismatches(value, schema, where="$"):
    """Where value is not what the schema says: the part of JSON Schema that our schemas use."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    kind = schema.get("type")
    found = []
    if kind and (not isinstance(value, kinds[kind]) or isinstance(value, bool) != (kind == "boolean")):
        return [f"{where}: {value!r} is no {kind}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if kind == "object":
        found += [f"{where}: no {name}" for name in schema.get("required", ()) if name not in value]
        for name, member in value.items():
            below = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            if below is False:
                found.append(f"{where}: unknown member {name}")
            elif isinstance(below, dict):
                found += mismatches(member, below, f"{where}.{name}")
    if kind == "array":
        for i, item in enumerate(value):
            found += mismatches(item, schema.get("items", {}), f"{where}[{i}]")
    return found


class Negotiation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = harness.Place()

    def setUp(self):
        self.client = self.place.serve()

    def tearDown(self):
        self.client.close()
        self.assertEqual([], self.client.faults)
        self.assertEqual(0, self.client.proc.returncode)

    def explain(self):
        return self.client.explain()

    def test_versions(self):
        """each legacy version is echoed"""
        for version in LEGACY:
            result = self.client.initialize(version)
            self.assertEqual(version, result["protocolVersion"])
            self.assertEqual("scb", result["serverInfo"]["name"])
            self.assertTrue(result["serverInfo"]["version"])
            self.assertIn("tools", result["capabilities"])
            self.assertIn("resources", result["capabilities"])

    def test_unknown_versions(self):
        """an unknown version, and the modern one in initialize, are answered with the newest legacy one"""
        for version in ("1999-01-01", "2099-01-01", MODERN, ""):
            self.assertEqual(LEGACY[0], self.client.initialize(version)["protocolVersion"], version)

    def test_modern(self):
        """the modern era: discover, lists with cache hints, calls, no ping, no initialize"""
        c = self.client.modern()
        found = c.request("server/discover").result(5)
        self.assertIn(MODERN, found["supportedVersions"])
        self.assertEqual("complete", found["resultType"])
        self.assertIn("tools", found["capabilities"])
        self.assertIsInstance(found["ttlMs"], int)
        self.assertIn(found["cacheScope"], ("public", "private"))
        self.assertEqual("scb", found["_meta"][SERVER_INFO]["name"])
        for method, key in (("tools/list", "tools"), ("resources/list", "resources"), ("prompts/list", "prompts"),
                            ("resources/templates/list", "resourceTemplates")):
            result = c.request(method).result(5)
            self.assertIsInstance(result[key], list)
            self.assertEqual("complete", result["resultType"], method)
            self.assertIsInstance(result["ttlMs"], int, method)
            self.assertIn(result["cacheScope"], ("public", "private"), method)
        r = c.tool("run_command", command="echo modern")
        self.assertEqual("complete", r.result["resultType"])
        self.assertEqual("modern\n", r.stdout)
        for method in ("ping", "initialize", "logging/setLevel", "no/such"):
            self.assertEqual(-32601, c.request(method, {}).error(5)["code"], method)

    def test_modern_errors(self):
        """the modern era: unknown version, missing envelope, unknown tool and resource"""
        c = self.client.modern()
        c.envelope["io.modelcontextprotocol/protocolVersion"] = "2031-01-01"
        error = c.request("tools/list").error(5)
        self.assertEqual(-32022, error["code"])
        self.assertIn(MODERN, error["data"]["supported"])
        self.assertEqual("2031-01-01", error["data"]["requested"])
        c.modern()
        del c.envelope["io.modelcontextprotocol/clientCapabilities"]
        self.assertEqual(-32602, c.request("tools/list").error(5)["code"])
        c.modern()
        del c.envelope["io.modelcontextprotocol/clientInfo"]
        c.request("tools/list").result(5)
        self.assertEqual(-32602, c.request("tools/call", {"name": "no_tool", "arguments": {}}).error(5)["code"])
        error = c.request("resources/read", {"uri": "resource://scb/none"}).error(5)
        self.assertEqual(-32602, error["code"])
        self.assertEqual("resource://scb/none", error["data"]["uri"])

    def test_discover_then_initialize(self):
        """one process: discover, then initialize, then both eras side by side"""
        c = self.client
        c.modern()
        c.request("server/discover").result(5)
        modern, c.envelope = c.envelope, None
        self.assertEqual(LEGACY[0], c.initialize()["protocolVersion"])
        legacy = c.request("tools/list").result(5)
        self.assertNotIn("resultType", legacy)
        c.envelope = modern
        self.assertEqual([t["name"] for t in legacy["tools"]],
                         [t["name"] for t in c.request("tools/list").result(5)["tools"]])

    def test_discover_is_immediate(self):
        """the first answer comes at once"""
        began = time.monotonic()
        self.client.modern().request("server/discover").result(5)
        if not harness.SANITIZED:
            self.assertLess(time.monotonic() - began, 0.5)

    def test_without_initialize(self):
        """a list before initialize is answered"""
        self.assertTrue(self.client.request("tools/list").result(5)["tools"])


class Lists(Case):
    def test_ping(self):
        """ping answers an empty result"""
        self.assertEqual({}, self.client.request("ping").result(5))

    def test_tools(self):
        """tools/list: few, small, the same each time, each with title, annotations and schemas"""
        result = self.client.request("tools/list").result(5)
        self.assertEqual(TOOLS, [t["name"] for t in result["tools"]])
        size = len(json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode())
        self.assertLessEqual(size, 14 * 1024)
        self.assertEqual(result, self.client.request("tools/list", {}).result(5))
        for tool in result["tools"]:
            name = tool["name"]
            self.assertTrue(tool["title"] and tool["description"], name)
            for hint in ("readOnlyHint", "destructiveHint", "openWorldHint"):
                self.assertIsInstance(tool["annotations"][hint], bool, f"{name} {hint}")
            for key in ("inputSchema", "outputSchema"):
                self.assertEqual("object", tool[key]["type"], name)
                faults = []
                schema_faults(tool[key], f"{name}.{key}", faults)
                self.assertEqual([], faults)
            self.assertIs(False, tool["inputSchema"].get("additionalProperties"), name)

    def test_output_schemas(self):
        """structured content is what each output schema says"""
        schemas = {t["name"]: t["outputSchema"] for t in self.client.request("tools/list").result(5)["tools"]}
        c = self.client
        job = c.tool("run_command", command="echo x")
        answers = {
            "run_command": [job, c.tool("run_command", command="exit 3"), c.tool("run_command", command="sleep 2", wait_s=0)],
            "run_code": [c.tool("run_code", language="python", code=code) for code in ("1", "1/0", "print(1)", "x = = 1")],
            "job": [c.tool("job", action="wait", job=job.job), c.tool("job", action="list"),
                    c.tool("job", action="read", job=job.job)],
            "files": [c.tool("files", action="write", path="a/b.txt", content="one\ntwo\n"), c.tool("files", action="list"),
                      c.tool("files", action="stat", path="a/b.txt"), c.tool("files", action="read", path="a/b.txt")],
            "present_output": [c.tool("present_output", path="a/b.txt")],
            "session": [c.tool("session", action="info"), c.tool("session", action="list")],
        }
        for name, results in answers.items():
            for r in results:
                self.assertFalse(r.is_error, f"{name}: {r.text}")
                self.assertEqual([], mismatches(r.data, schemas[name]), f"{name}: {r}")
                self.assertTrue(r.text.strip(), f"{name}: text stands alone")
                self.assertRegex(r.data["session"] if "session" in r.data else "s-", r"^s-")

    def test_empty_lists(self):
        """lists that clients probe for are there; a bad cursor is an error"""
        for method, key in (("prompts/list", "prompts"), ("resources/templates/list", "resourceTemplates"),
                            ("resources/list", "resources")):
            self.assertIsInstance(self.client.request(method).result(5)[key], list)
        self.assertEqual(-32602, self.client.request("tools/list", {"cursor": "nonsense"}).error(5)["code"])
        self.client.request("tools/list", {"cursor": ""}).result(5)

    def test_legacy_settings(self):
        """logging/setLevel and resources/subscribe, where answered, answer {}"""
        for method, params in (("logging/setLevel", {"level": "info"}),
                               ("resources/subscribe", {"uri": "resource://scb/x"})):
            message = self.client.request(method, params).wait(5)
            self.assertTrue(message.get("result") == {} or message["error"]["code"] in (-32601, -32602), message)

    def test_handle(self):
        """every result begins with the session's handle, and the connection has one session of its own"""
        a, b = self.sh("true"), self.py("1")
        self.assertRegex(a.session, r"^s-[0-9a-z]{16,}$")
        self.assertEqual(a.session, b.session)
        self.assertEqual("session", next(iter(a.data)))
        self.assertIn(a.session, a.text[:200])


class Concurrency(Case):
    def test_ping_meanwhile(self):
        """a long call blocks nothing"""
        self.sh("true")
        call = self.client.start("run_command", command="sleep 1")
        began = time.monotonic()
        self.client.request("ping").result(5)
        self.client.request("tools/list").result(5)
        self.assertEqual("2\n", self.sh("echo 2").stdout)
        if not harness.SANITIZED:
            self.assertLess(time.monotonic() - began, 0.5)
        self.assertFalse(call.done.is_set())
        self.client.finish(call)

    def test_many(self):
        """forty requests in flight, each answered once and by its own id"""
        calls = [self.client.start("run_command", command=f"echo {i}") for i in range(40)]
        for i, call in enumerate(calls):
            r = self.client.finish(call)
            self.assertEqual(f"{i}\n", r.stdout, str(r))
        self.assertEqual([], self.client.unmatched)

    def test_string_ids(self):
        """ids are echoed with their type"""
        for id in ("seven", 9007199254740991, "é🙂", 0, -5):
            message = self.client.request("ping", id=id).wait(5)
            self.assertEqual((id, type(id)), (message["id"], type(message["id"])))

    def test_progress(self):
        """progress only with a token, rising, and none after the result"""
        self.sh("sleep 1.2")
        self.assertEqual([], [m for _, m in self.client.notifications if m["method"] == "notifications/progress"])
        call = self.client.start("run_command", {"progressToken": "t-1"}, command="for i in 1 2 3 4 5 6 7; do echo $i; sleep 0.5; done")
        self.client.finish(call)
        ended = time.monotonic()
        self.sh("sleep 0.3")
        got = [(at, m["params"]) for at, m in self.client.notifications if m["method"] == "notifications/progress"]
        self.assertTrue(got, "no progress in 3.5 s")
        self.assertEqual({"t-1"}, {p["progressToken"] for _, p in got})
        values = [p["progress"] for _, p in got]
        self.assertEqual(sorted(set(values)), values)
        self.assertFalse([at for at, _ in got if at > ended + 0.05])

    def test_cancel_unknown(self):
        """cancelling what is unknown or over is ignored"""
        r = self.client.request("ping")
        r.result(5)
        for id in (r.id, 424242, "x", None):
            self.client.notify("notifications/cancelled", {"requestId": id})
        self.client.notify("notifications/cancelled")
        self.client.notify("notifications/no-such-thing", {"a": 1})
        self.assertEqual({}, self.client.request("ping").result(5))

    def test_no_answer_after_cancel(self):
        """nothing is answered for a cancelled request; the next one is"""
        call = self.client.start("run_command", command="sleep 5")
        time.sleep(0.2)
        self.client.notify("notifications/cancelled", {"requestId": call.id})
        self.assertDone(self.sh("echo next"))
        self.assertFalse(call.done.wait(0.5))


if __name__ == "__main__":
    harness.main()
