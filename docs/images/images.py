"""Draw the images of docs/how-to/images.md again; needs chromium and the extras hf and dev.

python docs/images/images.py MODEL IMAGES.parquet    # a vision transformer, images and labels
"""

import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import pyarrow.parquet
from playwright.sync_api import sync_playwright

import limelight

HERE = Path(__file__).resolve().parent
SHOWN, ROWS = 1, 60


def main() -> None:
    """Explain one image and a run of some, and keep what a browser shows of them."""
    model, file = limelight.load(sys.argv[1]), Path(sys.argv[2]).resolve()
    table = pyarrow.parquet.read_table(file).slice(0, ROWS).to_pylist()
    rows = [{"image": one["image"], "label": model.classes[one["label"]]} for one in table]
    compared = limelight.compare(model, rows[SHOWN]["image"], methods=["lrp", "gxi", "alpha-avg"])
    with tempfile.TemporaryDirectory() as folder, chdir(folder), sync_playwright() as driver:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "images.parquet")
        Path("dress.png").write_bytes(rows[SHOWN]["image"]["bytes"])
        run = limelight.explain_data(model, "images.parquet", ["lrp"], output="images")
        chromium = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        window = chromium.new_page(viewport={"width": 900, "height": 460})
        window.set_content(compared.to_html(fragment=True))
        window.screenshot(path=HERE / "images-compare.png")
        window.set_viewport_size({"width": 900, "height": 900})
        window.set_content(run.summary().to_html())
        window.mouse.wheel(0, 330)
        window.wait_for_timeout(300)
        window.screenshot(path=HERE / "images-summary.png")
        with limelight.serve(model, port=0) as page:
            window.goto(f"{page.url}#methods=%5B%22lrp%22%5D")
            window.set_input_files("#file", "dress.png")
            window.locator("[data-method=lrp] .w.top").click()
            window.wait_for_selector("[data-changed=true] .removed")
            window.mouse.wheel(0, 380)
            window.wait_for_timeout(300)
            window.screenshot(path=HERE / "images-serve.png")
        chromium.close()


if __name__ == "__main__":
    main()
