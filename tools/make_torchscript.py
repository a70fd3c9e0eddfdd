#!/usr/bin/env python3
"""Makes the archives in tests/golden/torchscript: tools/make_torchscript.py FOLDER

It needs PyTorch. The network is a tiny CLIP with OpenAI's modules and names. Its numbers fit into half precision, so that all files
hold the same ones, whatever their type.

traced.pt     torch.jit.trace of the whole model, with half precision where OpenAI's files have it: in convolutions, linear maps and projections
scripted.pt   torch.jit.script of the image tower alone, below `visual`, in float32
state.pt      the state dict in float32, to compare with"""
import os
import sys
from collections import OrderedDict

import torch
from torch import nn

WIDTH, HEADS, LAYERS, SIDE, PATCH, PROJECTION, TEXT, WORDS = 8, 2, 2, 8, 4, 6, 2, 3


class LayerNorm(nn.LayerNorm):
    """Computes in float32, whatever the type of its input."""

    def forward(self, x):
        return nn.functional.layer_norm(x.float(), self.normalized_shape, self.weight, self.bias, self.eps).to(x.dtype)


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads)
        self.ln_1 = LayerNorm(width)
        self.mlp = nn.Sequential(OrderedDict([("c_fc", nn.Linear(width, width * 4)), ("gelu", QuickGELU()), ("c_proj", nn.Linear(width * 4, width))]))
        self.ln_2 = LayerNorm(width)

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, width, layers, heads):
        super().__init__()
        self.resblocks = nn.Sequential(*[ResidualAttentionBlock(width, heads) for _ in range(layers)])

    def forward(self, x):
        return self.resblocks(x)


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.class_embedding = nn.Parameter(torch.randn(WIDTH))
        self.positional_embedding = nn.Parameter(torch.randn((SIDE // PATCH) ** 2 + 1, WIDTH))
        self.ln_pre = LayerNorm(WIDTH)
        self.transformer = Transformer(WIDTH, LAYERS, HEADS)
        self.ln_post = LayerNorm(WIDTH)
        self.proj = nn.Parameter(torch.randn(WIDTH, PROJECTION))

    def forward(self, x):
        x = self.conv1(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_embedding.expand(x.shape[0], 1, -1), x], 1) + self.positional_embedding
        x = self.transformer(self.ln_pre(x).transpose(0, 1)).transpose(0, 1)
        return self.ln_post(x[:, 0]) @ self.proj


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = VisionTransformer()
        self.transformer = Transformer(TEXT, 1, 1)
        self.token_embedding = nn.Embedding(WORDS, TEXT)
        self.positional_embedding = nn.Parameter(torch.randn(3, TEXT))
        self.ln_final = LayerNorm(TEXT)
        self.text_projection = nn.Parameter(torch.randn(TEXT, PROJECTION))
        self.logit_scale = nn.Parameter(torch.ones([]))
        for name, number in (("input_resolution", SIDE), ("context_length", 3), ("vocab_size", WORDS)):
            self.register_buffer(name, torch.tensor(number))

    def forward(self, image, text):
        words = self.token_embedding(text) + self.positional_embedding
        words = self.ln_final(self.transformer(words.transpose(0, 1)).transpose(0, 1))[:, -1] @ self.text_projection
        return self.logit_scale.exp() * self.visual(image) @ words.t()


class Tower(nn.Module):
    def __init__(self, visual):
        super().__init__()
        self.visual = visual

    def forward(self, image):
        return self.visual(image)


def is_half(name):
    return not any(part in name for part in ("ln_", "embedding", "logit_scale", "out_proj.bias")) or name.endswith("text_projection")


def main(folder):
    torch.manual_seed(20)
    model = CLIP().eval()
    for parameter in model.parameters():
        parameter.data = (0.2 * torch.randn_like(parameter)).half().float()
    traced = torch.jit.trace(model, (torch.randn(1, 3, SIDE, SIDE), torch.zeros(1, 3, dtype=torch.long)), check_trace=False)
    torch.jit.script(Tower(model.visual)).save(os.path.join(folder, "scripted.pt"))
    torch.save(model.state_dict(), os.path.join(folder, "state.pt"))
    for name, parameter in traced.named_parameters():
        parameter.data = parameter.data.half() if is_half(name) else parameter.data
    traced.save(os.path.join(folder, "traced.pt"))
    again = torch.jit.load(os.path.join(folder, "traced.pt")).state_dict()
    assert {name: tensor.tolist() for name, tensor in again.items()} == {name: tensor.tolist() for name, tensor in model.state_dict().items()}


if __name__ == "__main__":
    main(sys.argv[1])
