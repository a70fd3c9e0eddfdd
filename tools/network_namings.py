"""How other libraries name the tensors of the networks that timm names `cls_token`, `blocks.0.attn.qkv.weight`, ...

A naming is a list of rules `timm's name | other name | what is done`, from timm's tensors to the other library's:

    {i} {j}     a number, the same on both sides; {j+1} is one more
    *           the rest of the name: weight, bias, running_mean, ...
    {a,b,c}     several tensors, in this order
    (nothing)   the same tensor under another name
    split       the first dimension is cut into equal parts, one for each name
    join        the parts in a row, along the first dimension
    transpose   a matrix, transposed
    squeeze     without the leading dimensions of 1
    pixel       [c] becomes [c, 1, 1]
    halve       half of each number
    behind      [1, 1, w] halved, then [1, n, w], along the second dimension: DINOv2 adds its first position to the class token

The first rule that fits a tensor is used. A line whose second column is `-`: the other library has no such tensor,
and timm's is zero. One whose first column is `-` names what such a file holds besides, which the image tower does not need.

Read from the sources of each library: transformers 5.16, torchvision, openai/CLIP, mlfoundations/open_clip,
facebookresearch/{deit, mae, dino, dinov2, ConvNeXt}, Alibaba-MIIL/TResNet. Files of transformers keep the names of its versions before 5."""
import re

import numpy as np

TRANSFORMERS_VIT_BODY = """
cls_token | embeddings.cls_token
patch_embed.proj.* | embeddings.patch_embeddings.projection.*
pos_embed | embeddings.position_embeddings
blocks.{i}.norm1.* | encoder.layer.{i}.layernorm_before.*
blocks.{i}.attn.qkv.* | encoder.layer.{i}.attention.attention.{query,key,value}.* | split
blocks.{i}.attn.proj.* | encoder.layer.{i}.attention.output.dense.*
blocks.{i}.norm2.* | encoder.layer.{i}.layernorm_after.*
blocks.{i}.mlp.fc1.* | encoder.layer.{i}.intermediate.dense.*
blocks.{i}.mlp.fc2.* | encoder.layer.{i}.output.dense.*
norm.* | layernorm.*
"""

CLIP_BODY = """
cls_token | embeddings.class_embedding | squeeze
patch_embed.proj.* | embeddings.patch_embedding.*
pos_embed | embeddings.position_embedding.weight | squeeze
norm_pre.* | pre_layrnorm.*
blocks.{i}.norm1.* | encoder.layers.{i}.layer_norm1.*
blocks.{i}.attn.qkv.* | encoder.layers.{i}.self_attn.{q_proj,k_proj,v_proj}.* | split
blocks.{i}.attn.proj.* | encoder.layers.{i}.self_attn.out_proj.*
blocks.{i}.norm2.* | encoder.layers.{i}.layer_norm2.*
blocks.{i}.mlp.fc1.* | encoder.layers.{i}.mlp.fc1.*
blocks.{i}.mlp.fc2.* | encoder.layers.{i}.mlp.fc2.*
norm.* | post_layernorm.*
"""

MAPPED = """
attn_pool.latent | head.probe
attn_pool.{q,kv}.* | head.attention.in_proj_* | join
attn_pool.proj.* | head.attention.out_proj.*
attn_pool.norm.* | head.layernorm.*
attn_pool.mlp.fc1.* | head.mlp.fc1.*
attn_pool.mlp.fc2.* | head.mlp.fc2.*
"""

DINOV2_BODY = """
patch_embed.proj.* | embeddings.patch_embeddings.projection.*
blocks.{i}.norm1.* | encoder.layer.{i}.norm1.*
blocks.{i}.attn.qkv.* | encoder.layer.{i}.attention.attention.{query,key,value}.* | split
blocks.{i}.attn.proj.* | encoder.layer.{i}.attention.output.dense.*
blocks.{i}.ls1.gamma | encoder.layer.{i}.layer_scale1.lambda1
blocks.{i}.norm2.* | encoder.layer.{i}.norm2.*
blocks.{i}.mlp.fc1.* | encoder.layer.{i}.mlp.fc1.*
blocks.{i}.mlp.fc2.* | encoder.layer.{i}.mlp.fc2.*
blocks.{i}.ls2.gamma | encoder.layer.{i}.layer_scale2.lambda1
norm.* | layernorm.*
- | embeddings.mask_token
"""

