"""Draw the pictures of docs/how-to/app.md again; needs chromium and the extras dev, serve and data.

python docs/images/serve.py REVIEWS.parquet    # texts and labels: the test reviews of IMDb
"""

import json
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.parquet
from playwright.sync_api import Page, sync_playwright

import limelight

HERE = Path(__file__).resolve().parent
TEXT = "The plot is predictable, but the acting is not bad: superb, and never boring."
WIDTH = 900
LONGEST = 100  # words of a review: short ones are read at a glance
REVIEWS, JUDGED = 600, 60


def data_of(file: Path) -> dict[str, list[object]]:
    """Return the first short reviews of ``file``, as many of one label as of the other."""
    table = pyarrow.parquet.read_table(file, columns=["text", "label"]).to_pydict()
    rows = list(zip(table["text"], table["label"], strict=True))
    short = [row for row in rows if len(row[0].split()) <= LONGEST and "<br" not in row[0]]
    each = [[row for row in short if row[1] == label][: REVIEWS // 2] for label in (0, 1)]
    chosen = [row for pair in zip(*each, strict=True) for row in pair]
    names = ("negative", "positive")
    return {"text": [text for text, _ in chosen], "label": [names[label] for _, label in chosen]}


def main() -> None:
    """Serve, open every view, and keep a picture of it."""
    model, data = limelight.load(), data_of(Path(sys.argv[1]))

    def reversed_model(texts: list[str]) -> object:
        return model.predict_proba(texts)[:, ::-1]

    other = limelight.wrap(reversed_model, classes=model.classes)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # the page names the run
        limelight.explain_data(model, data, ["shapley", "gxi", "alpha-avg"], output="reviews")
        methods = ["shapley", "lime", "gxi", "alpha-avg"]
        judged = limelight.judge(model, data["text"][:JUDGED], methods)
        Path("judgment.json").write_text(judged.to_json(), encoding="utf-8")
        draw(model, other)


def draw(model: limelight.Model, other: limelight.Model) -> None:
    """Serve the run and the judgment that are here, then two models."""
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        window = chromium.new_page(viewport={"width": WIDTH, "height": 900})
        with limelight.serve(model, run="reviews", judgment="judgment.json", port=0) as page:
            typed(window, page.url)
            data_set(window, page.url)
            narrow = chromium.new_page(viewport={"width": 320, "height": 900}, color_scheme="dark")
            opened(narrow, page.url, text=TEXT)
            narrow.wait_for_selector("[data-method=shapley] .w")
            shot(narrow, "serve-narrow-dark", 900)
        with limelight.serve([model, other], port=0) as page:
            opened(window, page.url, text=TEXT, methods=["shapley"])
            window.wait_for_selector("[data-model='1'] .w")
            window.mouse.wheel(0, 280)
            shot(window, "serve-two-models", 900)
        chromium.close()


def opened(window: Page, url: str, **state: object) -> None:
    """Open the page in a state, which is a link."""
    words = {k: v if isinstance(v, str) else json.dumps(v) for k, v in state.items()}
    window.goto("about:blank")
    window.goto(f"{url}#{urlencode(words)}")


def shot(window: Page, name: str, height: int) -> None:
    """Keep what is in the window, in few colors and few bytes."""
    window.set_viewport_size({"width": window.viewport_size["width"], "height": height})
    window.wait_for_timeout(400)
    window.screenshot(path=HERE / f"{name}.png")


def typed(window: Page, url: str) -> None:
    """Draw a typed text, a change, and the sections below a text."""
    opened(window, url, text=TEXT)
    window.wait_for_selector("[data-method=shapley] .w")
    window.locator("[data-method=lime] .w", has_text="superb").click()
    shot(window, "serve-typing", 900)
    opened(window, url, text=TEXT, changes=[["superb", 0, "awful"]])
    window.wait_for_selector("[data-changed=true] [data-method=shapley] .w")
    shot(window, "serve-change", 1000)
    for section in ("scores", "curves", "pairs", "disagreement", "heads", "attention"):
        opened(window, url, text=TEXT, open=[section])
        window.wait_for_selector(f"#section-{section} .section-content *:nth-child(1)")
        window.wait_for_timeout(1200)
        window.evaluate(f"document.querySelector('#section-{section}').scrollIntoView()")
        window.locator(f"#section-{section}").screenshot(path=HERE / f"serve-{section}.png")


def data_set(window: Page, url: str) -> None:
    """Draw the texts, the summary and the judgment."""
    window.set_viewport_size({"width": 1000, "height": 900})
    window.goto(f"{url}texts#sort=mistake&which=wrong")
    window.wait_for_selector(".texts-window tbody tr[data-position]")
    shot(window, "serve-texts", 800)
    for name, sign in (("summary", ".panel"), ("judgment", "#curve svg")):
        window.goto(url + name)
        window.wait_for_selector(sign, timeout=120_000)
        shot(window, f"serve-{name}", 1000)


if __name__ == "__main__":
    main()
