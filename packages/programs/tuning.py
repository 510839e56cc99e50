"""Packages around Hugging Face's models: PEFT, sentence-transformers; x-transformers, ViT-PyTorch, performers and their like."""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from packages.values import filled, integers, normal, program, trained


def _llama() -> Any:
    import transformers as tf

    return filled(
        tf.LlamaForCausalLM(
            tf.LlamaConfig(
                vocab_size=99,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=37,
                num_key_value_heads=2,
                max_position_embeddings=64,
            )
        )
    )


def _tuned(config: Any) -> dict[str, Any]:
    import peft

    model = filled(peft.get_peft_model(_llama(), config))
    ids = integers(99, 2, 8)
    losses = trained(
        [value for value in model.parameters() if value.requires_grad],
        lambda: model(input_ids=ids, labels=ids).loss,
        3,
        lr=0.1,
    )
    model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        out = model(input_ids=ids).logits
        model.save_pretrained(folder)
        base = model.get_base_model()
        loaded = peft.PeftModel.from_pretrained(_llama(), folder).eval() if not hasattr(base, "prompt") else model
        again = loaded(input_ids=ids).logits
    counts = model.get_nb_trainable_parameters()
    return {"losses": losses, "out": out, "again": again, "trainable": float(counts[0])}


@program
def peft_lora() -> dict[str, Any]:
    import peft

    results = _tuned(
        peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    model = filled(peft.get_peft_model(_llama(), peft.LoraConfig(r=2, target_modules=["q_proj"], use_dora=True))).eval()
    ids = integers(99, 2, 8)
    with torch.no_grad():
        results["dora"] = model(input_ids=ids).logits
        results["merged"] = model.merge_and_unload()(input_ids=ids).logits
    return results


@program
def peft_others() -> dict[str, Any]:
    import peft

    return {
        "ia3": _tuned(
            peft.IA3Config(
                target_modules=["k_proj", "v_proj", "down_proj"],
                feedforward_modules=["down_proj"],
                task_type="CAUSAL_LM",
            )
        )["losses"],
        "prefix": _tuned(peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"))["losses"],
        "prompt": _tuned(peft.PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"))["losses"],
        "vera": _tuned(peft.VeraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))["trainable"],
    }


@program
def sentence_transformers() -> dict[str, Any]:
    import sentence_transformers as st
    import sentence_transformers.sentence_transformer.losses as losses_of
    import sentence_transformers.sentence_transformer.modules as parts
    import transformers as tf
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {
        word: number
        for number, word in enumerate("[PAD] [UNK] [CLS] [SEP] a cat sat on the mat dogs run fast in rain".split())
    }
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with tempfile.TemporaryDirectory() as folder:
        filled(
            tf.BertModel(
                tf.BertConfig(
                    vocab_size=len(words),
                    hidden_size=16,
                    num_hidden_layers=1,
                    num_attention_heads=2,
                    intermediate_size=20,
                    hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0,
                )
            )
        ).save_pretrained(folder)
        tf.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
        ).save_pretrained(folder)
        model = st.SentenceTransformer(modules=[parts.Transformer(folder), parts.Pooling(16)], device="cpu")
    sentences = ["a cat sat on the mat", "dogs run fast", "the cat run in the rain"]
    embeddings = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
    loss = losses_of.MultipleNegativesRankingLoss(model)
    features = [model.tokenize(sentences), model.tokenize(sentences[::-1])]
    losses = trained(model.parameters(), lambda: loss(features, None), 3)
    return {
        "embeddings": embeddings,
        "similarity": st.util.cos_sim(embeddings, embeddings),
        "losses": losses,
        "found": [float(hit["score"]) for hit in st.util.semantic_search(embeddings[:1], embeddings)[0]],
    }


@program
def x_transformers() -> dict[str, Any]:
    from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper

    ids, results = integers(50, 2, 12), {}
    for name, options in {
        "plain": {},
        "rotary": {"rotary_pos_emb": True, "ff_glu": True, "use_rmsnorm": True},
        "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
        "talking": {"attn_pre_talking_heads": True, "attn_qk_norm": True},
    }.items():
        model = filled(
            AutoregressiveWrapper(
                TransformerWrapper(
                    num_tokens=50, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=4, **options)
                )
            )
        )
        results[name] = trained(model.parameters(), lambda: model(ids), 3)
        results[f"{name} generated"] = model.generate(ids[:, :3], 5, temperature=0.0)
    encoder = filled(
        TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Encoder(dim=32, depth=1, heads=4))
    ).eval()
    return results | {"encoder": encoder(ids, mask=torch.arange(12)[None] < torch.tensor([[12], [7]]))}


@program
def vit_pytorch() -> dict[str, Any]:
    from vit_pytorch import SimpleViT, ViT
    from vit_pytorch.cct import CCT
    from vit_pytorch.mae import MAE

    common: dict[str, Any] = dict(image_size=32, patch_size=8, num_classes=4, dim=32, depth=2, heads=4, mlp_dim=32)
    image, results = normal(2, 3, 32, 32), {}
    for kind in (ViT, SimpleViT):
        model = filled(kind(**common))
        results[kind.__name__] = trained(model.parameters(), lambda: model(image).square().mean(), 3)
    model = filled(
        CCT(
            img_size=32,
            embedding_dim=32,
            n_conv_layers=1,
            num_layers=2,
            num_heads=2,
            mlp_ratio=2.0,
            num_classes=4,
            kernel_size=3,
            stride=2,
            padding=1,
            pooling_kernel_size=3,
            pooling_stride=2,
            pooling_padding=1,
        )
    ).eval()
    results["CCT"] = model(image)
    results["MAE"] = list(MAE(encoder=ViT(**common), decoder_dim=16, masking_ratio=0.75).decoder_pos_emb.weight.shape)
    return results


@program
def lucidrains() -> dict[str, Any]:
    """Attention and quantizers: local attention, Performer, rotary embeddings, vector quantization, an EMA, Lion."""
    from ema_pytorch import EMA
    from lion_pytorch import Lion
    from local_attention import LocalAttention
    from performer_pytorch import SelfAttention
    from rotary_embedding_torch import RotaryEmbedding
    from vector_quantize_pytorch import FSQ, LFQ, VectorQuantize

    q, k, v = (normal(2, 4, 16, 8, seed=seed) for seed in range(3))
    x = normal(2, 16, 32)
    quantizer = filled(VectorQuantize(dim=32, codebook_size=16)).eval()
    model = filled(torch.nn.Linear(4, 2))
    average = EMA(model, beta=0.9, update_after_step=0, update_every=1)
    optimizer = Lion(model.parameters(), lr=0.01)
    for _ in range(3):
        trained([], lambda: model(normal(5, 4)).square().mean(), 1, optimizer)
        average.update()
    performer = filled(SelfAttention(dim=32, heads=4, causal=False, nb_features=16)).eval()
    return {
        "local": LocalAttention(window_size=4, causal=True, dim=8)(q, k, v),
        "rotary": RotaryEmbedding(dim=8).rotate_queries_or_keys(q),
        "performer": performer(x),
        "quantized": list(quantizer(x)[:2]),
        "fsq": FSQ(levels=[4, 4, 3])(normal(2, 6, 3))[0],
        "lfq": LFQ(dim=4, codebook_size=16)(normal(2, 6, 4))[0],
        "lion": model.weight,
        "ema": average.ema_model.weight,
    }
