"""`tandem run --chat` at a terminal, through tmux: editing, history, Ctrl-C, commands, and text that cannot drive the terminal."""

import json
import os
import shlex
import shutil
import subprocess
import time
import unittest

from common import TANDEM, TINY, Case

WIDTH, HEIGHT = 100, 30


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, folder, command):
        self.socket = folder / "tmux"
        shown = " ".join(shlex.quote(str(part)) for part in command)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", WIDTH, "-y", HEIGHT, f"{shown}; echo code $?; sleep 600")

    def tmux(self, *arguments):
        command = ["tmux", "-S", str(self.socket), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C.UTF-8"}).stdout

    def keys(self, *keys):
        """Names of keys ("Enter", "C-c"), or text."""
        self.tmux("send-keys", *keys)

    def screen(self, *arguments):
        return self.tmux("capture-pane", "-p", *arguments).rstrip()

    def wait(self, says, seconds=60):
        """The screen, once a condition holds for it (a text: that it is there)."""
        holds = says if callable(says) else lambda screen: says in screen
        until = time.monotonic() + seconds
        while not holds(self.screen()):
            if time.monotonic() > until:
                raise AssertionError(f"not within {seconds} s: {says}\n{self.screen()}")
            time.sleep(0.05)
        return self.screen()

    def close(self):
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], capture_output=True)


class ChatAtATerminal(Case):
    def start(self, *arguments, template="{{ messages[-1]['content'] }}"):
        model = shutil.copytree(TINY, self.scratch / "model")
        for name, changed in (("tokenizer_config.json", {"chat_template": template}), ("config.json", {"max_position_embeddings": 10**6})):
            config = model / name
            config.write_text(json.dumps(json.loads(config.read_text()) | changed))
        command = [TANDEM, "run", model, "--chat", "--engine", "torch", "--threads", "1", "--greedy", "--ignore-eos", *arguments]
        terminal = Terminal(self.scratch, command)
        self.addCleanup(terminal.close)
        terminal.wait("Ctrl-D ends.\n>")
        return terminal

    @staticmethod
    def last(screen):
        return screen.splitlines()[-1]

    def test_a_dialogue(self):
        terminal = self.start("--max-new-tokens", "3")
        terminal.keys("/help", "Enter")
        self.assertIn("/reset  begin anew", terminal.wait("/quit   end"))

        # Editing in the middle of a line with letters beyond ASCII, then an answer, then the line again.
        terminal.keys("naïv 12", "Left", "Left", "Left", "e")
        terminal.wait(lambda screen: self.last(screen) == "> naïve 12")
        terminal.keys("Enter")
        terminal.wait(lambda screen: "(cut after 3 tokens)" in screen and self.last(screen) == ">")
        terminal.keys("Up")
        terminal.wait(lambda screen: self.last(screen) == "> naïve 12")

        # Ctrl-C throws the line away, and the program stays.
        terminal.keys("C-c")
        terminal.wait(lambda screen: "> naïve 12^C" in screen and self.last(screen) == ">")
        terminal.keys("/nope", "Enter")
        terminal.wait("there is no /nope")
        terminal.keys("/reset", "Enter")
        terminal.wait("The conversation begins anew.")
        terminal.keys("C-d")
        terminal.wait("code 0")

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        terminal = self.start("--max-new-tokens", "100000")  # more than are made before the keys arrive, on a busy machine too
        terminal.keys("def area(width, height):", "Enter")
        begun = terminal.wait(lambda screen: len(screen.split("height):")[-1].strip()) > 3)
        self.assertNotIn("(stopped)", begun)
        terminal.keys("C-c")
        terminal.wait(lambda screen: "(stopped)" in screen and self.last(screen) == ">")
        terminal.keys("again", "Enter")
        terminal.wait(lambda screen: len(screen.split("> again")[-1].strip()) > 3)
        terminal.keys("C-c")
        terminal.wait(lambda screen: screen.count("(stopped)") == 2 and self.last(screen) == ">")
        terminal.keys("/quit", "Enter")
        terminal.wait("code 0")

    def test_reasoning_is_dim(self):
        terminal = self.start("--max-new-tokens", "3", template="{{ messages[-1]['content'] }}<think>")
        terminal.keys("Hello", "Enter")
        terminal.wait(lambda screen: "(cut after 3 tokens)" in screen and self.last(screen) == ">")
        with_colours = terminal.screen("-e").split("> Hello")[1]
        self.assertRegex(with_colours, "\\A[^\x1b]*\x1b\\[2m")
        self.assertNotIn("<think>", with_colours)


if __name__ == "__main__":
    unittest.main()