OPENAI_CLIP = """
cls_token | visual.class_embedding | squeeze
pos_embed | visual.positional_embedding | squeeze
head.weight | visual.proj | transpose
head.bias | -
patch_embed.proj.* | visual.conv1.*
norm_pre.* | visual.ln_pre.*
blocks.{i}.norm1.* | visual.transformer.resblocks.{i}.ln_1.*
blocks.{i}.attn.qkv.* | visual.transformer.resblocks.{i}.attn.in_proj_*
blocks.{i}.attn.proj.* | visual.transformer.resblocks.{i}.attn.out_proj.*
blocks.{i}.norm2.* | visual.transformer.resblocks.{i}.ln_2.*
blocks.{i}.mlp.fc1.* | visual.transformer.resblocks.{i}.mlp.c_fc.*
blocks.{i}.mlp.fc2.* | visual.transformer.resblocks.{i}.mlp.c_proj.*
norm.* | visual.ln_post.*
- | positional_embedding
- | text_projection
- | logit_scale
- | token_embedding.weight
- | ln_final.weight
- | transformer.resblocks.0.attn.in_proj_weight
- | transformer.resblocks.0.mlp.c_fc.weight
"""

META_VIT = """
cls_token | cls_token
dist_token | dist_token
pos_embed | pos_embed
patch_embed.proj.* | patch_embed.proj.*
blocks.{i}.norm1.* | blocks.{i}.norm1.*
blocks.{i}.attn.qkv.* | blocks.{i}.attn.qkv.*
blocks.{i}.attn.proj.* | blocks.{i}.attn.proj.*
blocks.{i}.ls1.gamma | blocks.{i}.ls1.gamma
blocks.{i}.norm2.* | blocks.{i}.norm2.*
blocks.{i}.mlp.fc1.* | blocks.{i}.mlp.fc1.*
blocks.{i}.mlp.fc2.* | blocks.{i}.mlp.fc2.*
blocks.{i}.ls2.gamma | blocks.{i}.ls2.gamma
norm.* | norm.*
head.* | head.*
head_dist.* | head_dist.*
"""

RESNET = """
conv1.* | embedder.embedder.convolution.*
bn1.* | embedder.embedder.normalization.*
layer{s}.{j}.conv{k}.* | encoder.stages.{s-1}.layers.{j}.layer.{k-1}.convolution.*
layer{s}.{j}.bn{k}.* | encoder.stages.{s-1}.layers.{j}.layer.{k-1}.normalization.*
layer{s}.{j}.downsample.0.* | encoder.stages.{s-1}.layers.{j}.shortcut.convolution.*
layer{s}.{j}.downsample.1.* | encoder.stages.{s-1}.layers.{j}.shortcut.normalization.*
"""

CONVNEXT = """
stem.0.* | embeddings.patch_embeddings.*
stem.1.* | embeddings.layernorm.*
stages.{s}.downsample.{j}.* | encoder.stages.{s}.downsampling_layer.{j}.*
stages.{s}.blocks.{j}.gamma | encoder.stages.{s}.layers.{j}.layer_scale_parameter
stages.{s}.blocks.{j}.conv_dw.* | encoder.stages.{s}.layers.{j}.dwconv.*
stages.{s}.blocks.{j}.norm.* | encoder.stages.{s}.layers.{j}.layernorm.*
stages.{s}.blocks.{j}.mlp.fc1.* | encoder.stages.{s}.layers.{j}.pwconv1.*
stages.{s}.blocks.{j}.mlp.fc2.* | encoder.stages.{s}.layers.{j}.pwconv2.*
head.norm.* | layernorm.*
"""


def below(prefix, rules):
    """The rules with a prefix before the other library's names."""
    return "".join(re.sub(r"^([^|]*\| )(?!-$)", r"\1" + prefix, line) + "\n" for line in rules.splitlines() if line)


CLASSIFIER = "head.* | classifier.*\n"

