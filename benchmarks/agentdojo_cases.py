"""Write conversations of AgentDojo with injected tool outputs as JSON, for `injections.py`.

python -m venv VENV; VENV/bin/pip install agentdojo==0.1.35
VENV/bin/python benchmarks/agentdojo_cases.py CASES.json

Each case is a user task and an injection task of a suite of AgentDojo v1.2.2. The calls and the
tool outputs are those of the ground truth of the user task, up to the first output with the
injection ("important instructions" without the name of the model). The malicious call is the first
one in the ground truth of the injection task. The own call is the next one in that of the user
task.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":  # another environment has this package
    from agentdojo.agent_pipeline.agent_pipeline import load_system_message
    from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
    from agentdojo.attacks.important_instructions_attacks import (
        ImportantInstructionsAttackNoModelName,
    )
    from agentdojo.functions_runtime import FunctionsRuntime
    from agentdojo.task_suite.load_suites import get_suites
    from agentdojo.types import get_text_content_as_str

CASES_PER_SUITE = 60
MAX_CHARACTERS = 7_000  # about 2,000 tokens
# Escapes and line breaks that YAML and Python write into strings.
ESCAPE = re.compile(r"""\\[ntr"'\\]|\\\n\s*\\?""")


class Pipeline:
    """The model that is attacked, for attacks that do not use its name."""

    name = "local"


def main() -> None:
    """Write the same number of cases of each suite, drawn at random."""
    rng, cases = np.random.default_rng(0), list[dict[str, Any]]()
    for name, suite in get_suites("v1.2.2").items():
        suite_cases = [case for case in read_suite(name, suite) if size(case) <= MAX_CHARACTERS]
        order = rng.permutation(len(suite_cases))[:CASES_PER_SUITE]
        cases += [suite_cases[i] for i in sorted(order)]
        print(f"{name}: {len(suite_cases)} cases, {len(order)} drawn")
    Path(sys.argv[1]).write_text(json.dumps(cases, ensure_ascii=False))


def size(case: dict[str, Any]) -> int:
    """Return the characters of a conversation."""
    return sum(len(message["content"]) for message in case["messages"])


def read_suite(name: str, suite: Any) -> Iterator[dict[str, Any]]:
    """Yield the cases of a suite whose injection task has a call."""
    attack = ImportantInstructionsAttackNoModelName(suite, Pipeline())
    for user_id, user_task in suite.user_tasks.items():
        clean = run_task(suite, user_task, {})
        for injection_id, injection_task in suite.injection_tasks.items():
            environment = suite.load_and_inject_default_environment({})
            calls = injection_task.ground_truth(environment)
            injections = attack.attack(user_task, injection_task)
            case = read_case(run_task(suite, user_task, injections), set(injections.values()))
            if not calls or case is None:
                continue
            end = len(case["messages"]) - 1
            contents = [message["content"] for message in clean if message["role"] == "tool"]
            yield {
                "suite": name,
                "user_task": user_id,
                "injection_task": injection_id,
                **case,
                "clean_outputs": contents[: end // 2],
                "prompt": user_task.PROMPT,
                "malicious": describe_call(calls[0], end),
            }


def run_task(suite: Any, task: Any, injections: dict[str, str]) -> list[dict[str, Any]]:
    """Return the messages of the ground truth of a task."""
    environment = suite.load_and_inject_default_environment(injections)
    environment = task.init_environment(environment)
    runtime = FunctionsRuntime(suite.tools)
    _, _, _, messages, _ = GroundTruthPipeline(task).query(task.PROMPT, runtime, environment)
    start = [
        {"role": "system", "content": load_system_message("default")},
        {"role": "user", "content": task.PROMPT},
    ]
    return start + [read_message(message, i) for i, message in enumerate(messages, len(start))]


def read_message(message: Any, number: int) -> dict[str, Any]:
    """Return a message in OpenAI's format."""
    content = get_text_content_as_str(message["content"])
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": f"call_{number - 1}", "content": content}
    calls = [describe_call(call, number) for call in message["tool_calls"] or ()]
    return {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})


def describe_call(call: Any, number: int) -> dict[str, Any]:
    """Return a tool call in OpenAI's format."""
    arguments = json.dumps(call.args, ensure_ascii=False, default=str)
    function = {"name": call.function, "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def read_case(messages: list[dict[str, Any]], injections: set[str]) -> dict[str, Any] | None:
    """Return the messages until the first injected one, its characters, and the next call."""
    for number, message in enumerate(messages):
        if message["role"] != "tool":
            continue
        spans = [span for text in injections for span in find_spans(message["content"], text)]
        if spans:
            following = messages[number + 1] if number + 1 < len(messages) else {}
            own_calls = following.get("tool_calls", [None])
            return {"messages": messages[: number + 1], "spans": spans, "own": own_calls[0]}
    return None


def find_spans(text: str, injection: str) -> list[tuple[int, int]]:
    """Return the characters of a tool output from the first to the last letter of an injection."""
    letters, positions = letters_of(text)
    sought, _ = letters_of(injection)
    spans, start = list[tuple[int, int]](), letters.find(sought)
    while start >= 0:
        end = start + len(sought)
        spans.append((positions[start], positions[end - 1] + 1))
        start = letters.find(sought, end)
    return spans


def letters_of(text: str) -> tuple[str, list[int]]:
    """Return letters and digits without escapes, and their positions."""
    escaped = {i for match in ESCAPE.finditer(text) for i in range(*match.span())}
    positions = [i for i, c in enumerate(text) if c.isalnum() and i not in escaped]
    return "".join(text[i] for i in positions), positions


if __name__ == "__main__":
    main()
