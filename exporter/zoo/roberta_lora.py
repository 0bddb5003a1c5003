"""RoBERTa-base (Liu et al. 2019) fine-tuned with LoRA (Hu et al. 2021) to classify texts: transformers and peft.

The stand-in for fine-tuning a text encoder: 124.9 M parameters, of which 0.9 M train (the adapters of the query and
value projections, and the classifier). The weights are random: the model is built from its configuration, without a
download.

Settings: `layers`, `hidden` (size of a token), `heads`, `vocab`, `sequence_length` (in tokens), `num_classes`,
`dropout`; `rank` and `alpha` of the adapters.

The example batch is synthetic: half of a text's words have ids that are congruent to its class, so that the loss can
fall. Texts have different lengths and are padded on the right; `attention_mask` is 1 on words and 0 on padding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

START, PADDING, END, FIRST_WORD = 0, 1, 2, 4


class RobertaLora(nn.Module):
    def __init__(self, network: PreTrainedModel, lora: LoraConfig) -> None:
        super().__init__()
        self.network = inject_adapter_in_model(lora, network)
        self.network.classifier.requires_grad_(True)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # Positions, mask and token type as the layers need them: the values that transformers would derive itself for
        # texts padded on the right, without its cumulative sum, gather and checks in the graph.
        positions = torch.arange(1, input_ids.shape[1] + 1) * attention_mask + PADDING
        masked = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        token_type = torch.zeros(1, 1, dtype=torch.int64)
        output = self.network(input_ids, attention_mask=masked, token_type_ids=token_type, position_ids=positions)
        logits: Tensor = output.logits
        return logits


def model(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocab: int = 50265,
    sequence_length: int = 128,
    num_classes: int = 2,
    dropout: float = 0.1,
    rank: int = 8,
    alpha: int = 8,
) -> nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "roberta",
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_attention_heads=heads,
        vocab_size=vocab,
        max_position_embeddings=max(512, sequence_length) + PADDING + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        num_labels=num_classes,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        use_cache=False,
    )
    network = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")  # type: ignore[no-untyped-call]
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=["query", "value"])
    return RobertaLora(network, lora).train()


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(
    batch_size: int = 8, sequence_length: int = 128, vocab: int = 50265, num_classes: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (batch_size, sequence_length)
    target = torch.randint(num_classes, (batch_size,), generator=generator)
    words = torch.randint(FIRST_WORD, vocab - num_classes, shape, generator=generator)
    is_telling = torch.rand(shape, generator=generator) < 0.5
    words += is_telling * ((target[:, None] - words) % num_classes)
    lengths = torch.randint(sequence_length // 2, sequence_length + 1, (batch_size, 1), generator=generator)
    attention_mask = (torch.arange(sequence_length) < lengths).to(torch.int64)
    input_ids = words.masked_fill(attention_mask == 0, PADDING).scatter(1, lengths - 1, END)
    input_ids[:, 0] = START
    return input_ids, attention_mask, target