NAMINGS = {
    # ViTForImageClassification; facebook/deit-*-patch16-224 without a distillation token is one too
    "transformers ViTForImageClassification": below("vit.", TRANSFORMERS_VIT_BODY) + CLASSIFIER,
    # ViTModel: facebook/dino-vits16, google/vit-base-patch16-224-in21k
    "transformers ViTModel": TRANSFORMERS_VIT_BODY + "- | pooler.dense.weight\n- | pooler.dense.bias\n",
    "transformers DeiTForImageClassificationWithTeacher": below("deit.", TRANSFORMERS_VIT_BODY + "dist_token | embeddings.distillation_token\n")
    + "head.* | cls_classifier.*\nhead_dist.* | distillation_classifier.*\n",
    "transformers ViTMAEForPreTraining": below("vit.", TRANSFORMERS_VIT_BODY) + "- | decoder.mask_token\n- | decoder.decoder_pos_embed\n"
    "- | decoder.decoder_embed.weight\n- | decoder.decoder_layers.0.attention.attention.query.weight\n- | decoder.decoder_pred.weight\n",
    "transformers Dinov2Model": "cls_token | embeddings.cls_token\npos_embed | embeddings.position_embeddings\n" + DINOV2_BODY,
    "transformers Dinov2ForImageClassification": below("dinov2.", "cls_token | embeddings.cls_token\n"
                                                       "pos_embed | embeddings.position_embeddings\n" + DINOV2_BODY)
    + "- | classifier.weight\n- | classifier.bias\n",
    "transformers Dinov2WithRegistersModel": "cls_token | embeddings.cls_token | halve\n"
    "{cls_token,pos_embed} | embeddings.position_embeddings | behind\nreg_token | embeddings.register_tokens\n" + DINOV2_BODY,
    "transformers CLIPVisionModelWithProjection": below("vision_model.", CLIP_BODY) + "head.weight | visual_projection.weight\nhead.bias | -\n"
    "- | vision_model.embeddings.position_ids\n",
    "transformers CLIPModel": below("vision_model.", CLIP_BODY) + "head.weight | visual_projection.weight\nhead.bias | -\n- | logit_scale\n"
    "- | text_projection.weight\n- | text_model.embeddings.token_embedding.weight\n- | text_model.final_layer_norm.weight\n"
    "- | text_model.encoder.layers.0.self_attn.q_proj.weight\n- | text_model.encoder.layers.0.layer_norm1.weight\n"
    "- | vision_model.embeddings.position_ids\n",
    "transformers SiglipVisionModel": below("vision_model.", CLIP_BODY + MAPPED),
    "transformers SiglipModel": below("vision_model.", CLIP_BODY + MAPPED) + "- | logit_scale\n- | logit_bias\n"
    "- | text_model.embeddings.token_embedding.weight\n- | text_model.head.weight\n- | text_model.encoder.layers.0.self_attn.q_proj.weight\n",
    "transformers ConvNextForImageClassification": below("convnext.", CONVNEXT) + "head.fc.* | classifier.*\n",
    "transformers ConvNextModel": CONVNEXT,
    "transformers ResNetForImageClassification": below("resnet.", RESNET) + "fc.* | classifier.1.*\n",
    "torchvision vit": """
cls_token | class_token
patch_embed.proj.* | conv_proj.*
pos_embed | encoder.pos_embedding
blocks.{i}.norm1.* | encoder.layers.encoder_layer_{i}.ln_1.*
blocks.{i}.attn.qkv.* | encoder.layers.encoder_layer_{i}.self_attention.in_proj_*
blocks.{i}.attn.proj.* | encoder.layers.encoder_layer_{i}.self_attention.out_proj.*
blocks.{i}.norm2.* | encoder.layers.encoder_layer_{i}.ln_2.*
blocks.{i}.mlp.fc1.* | encoder.layers.encoder_layer_{i}.mlp.0.*
blocks.{i}.mlp.fc2.* | encoder.layers.encoder_layer_{i}.mlp.3.*
norm.* | encoder.ln.*
head.* | heads.head.*
""",
    # files before torchvision 0.13, which the released vit_b_16 still is
    "torchvision vit, version 1": """
cls_token | class_token
patch_embed.proj.* | conv_proj.*
pos_embed | encoder.pos_embedding
blocks.{i}.norm1.* | encoder.layers.encoder_layer_{i}.ln_1.*
blocks.{i}.attn.qkv.* | encoder.layers.encoder_layer_{i}.self_attention.in_proj_*
blocks.{i}.attn.proj.* | encoder.layers.encoder_layer_{i}.self_attention.out_proj.*
blocks.{i}.norm2.* | encoder.layers.encoder_layer_{i}.ln_2.*
blocks.{i}.mlp.fc1.* | encoder.layers.encoder_layer_{i}.mlp.linear_1.*
blocks.{i}.mlp.fc2.* | encoder.layers.encoder_layer_{i}.mlp.linear_2.*
norm.* | encoder.ln.*
head.* | heads.head.*
""",
    "torchvision convnext": """
stem.0.* | features.0.0.*
stem.1.* | features.0.1.*
stages.{s}.downsample.{j}.* | features.{2s}.{j}.*
stages.{s}.blocks.{j}.gamma | features.{2s+1}.{j}.layer_scale | pixel
stages.{s}.blocks.{j}.conv_dw.* | features.{2s+1}.{j}.block.0.*
stages.{s}.blocks.{j}.norm.* | features.{2s+1}.{j}.block.2.*
stages.{s}.blocks.{j}.mlp.fc1.* | features.{2s+1}.{j}.block.3.*
stages.{s}.blocks.{j}.mlp.fc2.* | features.{2s+1}.{j}.block.5.*
head.norm.* | classifier.0.*
head.fc.* | classifier.2.*
""",
    "openai CLIP": OPENAI_CLIP,  # and OpenCLIP's own vision transformers; with `module.` before all in checkpoints of a training
    "open_clip": OPENAI_CLIP,
    "open_clip, module": below("module.", OPENAI_CLIP),
    # an image tower of timm inside OpenCLIP: SigLIP. All of timm's names, below visual.trunk.
    "open_clip, timm": "* | visual.trunk.*\n- | logit_scale\n- | logit_bias\n- | text.token_embedding.weight\n"
    "- | text.transformer.resblocks.0.ln_1.weight\n- | text.text_projection.weight\n",
    "meta deit": META_VIT,
    "meta deit III": META_VIT.replace("| blocks.{i}.ls1.gamma", "| blocks.{i}.gamma_1").replace("| blocks.{i}.ls2.gamma", "| blocks.{i}.gamma_2"),
    "meta mae": META_VIT + "- | mask_token\n- | decoder_pos_embed\n- | decoder_embed.weight\n- | decoder_blocks.0.norm1.weight\n"
    "- | decoder_blocks.0.attn.qkv.weight\n- | decoder_pred.weight\n",
    "meta dino": META_VIT,
    # checkpoints of a training: {"student", "teacher"}, each of a backbone and a head
    "meta dino, teacher": below("teacher.module.backbone.", META_VIT).replace("teacher.module.backbone.head", "head")
    + "- | teacher.module.head.mlp.0.weight\n- | teacher.module.head.last_layer.weight_v\n",
    "meta dinov2": META_VIT + "- | mask_token\n",
    "meta dinov2, registers": META_VIT.replace("cls_token | cls_token", "cls_token | cls_token | halve")
    .replace("pos_embed | pos_embed", "{cls_token,pos_embed} | pos_embed | behind") + "reg_token | register_tokens\n- | mask_token\n",
    "meta ConvNeXt": """
stem.0.* | downsample_layers.0.0.*
stem.1.* | downsample_layers.0.1.*
stages.{s}.downsample.{j}.* | downsample_layers.{s}.{j}.*
stages.{s}.blocks.{j}.gamma | stages.{s}.{j}.gamma
stages.{s}.blocks.{j}.conv_dw.* | stages.{s}.{j}.dwconv.*
stages.{s}.blocks.{j}.norm.* | stages.{s}.{j}.norm.*
stages.{s}.blocks.{j}.mlp.fc1.* | stages.{s}.{j}.pwconv1.*
stages.{s}.blocks.{j}.mlp.fc2.* | stages.{s}.{j}.pwconv2.*
head.norm.* | norm.*
head.fc.* | head.*
""",
    "torchvision resnet": "* | *\n",
    "resnet in a training": "* | module.*\n",
}
NAMINGS["TResNet, first release"] = "".join(
    f"body.layer{stage}.0.conv{k}.conv.* | body.layer{stage}.0.conv{k}.0.0.*\nbody.layer{stage}.0.conv{k}.bn.* | body.layer{stage}.0.conv{k}.0.1.*\n"
    for stage, k in ((2, 1), (3, 2), (4, 2))) + """
body.conv1.conv.* | body.conv1.0.*
body.conv1.bn.* | body.conv1.1.*
body.layer{s}.{j}.conv{k}.conv.* | body.layer{s}.{j}.conv{k}.0.*
body.layer{s}.{j}.conv{k}.bn.* | body.layer{s}.{j}.conv{k}.1.*
body.layer{s}.{j}.downsample.1.conv.* | body.layer{s}.{j}.downsample.1.0.*
body.layer{s}.{j}.downsample.1.bn.* | body.layer{s}.{j}.downsample.1.1.*
body.layer{s}.{j}.se.fc1.* | body.layer{s}.{j}.se.fc1.*
body.layer{s}.{j}.se.fc2.* | body.layer{s}.{j}.se.fc2.*
head.fc.* | head.fc.*
"""


