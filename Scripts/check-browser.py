"""Opens a page with the guide's module in Chromium, and ends its live connection in several ways.

Prints a line for each thing that holds, and fails with the first that does not.
"""

import http.server
import json
import pathlib
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

SANGUINE, BROWSER, WORK, GUIDE = sys.argv[1:5]
WORK = pathlib.Path(WORK)
# Seconds that something may take on a machine that has other things to do.
BOUND = 60
# The server ends a stream when its access token is over.
TOKEN_SECONDS = 10

PAGE = """<!doctype html>
<script type="module">
import { followLive } from "./live.js";
const tell = (report) => fetch("/report", { method: "POST", body: JSON.stringify(report) });
followLive({
  server: "SERVER",
  token: async (mustRenew) => (await fetch(`/token?renew=${mustRenew}`)).text(),
  onChange: ({ collection, id, value }) => tell({ collection, id, text: value?.text }),
  onReset: () => tell({ state: "reset" }),
  onState: (state) => tell({ state }),
});
</script>
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check(name, holds, what=None):
    if not holds:
        raise SystemExit(f"Failed: {name}. Got {what!r}.")
    print(f"ok: {name}", flush=True)


class Server:
    """`sanguine serve`, at the same address and with the same data each time."""

    def __init__(self, page):
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.page = page
        self.process = None

    def start(self):
        environment = {
            "SANGUINE_HTTP_CORS_ORIGINS": self.page,
            "SANGUINE_TOKENS_ACCESS_LIFETIME": f"{TOKEN_SECONDS}s",
            "SANGUINE_LOG_ACCESS": "true",
        }
        arguments = ["--port", str(self.port), "--admin-port", str(free_port())]
        self.process = subprocess.Popen(
            [SANGUINE, "serve", "--data", str(WORK / "data"), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=open(WORK / "server.log", "a"),
            text=True,
        )
        for line in self.process.stdout:
            if line.startswith("listening on"):
                return
        raise SystemExit("The server did not start; see server.log.")

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(BOUND)
        self.process = None

    def send(self, path, body, token=None):
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), headers)
        return json.load(urllib.request.urlopen(request, timeout=BOUND))

    def token(self):
        device = {"deviceId": "a-device-of-the-check", "deviceSecret": "A" * 43}
        return self.send("/v1/accounts/guest", device)["session"]["accessToken"]

    def write(self, text):
        """Writes a note, as another device of the account does."""
        operation = {
            "id": identifier(),
            "sequence": 1,
            "lane": "main",
            "mutator": "record.create",
            "arguments": {
                "collection": "notes",
                "id": identifier(),
                "fields": {"text": text},
            },
        }
        body = {"device": "another-device-of-the-check", "operations": [operation]}
        results = self.send("/v1/sync/push", body, self.token())["results"]
        check(f"the note '{text}' is written", results[0]["status"] == "applied", results)


def identifier():
    """A UUID of version 7."""
    value = (time.time_ns() // 1_000_000) << 80 | uuid.uuid4().int & (1 << 80) - 1
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))


def open_page(module, reports):
    """Serves the page; returns the HTTP server and what it is to know."""
    known = {"renewals": 0}

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, text, kind="text/plain"):
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            if self.path == "/live.js":
                self.answer(module, "text/javascript")
            elif self.path.startswith("/token"):
                # The first ones may be over: the module then asks for a new one.
                if self.path.endswith("true"):
                    known["renewals"] += 1
                    known["token"] = known["server"].token()
                self.answer(known["token"])
            elif self.path == "/":
                self.answer(PAGE.replace("SERVER", known["server"].address), "text/html")
            else:
                self.send_error(404)

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            reports.put(json.loads(body))
            self.answer("")

        def log_message(self, *_):
            pass

    page = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    return page, known


def wait_for(name, reports, fits, seen):
    """Waits for a report that fits; notes all that came."""
    end = time.monotonic() + BOUND
    while (left := end - time.monotonic()) > 0:
        try:
            report = reports.get(timeout=left)
        except queue.Empty:
            break
        seen.append(report)
        if fits(report):
            return print(f"ok: {name}", flush=True)
    raise SystemExit(f"Failed within {BOUND} s: {name}. Received: {seen[-20:]}")


def main():
    module = re.search(r"```js\n(.*?)```", pathlib.Path(GUIDE).read_text(), re.S).group(1)
    reports, seen = queue.Queue(), []
    page, known = open_page(module, reports)
    server = known["server"] = Server(f"http://127.0.0.1:{page.server_port}")
    browser = None
    try:
        server.start()
        known["token"] = server.token()
        browser = subprocess.Popen(
            [
                BROWSER,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={(WORK / 'profile').resolve()}",
                f"http://127.0.0.1:{page.server_port}/",
            ],
            stdout=subprocess.DEVNULL,
            stderr=open(WORK / "browser.log", "w"),
        )

        def shows(text):
            return lambda report: report.get("text") == text

        def is_in(state):
            return lambda report: report.get("state") == state

        wait_for("the page is connected", reports, is_in("open"), seen)
        server.write("one")
        wait_for("the page shows a change", reports, shows("one"), seen)

        wait_for("the server ends the stream", reports, is_in("waiting"), seen)
        server.write("two")
        wait_for("the page connects again and shows what it missed", reports, shows("two"), seen)
        check("the page requested a new token", known["renewals"] > 0, known)

        server.stop()
        wait_for("the page sees that the server has stopped", reports, is_in("waiting"), seen)
        wait_for("the page tries again", reports, is_in("connecting"), seen)
        wait_for("the attempt fails", reports, is_in("waiting"), seen)
        server.start()
        server.write("three")
        wait_for("the page connects to the restarted server", reports, shows("three"), seen)

        texts = [report["text"] for report in seen if report.get("text")]
        check("each change came once, in order", texts == ["one", "two", "three"], texts)
        check("nothing was reset after the start", {"state": "reset"} not in seen[3:], seen)
    finally:
        for process in (browser, server.process):
            if process is not None:
                process.terminate()
                process.wait(BOUND)


main()
