"""The page shows LRP until the sampled values of a deep model arrive."""

import threading

import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")
pytest.importorskip("transformers", reason="a deep model (extra hf)")

import limelight

from tiny_transformers import tiny

TEXT = "a superb film but the plot is bad ."
NOTE = "LRP values, for a first look. Shapley values follow."
ROWS = ".method limelight-words"
EXPLAINED = (
    "([method]) => [...document.querySelectorAll('.method limelight-words')]"
    ".some((words) => words.explanation?.method === method)"
)


@pytest.fixture
def gate():
    """An event without which the slow model does not read many texts at once."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def model(gate):
    network, tokenizer = tiny("bert", labels=2)

    def wait_for_gate(_, arguments, keywords):
        inputs = keywords.get("input_ids", arguments[0] if arguments else None)
        if inputs is not None and len(inputs) > 4:  # LRP reads one text, Shapley many versions
            assert gate.wait(300)

    network.register_forward_pre_hook(wait_for_gate, with_kwargs=True)
    return limelight.wrap(network, tokenizer=tokenizer)


def heading(page):
    return page.inner_text(".method h3")


def shown_scores(page):
    return page.evaluate(
        f"document.querySelector('{ROWS}').explanation.features.map(({{ score }}) => score)"
    )


def downloads_are_disabled(page):
    return page.eval_on_selector_all("[data-file]", "nodes => nodes.map((node) => node.disabled)")


def test_lrp_comes_first_and_the_sampled_values_replace_it(serving, opened, model, gate):
    page = opened(url=serving(model).url)
    page.fill("#text", TEXT)
    page.wait_for_function(EXPLAINED, arg=["lrp"])
    page.wait_for_selector("progress")  # the sampled values are on their way
    assert heading(page) == "LRP"
    assert page.inner_text(".method .preliminary").startswith(NOTE)
    assert all(downloads_are_disabled(page))
    assert page.locator(f"{ROWS}.stale").count() == 0
    gate.set()
    page.wait_for_function(EXPLAINED, arg=["shapley"])
    assert heading(page) == "Shapley"
    assert page.locator(".preliminary").count() == 0
    assert page.locator(ROWS).count() == 1
    assert not any(downloads_are_disabled(page))
    e = limelight.explain(model, TEXT)
    assert shown_scores(page) == pytest.approx(e.scores.tolist(), abs=1e-5)
    page.hover(f"{ROWS} .w")
    assert "LRP" not in page.inner_text(".readout")


def test_stopped_values_leave_lrp_with_a_note(serving, opened, model):
    page = opened(url=serving(model).url)
    page.fill("#text", TEXT)
    page.wait_for_function(EXPLAINED, arg=["lrp"])
    page.click("progress + button")
    assert page.inner_text(".method .preliminary") == "Shapley: stopped"
    assert heading(page) == "LRP"


def test_chosen_methods_have_no_preview(serving, opened, model, gate):
    gate.set()
    page = opened(f'#text={TEXT}&methods=["shapley","lrp"]', url=serving(model).url)
    page.wait_for_function(EXPLAINED, arg=["lrp"])
    page.wait_for_function(EXPLAINED, arg=["shapley"])
    assert page.locator(".preliminary").count() == 0
    assert page.locator(ROWS).count() == 2
