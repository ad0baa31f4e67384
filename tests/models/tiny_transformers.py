"""Random transformers of several families with tokenizers of a dozen words; no network."""

import warnings

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    CTRLConfig,
    CTRLForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    LongformerConfig,
    LongformerForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForSequenceClassification,
    XLNetConfig,
    XLNetForSequenceClassification,
)

with warnings.catch_warnings():  # the library's own use of torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

WORDS = ["a", "superb", "film", "but", "the", "plot", "is", "predict", "##able", ".", "good", "bad"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
FAMILIES = ("bert", "distilbert", "roberta", "electra", "deberta-v2", "gpt2")
LIMIT = 31


def word_pieces():
    """A lower-casing WordPiece tokenizer with [CLS] … [SEP], as BERT has."""
    vocabulary = {word: i for i, word in enumerate([*SPECIALS, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def byte_pairs():
    """A byte-level tokenizer without special pieces around the text, as GPT-2 has."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "f"), ("Ġf", "i"), ("Ġfi", "l"), ("Ġfil", "m"), ("Ġ", "g")]
    full = [*letters, *("".join(pair) for pair in merges), "<pad>"]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(full)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")


def unusual(name):
    """Return a model whose head or attention is not what most have, and its tokenizer."""
    torch.manual_seed(5)
    tokenizer = word_pieces()
    size = {"vocab_size": len(tokenizer), "num_labels": 3, "pad_token_id": 0}
    deep = {
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 17,
        "initializer_range": 0.7,
        **size,
    }
    marks = {"cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
    match name:
        case "modernbert":
            config = ModernBertConfig(classifier_pooling="mean", **deep, **marks)
            model = ModernBertForSequenceClassification(config)
        case "xlnet":
            config = XLNetConfig(d_model=12, n_layer=2, n_head=3, d_inner=17, **size)
            model = XLNetForSequenceClassification(config)
        case "bart":
            layers = {"encoder_layers": 2, "decoder_layers": 2, "decoder_start_token_id": 2}
            heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3}
            wide = {"encoder_ffn_dim": 17, "decoder_ffn_dim": 17}
            marks = {"bos_token_id": 2, "eos_token_id": 3, "d_model": 12}
            model = BartForSequenceClassification(
                BartConfig(**layers, **heads, **wide, **marks, **size)
            )
        case "longformer":
            config = LongformerConfig(attention_window=4, max_position_embeddings=60, **deep)
            model = LongformerForSequenceClassification(config)
        case "ctrl":
            config = CTRLConfig(n_embd=12, dff=17, n_layer=2, n_head=3, n_positions=40, **size)
            model = CTRLForSequenceClassification(config)
    return model.eval(), tokenizer


def tiny(family, *, labels=3, **changes):
    """Return a model of ``family`` with 2 layers and 3 heads, and its tokenizer."""
    torch.manual_seed(5)
    tokenizer = byte_pairs() if family == "gpt2" else word_pieces()
    size = {"vocab_size": len(tokenizer), "num_labels": labels, "pad_token_id": 0, **changes}
    deep = {
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 17,
        "max_position_embeddings": LIMIT,
        "initializer_range": 0.7,
        **size,
    }
    match family:
        case "bert":
            model = BertForSequenceClassification(BertConfig(**deep))
        case "distilbert":
            config = DistilBertConfig(
                dim=12,
                n_layers=2,
                n_heads=3,
                hidden_dim=17,
                max_position_embeddings=LIMIT,
                initializer_range=0.7,
                **size,
            )
            model = DistilBertForSequenceClassification(config)
        case "roberta":
            deep["max_position_embeddings"] = LIMIT + 1
            model = RobertaForSequenceClassification(RobertaConfig(**deep))
        case "electra":
            model = ElectraForSequenceClassification(ElectraConfig(embedding_size=7, **deep))
        case "deberta-v2":
            config = DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], **deep)
            model = DebertaV2ForSequenceClassification(config)
        case "gpt2":
            size["pad_token_id"] = changes.get("pad_token_id", tokenizer.pad_token_id)
            config = GPT2Config(
                n_embd=12, n_layer=2, n_head=3, n_positions=2 * LIMIT, initializer_range=0.7, **size
            )
            model = GPT2ForSequenceClassification(config)
        case "llama":
            model = LlamaForSequenceClassification(LlamaConfig(num_key_value_heads=1, **deep))
        case "t5" | "t5-gated":
            config = T5Config(
                d_model=12,
                d_kv=4,
                d_ff=17,
                num_layers=2,
                num_heads=3,
                decoder_start_token_id=0,
                eos_token_id=3,
                feed_forward_proj="gated-gelu" if family == "t5-gated" else "relu",
                **size,
            )
            model = T5ForSequenceClassification(config)
    return model.eval(), tokenizer
