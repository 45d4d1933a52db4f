"""A language model of half a megabyte: random weights, letters for tokens, real llama.cpp."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

CONTEXT = 2048
_WIDTH, _HEADS, _LAYERS, _INNER = 32, 2, 1, 64
_SPECIAL = ("<unk>", "<s>", "</s>")
# Tells who said what; the model has learnt nothing, so its words do not matter.
_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def write_tiny_model(path: Path) -> None:
    """Write a model that says something, whatever it is asked."""
    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", *"abcdefghijklmnopqrstuvwxyz", *",.!?"]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2]
    kinds += [gguf.TokenType.BYTE] * 256
    kinds += [gguf.TokenType.NORMAL] * (len(tokens) - len(kinds))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(_TEMPLATE)
    _add_weights(writer, len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_weights(writer: gguf.GGUFWriter, words: int) -> None:
    random = np.random.default_rng(7)

    def add(name: str, *shape: int, mute: int = 0) -> None:
        if len(shape) == 1:
            weights = np.ones(shape, np.float32)
        else:
            weights = random.normal(0, 0.3, shape).astype(np.float32)
        weights[:mute] = 0
        writer.add_tensor(name, weights)

    add("token_embd.weight", words, _WIDTH)
    add("output_norm.weight", _WIDTH)
    # It speaks in letters: everything before them is never the likeliest.
    add("output.weight", words, _WIDTH, mute=len(_SPECIAL) + 256)
    for layer in range(_LAYERS):
        place = f"blk.{layer}"
        add(f"{place}.attn_norm.weight", _WIDTH)
        add(f"{place}.ffn_norm.weight", _WIDTH)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{place}.{part}.weight", _WIDTH, _WIDTH)
        add(f"{place}.ffn_gate.weight", _INNER, _WIDTH)
        add(f"{place}.ffn_up.weight", _INNER, _WIDTH)
        add(f"{place}.ffn_down.weight", _WIDTH, _INNER)
