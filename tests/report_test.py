"""`tandem verify --report`: the page opens from disk in a headless Chromium, draws its charts, and loads nothing."""

import json
import shutil
import tempfile
import unittest
from pathlib import Path

from common import BINARY_DIR, TANDEM, TINY, Case, run, tandem

import browser
import screenshots

CHARTS = {"pass": {"taps", "routing", "depths", "positions", "kl"}}
CHARTS["fail"] = CHARTS["pass"] | {"tried"}
LIMIT = 1_500_000


class Report(Case):
    @classmethod
    def setUpClass(cls):
        if not browser.program():
            raise AssertionError(f"none of {', '.join(browser.PROGRAMS)} is installed: `make packages`")
        scratch = tempfile.TemporaryDirectory(prefix="tandem-test-", dir=BINARY_DIR)
        cls.addClassCleanup(scratch.cleanup)
        cls.pages = screenshots.make_reports(TANDEM, scratch.name)

    def open(self, page, path):
        page.open(Path(path).resolve().as_uri(), screenshots.DRAWN)
        self.assertEqual(page.messages, [])
        self.assertEqual(page.requests, [Path(path).resolve().as_uri()])

    def test_the_charts_are_drawn(self):
        for name, path in self.pages.items():
            with self.subTest(name), browser.Page() as page:
                self.open(page, path)
                drawn = page.evaluate("""Object.fromEntries([...document.querySelectorAll('figure[data-chart]')].map(figure => [figure.dataset.chart,
                    {marks: figure.querySelectorAll('.role-mark path').length, width: figure.querySelector('svg').getBoundingClientRect().width,
                     texts: figure.querySelectorAll('svg text').length}]))""")  # fmt: skip
                self.assertEqual(set(drawn), CHARTS[name])
                for chart, what in drawn.items():
                    self.assertGreater(what["width"], 200, chart)
                    self.assertGreater(what["texts"], 5, chart)
                    self.assertGreater(what["marks"], 10 if chart != "depths" else 7, chart)
                report = json.loads(page.evaluate("document.getElementById('report').textContent"))
                taps = sum(len(layer["taps"]) for layer in report["levels"]["layer"]["layers"])
                self.assertEqual(drawn["taps"]["marks"], taps)
                self.assertEqual(report["equal"], name == "pass")

    def test_the_tables_hold_the_same_figures(self):
        with browser.Page() as page:
            self.open(page, self.pages["fail"])
            self.assertEqual(page.evaluate("document.querySelectorAll('details table').length"), 0)
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            page.wait(f"document.querySelectorAll('details table').length === {len(CHARTS['fail'])}")
            self.assertGreater(page.evaluate("document.querySelector('figure[data-chart=taps] details table').rows.length"), 50)

    def test_verdict_and_crosses(self):
        with browser.Page() as page:
            self.open(page, self.pages["fail"])
            verdict = page.evaluate("document.querySelector('.verdict').textContent")
            self.assertRegex(verdict, r"^Different: .*first at model\.layers\.0\.input_layernorm, op rms_norm; cause: epsilon \(.*\)\.$")
            failed = page.evaluate("""JSON.parse(document.getElementById('report').textContent).levels.layer.layers
                .flatMap(layer => layer.taps).filter(tap => !tap.equal).length""")  # fmt: skip
            self.assertGreater(failed, 10)
            self.assertEqual(page.evaluate("document.querySelectorAll('figure[data-chart=taps] .role-mark text').length"), failed)
        with browser.Page() as page:
            self.open(page, self.pages["pass"])
            self.assertRegex(page.evaluate("document.querySelector('.verdict').textContent"), "^Equal: ")
            self.assertEqual(page.evaluate("document.querySelectorAll('figure[data-chart=taps] .role-mark text').length"), 0)

    def test_light_dark_and_paper(self):
        def colours(page):
            return page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.role-axis text')).fill]")

        seen = {}
        for name, media in {"light": ("screen", "light"), "dark": ("screen", "dark"), "paper": ("print", "dark")}.items():
            with browser.Page() as page:
                page.emulate(media[0], prefers_color_scheme=media[1])
                self.open(page, self.pages["fail"])
                seen[name] = colours(page)
        self.assertEqual(seen["light"], ["rgb(255, 255, 255)", "rgb(27, 31, 36)"])
        self.assertEqual(seen["dark"], ["rgb(20, 23, 26)", "rgb(230, 233, 237)"])
        self.assertEqual(seen["paper"], ["rgb(255, 255, 255)", "rgb(0, 0, 0)"])

    def test_size(self):
        for path in self.pages.values():
            self.assertLess(path.stat().st_size, LIMIT)

    def test_hostile_names_stay_text(self):
        evil = self.scratch / "a<" / "script><img src=x onerror=document.title='hurt'>"
        evil.parent.mkdir()
        shutil.copytree(TINY, evil)
        tandem("verify", evil, TINY, "--levels", "weights", "--report", self.scratch / "page.html")
        with browser.Page() as page:
            self.open(page, self.scratch / "page.html")
            self.assertEqual(page.evaluate("document.title"), "Tandem: equal")
            self.assertEqual(page.evaluate("document.images.length"), 0)
            self.assertIn(str(evil), page.evaluate("document.body.textContent"))

    def test_a_place_that_cannot_be_written_fails_first(self):
        result = run("verify", "missing", "missing", "--report", self.scratch / "none" / "page.html")
        self.assertEqual(result.code, 73, result)
        result = run("verify", "missing", TINY, "--report", self.scratch / "page.html")
        self.assertEqual(result.code, 66, result)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_the_images_in_the_docs_are_of_this_size(self):
        for name in self.pages:
            data = (screenshots.ROOT / "docs" / "images" / f"report_{name}.png").read_bytes()
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(int.from_bytes(data[20:24], "big"), screenshots.HEIGHT)
            self.assertLess(len(data), 400_000)


if __name__ == "__main__":
    unittest.main()
