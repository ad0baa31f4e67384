"""Sequence classifiers of transformers with random weights, small enough for a processor."""

__all__ = ["FAMILIES", "build", "word_pieces"]

import math
import warnings
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers.models.auto import modeling_auto

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    FAMILIES: dict[str, str] = dict(modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# MPNet counts places from after the token 1, whatever its configuration calls the padding.
_OTHER_SPECIALS = {"mpnet": ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")}
WORDS = ("a", "superb", "film", "but", "the", "plot", "is", "predict", "##able", ".", "good", "bad")
POSITIONS = 64
# Every size that a configuration may have by that name; sizes of one kind differ from the others.
_WIDE, _HEADS, _DEEP = 32, 4, 2
_SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "emb_dim", "dim", "true_hidden_size"), 32),
    **dict.fromkeys(("embedding_size", "input_embedding_size", "output_embedding_size"), 32),
    **dict.fromkeys(("pooler_hidden_size", "word_embed_proj_dim", "attention_hidden_size"), 32),
    **dict.fromkeys(("intra_bottleneck_size", "d_latents", "entity_emb_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "d_head", "d_kv", "kv_channels", "attention_head_size"), 8),
    **dict.fromkeys(("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "rotary_dim"), 8),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "dff", "d_inner", "d_ff", "hidden_dim"), 48),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size", "n_inner"), 48),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 24),
    **dict.fromkeys(("feed_forward_size", "prediction_head_size"), 48),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "query_pre_attn_scalar"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), POSITIONS),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 8),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
}
_SPECIAL_IDS = {
    "pad_token_id": 0,
    "bos_token_id": 2,
    "cls_token_id": 2,
    "decoder_start_token_id": 2,
    "eos_token_id": 3,
    "sep_token_id": 3,
    "mask_token_id": 4,
}


# What the common sizes do not settle; "..." leaves a size as it is.
_LATENT = {"num_key_value_heads": 4}  # compressed keys have as many heads as queries
_GROUPED = {**_LATENT, "n_group": 1, "topk_group": 1}
_HALF_LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
_FIVE_LAYERS = {
    "num_hidden_layers": 5,
    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba"],
}
_STARTED = {"decoder_start_token_id": 0}
_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
_KINDS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("axk1", "deepseek_v3"), _GROUPED),
    **dict.fromkeys(("axk2", "deepseek_v2", "minicpm3", "esmc"), _LATENT),
    **dict.fromkeys(("qwen3_5_text", "qwen3_next"), _HALF_LINEAR),
    **dict.fromkeys(("t5", "mt5", "umt5"), _STARTED),
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE},
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "funnel": {"num_hidden_layers": ..., "block_sizes": [1, 1]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "lilt": {"hidden_size": 48},
    "luke": {"entity_vocab_size": 8},
    "mistral4": {**_GROUPED, "head_dim": 16, "qk_head_dim": 16},
    "mpnet": {"pad_token_id": 1},
    "perceiver": {"num_latents": 8, "num_self_attends_per_block": 2},
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local", "lsh"],
        "local_attn_chunk_length": 8,
        "lsh_attn_chunk_length": 8,
        "num_buckets": 2,
    },
    "roc_bert": {"pronunciation_vocab_size": 32, "shape_vocab_size": 32},
    "xlnet": {"max_position_embeddings": ...},
    "xmod": {"languages": ("en_XX",), "default_language": "en_XX"},
    "zamba": {
        **_FIVE_LAYERS,
        "attention_hidden_size": 64,
        "head_dim": 16,
        "use_mamba_kernels": False,
    },
    "zamba2": {**_FIVE_LAYERS, "attention_hidden_size": 64},
}


# MobileBERT has no norms that would hold larger numbers.
_STIRRED = {"mobilebert": 0.5}


def word_pieces(family: str = "") -> Any:
    """Return a lower-casing WordPiece tokenizer of a dozen words with [CLS] … [SEP]."""
    specials = _OTHER_SPECIALS.get(family, SPECIALS)
    vocabulary = {word: i for i, word in enumerate([*specials, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    marks: Any = dict(zip(names, SPECIALS, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)


def build(family: str, *, seed: int = 5) -> Any:
    """Return the classifier of three classes called ``family``, of two layers where it can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = transformers.CONFIG_MAPPING[family]
        config = kind(**_shrunk(kind(), _KINDS.get(family, {})))
        torch.manual_seed(seed)
        network = getattr(transformers, FAMILIES[family])(config)
    _stir(network, size=_STIRRED.get(family, 1.5))
    return network.eval()


def _shrunk(config: Any, own: dict[str, Any]) -> dict[str, Any]:
    """Return sizes for the fields that a configuration has, those of its parts included."""
    small = {**_SIZES, **_SPECIAL_IDS, "vocab_size": len(SPECIALS) + len(WORDS), "num_labels": 3}
    known = {name: value for name, value in small.items() if _settable(config, name)}
    parts = {
        name: {"model_type": part.model_type, **_shrunk(part, _KINDS.get(part.model_type, {}))}
        for name, part in vars(config).items()
        if isinstance(part, transformers.PreTrainedConfig)
    }
    given = {**known, "pad_token_id": 0, **parts, **own}
    return {name: value for name, value in given.items() if value is not ...}


def _settable(config: Any, name: str) -> bool:
    kind = getattr(type(config), name, None)
    return hasattr(config, name) and not (isinstance(kind, property) and kind.fset is None)


def _stir(network: Any, *, size: float) -> None:
    """Draw weights anew: those of a fresh model are so small that every word weighs the same."""
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.dim() >= 2 and weight.is_floating_point() and not name.endswith("A_log"):
                weight.normal_(0, size / math.sqrt(weight.shape[-1]))
        for table in network.modules():
            if isinstance(table, torch.nn.Embedding):
                table.weight.normal_(0, 1)
