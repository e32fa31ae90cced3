"""A headless Chromium, driven over its debugging pipe (the DevTools protocol) with Python's standard library alone."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ["chromium-headless-shell", "chromium", "google-chrome"]


def program():
    """Where the browser is, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One page: what it said and asked for, and what it shows. Use as `with Page() as page: page.open(url)`."""

    def __init__(self, width=1100, height=900, timeout=120):
        self.width, self.height, self.timeout = width, height, timeout
        self.messages = []  # on the console, and exceptions
        self.requests = []  # URLs
        self.number, self.session, self.rest = 0, None, b""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        # No sandbox: it needs rights that a container seldom has; what is opened here is our own.
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb",
                 f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen(["sh", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}', program(), *flags], pass_fds=(commands, answers),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=self.height, deviceScaleFactor=1, mobile=False)
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (RuntimeError, TimeoutError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def call(self, method, **parameters):
        """One command's result; what happens meanwhile is noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def next_message(self):
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], self.timeout)[0]:
                raise TimeoutError(f"the browser said nothing for {self.timeout} s")
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(message)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method, event):
        if method == "Runtime.consoleAPICalled":
            self.messages.append(f"{event['type']}: {[argument.get('value', argument.get('description')) for argument in event['args']]}")
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.messages.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
        elif method == "Log.entryAdded":
            self.messages.append(f"{event['entry']['level']}: {event['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])

    def emulate(self, media="screen", **features):
        """emulate(prefers_color_scheme="dark"), emulate("print")."""
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": k.replace("_", "-"), "value": v} for k, v in features.items()])

    def open(self, url, until="true"):
        """Loads a page and waits until an expression holds."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")
        self.wait(until)

    def wait(self, expression):
        end = time.monotonic() + self.timeout
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} does not hold after {self.timeout} s; the page said {self.messages}")
            time.sleep(0.1)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def screenshot(self, height=None):
        """The page from its top as PNG, whole or so many pixels of it."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(height or size["height"], size["height"]), "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])