def parse(text):
    """[(timm's template, other template, operation)]"""
    rules = []
    for line in filter(None, text.splitlines()):
        columns = [part.strip() for part in line.split("|")]
        rules.append((columns[0], columns[1], columns[2] if len(columns) > 2 else ""))
    return rules


def pattern(template):
    """A regular expression for a template of one name."""
    text = re.escape(template).replace(r"\*", r"(?P<rest>.+)" if template.startswith("*") else r"(?P<rest>weight|bias|running_mean|running_var)")
    return re.compile(re.sub(r"\\{([a-z])\\}", r"(?P<\1>\\d+)", text))


def alternatives_of(name):
    """`a.{b,c}` is a.b and a.c."""
    several = re.search(r"\{([^{}]*,[^{}]*)\}", name)
    return [name[:several.start()] + part + name[several.end():] for part in several[1].split(",")] if several else [name]


def names_of(template, found):
    """The names that a template stands for: found has what its letters and its star mean."""
    def number(match):
        times, letter, sign, more = match.groups()
        return str(int(times or 1) * int(found[letter]) + int(sign + more if more else 0))

    name = re.sub(r"\{(\d?)([a-z])(?:([+-])(\d))?\}", number, template).replace("*", found.get("rest", ""))
    return alternatives_of(name)


