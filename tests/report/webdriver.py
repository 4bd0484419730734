"""A headless Chromium, driven through chromedriver's WebDriver protocol with the standard library alone."""
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request


class Browser:
    """One browser window. Use as a context: the driver and the browser end with it."""

    def __init__(self, width=1100, height=900, downloads=None):
        for program in ("chromedriver", "chromium"):
            if shutil.which(program) is None:
                raise SystemExit(f"{program} is not installed: the report's tests need Debian's chromium and chromium-driver")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        self.session = None
        try:
            self._wait_for_driver()
            arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", f"--window-size={width},{height}"]
            if os.geteuid() == 0:
                arguments.append("--no-sandbox")  # Chromium refuses it to root
            options = {"binary": shutil.which("chromium"), "args": arguments}
            if downloads:
                options["prefs"] = {"download.default_directory": str(downloads), "download.prompt_for_download": False}
            logs = {"browser": "ALL", "performance": "ALL"}
            wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}
            self.session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            if self.session:
                self._call("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait(20)

    def _wait_for_driver(self):
        end = time.monotonic() + 30
        while True:
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > end:
                raise SystemExit("chromedriver did not answer within 30 seconds")
            time.sleep(0.05)

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def command(self, path, body=None):
        return self._call("POST", f"/session/{self.session}/{path}", body or {})

    def devtools(self, name, **parameters):
        return self.command("goog/cdp/execute", {"cmd": name, "params": parameters})

    def open(self, url):
        self.command("url", {"url": url})

    def run(self, script, *arguments):
        return self.command("execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            if time.monotonic() > end:
                raise AssertionError(f"after {seconds} s still not: {condition}")
            time.sleep(0.05)

    def log(self, kind):
        return self.command("se/log", {"type": kind})

    def pointer(self, *actions):
        """Moves and buttons of the mouse: ("move", x, y), "down", "up"; places in the window."""
        steps = []
        for action in actions:
            if action == "down" or action == "up":
                steps.append({"type": f"pointer{action.capitalize()}", "button": 0})
            else:
                steps.append({"type": "pointerMove", "duration": 20, "x": round(action[1]), "y": round(action[2])})
        self.command("actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}]})
