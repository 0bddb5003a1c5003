"""GPT-2 Medium (Radford et al. 2019) fine-tuned with LoRA (Hu et al. 2021) as a language model: transformers and peft.

The stand-in for fine-tuning a text generator: 355.2 M parameters, of which 0.4 M train (the adapters of the attention's
input projections). The weights are random: the model is built from its configuration, without a download.

Settings: `layers`, `hidden` (size of a token), `heads`, `vocab`, `sequence_length` (in tokens), `dropout`; `rank` and
`alpha` of the adapters, whose input has dropout too.

The example batch is synthetic: a few random words repeated over and over, so that the loss can fall. Texts have
different lengths and are padded on the right; `attention_mask` is 1 on words and 0 on padding; the target is the text
itself, -100 on padding, and the loss compares every output with the word that follows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

IGNORED = -100
WORDS_IN_MOTIF = 5


class GPT2Lora(nn.Module):
    def __init__(self, network: PreTrainedModel, lora: LoraConfig) -> None:
        super().__init__()
        self.network = inject_adapter_in_model(lora, network)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # The mask as the layers need it: what transformers would derive itself, without its checks in the graph.
        position = torch.arange(input_ids.shape[1])
        is_visible = (position[None, :] <= position[:, None]) & (attention_mask[:, None, None, :] != 0)
        masked = torch.where(is_visible, 0.0, torch.finfo(torch.float32).min)
        logits: Tensor = self.network(input_ids, attention_mask=masked).logits
        return logits


def model(
    layers: int = 24,
    hidden: int = 1024,
    heads: int = 16,
    vocab: int = 50257,
    sequence_length: int = 128,
    dropout: float = 0.1,
    rank: int = 4,
    alpha: int = 32,
) -> nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "gpt2",
        n_layer=layers,
        n_embd=hidden,
        n_head=heads,
        vocab_size=vocab,
        n_positions=max(1024, sequence_length),
        # The same function as GPT-2's "gelu_new", as one operation instead of eight.
        activation_function="gelu_pytorch_tanh",
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        resid_pdrop=dropout,
        bos_token_id=vocab - 1,
        eos_token_id=vocab - 1,
        use_cache=False,
    )
    network = AutoModelForCausalLM.from_config(config, attn_implementation="eager")  # type: ignore[no-untyped-call]
    lora = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=["c_attn"], fan_in_fan_out=True)
    return GPT2Lora(network, lora).train()


def loss(output: Tensor, target: Tensor) -> Tensor:
    # The target is moved, not the output: a slice of the output would copy a value per word of the vocabulary.
    following = torch.cat([target[:, 1:], torch.full_like(target[:, :1], IGNORED)], dim=1)
    return F.cross_entropy(output.flatten(0, 1), following.flatten(), ignore_index=IGNORED)


def batch(batch_size: int = 2, sequence_length: int = 128, vocab: int = 50257) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    motif = torch.randint(vocab - 1, (batch_size, WORDS_IN_MOTIF), generator=generator)
    words = motif[:, torch.arange(sequence_length) % WORDS_IN_MOTIF]
    lengths = torch.randint(sequence_length // 2, sequence_length + 1, (batch_size, 1), generator=generator)
    is_padding = torch.arange(sequence_length) >= lengths
    input_ids = words.masked_fill(is_padding, vocab - 1)
    return input_ids, (~is_padding).to(torch.int64), words.masked_fill(is_padding, IGNORED)