def convert(operation, values, count):
    """The tensors, count of them, of another naming."""
    first = values[0]
    if operation == "split":
        return np.split(first, count)
    if operation == "join":
        return [np.concatenate(values)]
    if operation == "transpose":
        return [np.ascontiguousarray(first.T)]
    if operation == "squeeze":
        kept = [size for at, size in enumerate(first.shape) if any(before != 1 for before in first.shape[:at + 1])]
        return [first.reshape(kept)]
    if operation == "pixel":
        return [first.reshape(-1, 1, 1)]
    if operation == "halve":
        return [first / np.float32(2)]
    if operation == "behind":
        return [np.concatenate([first / np.float32(2), values[1]], axis=1)]
    assert operation == "", operation
    return [first]


def renamed(tensors, rules):
    """Tensors with timm's names as another library names them. Each must have a rule, except that of a part the other library leaves out."""
    made, used = {}, set()
    for template, other, operation in rules:
        if template == "-":
            continue
        alternatives = alternatives_of(template)
        expression = pattern(alternatives[-1])
        for name in list(tensors):
            found = expression.fullmatch(name)
            if not found or name in used:
                continue
            taken = [names_of(part, found.groupdict())[0] for part in alternatives]
            others = names_of(other, found.groupdict())
            used.update(taken)
            if other != "-":
                made.update(zip(others, convert(operation, [tensors[part] for part in taken], len(others))))
    left = tensors.keys() - used
    assert not left, f"no rule for {sorted(left)[:4]}"
    return made


def besides(rules):
    """Names of what such a file holds besides the image tower."""
    return [other for template, other, _ in rules if template == "-"]
