"""A small random language model with a chat template, and conversations for it."""

import itertools

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import limelight

from tiny_transformers import word_pieces

CHAT = (
    "{% for m in messages %}[CLS]{{ m['role'] }} {{ m['content'] }}[SEP]{% endfor %}"
    "{% if add_generation_prompt %}[CLS]{% endif %}"
)
QUESTION = "is the film good"
DOCUMENTS = [
    {"id": "a.txt", "text": "A superb film. The plot is good."},
    {"id": "b.txt", "title": "the plot", "text": "The plot is predictable."},
    "bad film",
]
MESSAGES = [
    {"role": "system", "content": "a film"},
    {"role": "user", "content": "is the plot good"},
    {"role": "assistant", "content": "the plot is bad"},
    {"role": "user", "content": "is the film bad"},
    {"role": "assistant", "content": "good film"},
]


def chat_network(template: str | None = CHAT):
    """Return a random causal model with 2 layers that reads 200 tokens, and its tokenizer."""
    torch.manual_seed(3)
    tokenizer = word_pieces()
    tokenizer.chat_template = template
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=17,
        max_position_embeddings=200,
        initializer_range=0.7,
    )
    return LlamaForCausalLM(config).eval(), tokenizer


def chat_model(template: str | None = CHAT):
    """Return the model for limelight; it needs no template for texts."""
    network, tokenizer = chat_network(template)
    return limelight.wrap(network, tokenizer=tokenizer, max_new_tokens=5)


def save_chat_model(folder):
    """Save the model as a folder that `limelight.load` reads."""
    network, tokenizer = chat_network()
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def subset_outputs(network, tokenizer, e, answer):
    """Reference: log p of an answer without any subset of the parts of an explanation.

    Each value is a call of the network with the tokens of the complete prompt that remain.
    """
    encoding = tokenizer(e.text, add_special_tokens=False, return_offsets_mapping=True)
    words = tokenizer(answer, add_special_tokens=False)["input_ids"]
    spans = [part.span for part in e.parts]

    def part_of(start):
        return next((i for i, (first, last) in enumerate(spans) if first <= start < last), -1)

    parts = [part_of(start) for start, _ in encoding["offset_mapping"]]
    values = {}
    for keep in itertools.product([False, True], repeat=len(spans)):
        ids = [
            token
            for token, part in zip(encoding["input_ids"], parts, strict=True)
            if part < 0 or keep[part]
        ]
        with torch.no_grad():
            logits = network(torch.tensor([[*ids, *words]])).logits[0, len(ids) - 1 : -1]
        chances = torch.log_softmax(logits.double(), -1)
        values[keep] = float(chances[torch.arange(len(words)), torch.tensor(words)].sum())
    return values
