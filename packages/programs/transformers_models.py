"""Hugging Face transformers: models of its families with small shapes and fixed weights; each trains, is saved and loaded."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import transformers as tf

from packages.values import filled, integers, normal, program, trained

_SMALL = dict(
    vocab_size=99,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=37,
    max_position_embeddings=64,
)
_NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
_DECODER = dict(_SMALL, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def _checked(model: Any, inputs: dict[str, Any], output: str = "logits", steps: int = 3) -> dict[str, Any]:
    """Losses of a few steps, outputs after them, and whether a saved and loaded model gives the same."""
    filled(model).train()
    losses = trained(model.parameters(), lambda: model(**inputs).loss, steps)
    model.eval()
    with torch.no_grad():
        logits = getattr(model(**inputs), output)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            loaded = type(model).from_pretrained(folder).eval()
        same = bool(torch.allclose(getattr(loaded(**inputs), output), logits, atol=1e-5))
    return {"losses": losses, output: logits, "loaded": same}


def _language_model(model: Any, count: int = 5) -> dict[str, Any]:
    ids = integers(90, 2, 9, low=3)
    results = _checked(model, dict(input_ids=ids, labels=ids, attention_mask=torch.ones_like(ids)))
    with torch.no_grad():
        results["generated"] = model.generate(
            ids[:, :4],
            attention_mask=torch.ones_like(ids[:, :4]),
            max_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
        )
    return results


@program
def bert() -> dict[str, Any]:
    config = tf.BertConfig(**_SMALL, **_NO_DROPOUT, num_labels=3)
    ids, mask = integers(99, 3, 7), torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 3 + [0] * 4])
    return _checked(
        tf.BertForSequenceClassification(config),
        dict(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 2, 1])),
    )


@program
def bert_masked_lm() -> dict[str, Any]:
    ids = integers(99, 2, 7)
    return _checked(tf.BertForMaskedLM(tf.BertConfig(**_SMALL, **_NO_DROPOUT)), dict(input_ids=ids, labels=ids))


@program
def distilbert() -> dict[str, Any]:
    config = tf.DistilBertConfig(
        vocab_size=99,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=37,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
    )
    return _checked(
        tf.DistilBertForSequenceClassification(config),
        dict(input_ids=integers(99, 3, 7), labels=torch.tensor([0, 1, 1])),
    )


@program
def roberta() -> dict[str, Any]:
    config = tf.RobertaConfig(**_SMALL, **_NO_DROPOUT)
    return _checked(
        tf.RobertaForTokenClassification(config), dict(input_ids=integers(99, 2, 7, low=3), labels=integers(2, 2, 7))
    )


@program
def electra() -> dict[str, Any]:
    config = tf.ElectraConfig(**_SMALL, **_NO_DROPOUT, embedding_size=16)
    return _checked(
        tf.ElectraForSequenceClassification(config), dict(input_ids=integers(99, 2, 7), labels=torch.tensor([1, 0]))
    )


@program
def deberta() -> dict[str, Any]:
    config = tf.DebertaV2Config(
        **_SMALL, **_NO_DROPOUT, relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0
    )
    return _checked(
        tf.DebertaV2ForSequenceClassification(config), dict(input_ids=integers(99, 2, 7), labels=torch.tensor([1, 0]))
    )


@program
def gpt2() -> dict[str, Any]:
    config = tf.GPT2Config(
        vocab_size=99,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return _language_model(tf.GPT2LMHeadModel(config))


@program
def gpt_neox() -> dict[str, Any]:
    return _language_model(
        tf.GPTNeoXForCausalLM(
            tf.GPTNeoXConfig(**_SMALL, attention_dropout=0.0, hidden_dropout=0.0, bos_token_id=1, eos_token_id=2)
        )
    )


@program
def opt() -> dict[str, Any]:
    config = tf.OPTConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=37,
        max_position_embeddings=64,
        word_embed_proj_dim=32,
        dropout=0.0,
        attention_dropout=0.0,
        pad_token_id=0,
    )
    return _language_model(tf.OPTForCausalLM(config))


@program
def bloom() -> dict[str, Any]:
    return _language_model(
        tf.BloomForCausalLM(
            tf.BloomConfig(
                vocab_size=99, hidden_size=32, n_layer=2, n_head=4, hidden_dropout=0.0, attention_dropout=0.0
            )
        )
    )


@program
def llama() -> dict[str, Any]:
    return _language_model(tf.LlamaForCausalLM(tf.LlamaConfig(**_DECODER)))


@program
def mistral() -> dict[str, Any]:
    return _language_model(tf.MistralForCausalLM(tf.MistralConfig(**_DECODER, sliding_window=4)))


@program
def mixtral() -> dict[str, Any]:
    return _language_model(
        tf.MixtralForCausalLM(
            tf.MixtralConfig(**_DECODER | {"intermediate_size": 40}, num_local_experts=4, num_experts_per_tok=2)
        )
    )


@program
def qwen2() -> dict[str, Any]:
    return _language_model(tf.Qwen2ForCausalLM(tf.Qwen2Config(**_DECODER)))


@program
def gemma() -> dict[str, Any]:
    return _language_model(tf.GemmaForCausalLM(tf.GemmaConfig(**_DECODER, head_dim=8)))


@program
def phi() -> dict[str, Any]:
    return _language_model(tf.PhiForCausalLM(tf.PhiConfig(**_DECODER, embd_pdrop=0.0, resid_pdrop=0.0)))


@program
def mamba() -> dict[str, Any]:
    config = tf.MambaConfig(
        vocab_size=99, hidden_size=32, state_size=8, num_hidden_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2
    )
    return _language_model(tf.MambaForCausalLM(config))


@program
def t5() -> dict[str, Any]:
    config = tf.T5Config(
        vocab_size=99,
        d_model=32,
        d_kv=8,
        d_ff=37,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    model, ids = tf.T5ForConditionalGeneration(config), integers(99, 2, 7, low=3)
    results = _checked(model, dict(input_ids=ids, labels=ids[:, :5].contiguous()))
    with torch.no_grad():
        results["generated"] = model.generate(ids, max_new_tokens=5, do_sample=False, num_beams=2)
    return results


@program
def bart() -> dict[str, Any]:
    config = tf.BartConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        max_position_embeddings=64,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
    )
    model, ids = tf.BartForConditionalGeneration(config), integers(90, 2, 7, low=4)
    results = _checked(model, dict(input_ids=ids, labels=ids))
    with torch.no_grad():
        results["generated"] = model.generate(ids, max_new_tokens=5, do_sample=False, num_beams=1)
    return results


_IMAGE = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=37,
    image_size=32,
    patch_size=8,
    num_channels=3,
)


@program
def vit() -> dict[str, Any]:
    config = tf.ViTConfig(**_IMAGE, **_NO_DROPOUT, num_labels=4)
    return _checked(
        tf.ViTForImageClassification(config), dict(pixel_values=normal(2, 3, 32, 32), labels=torch.tensor([1, 3]))
    )


@program
def clip() -> dict[str, Any]:
    text, vision = dict(_SMALL, eos_token_id=98, bos_token_id=1, pad_token_id=0), dict(_IMAGE)
    config = tf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    ids = integers(97, 2, 7)
    ids[:, -1] = 98
    inputs = dict(
        input_ids=ids, pixel_values=normal(2, 3, 32, 32), attention_mask=torch.ones_like(ids), return_loss=True
    )
    return _checked(tf.CLIPModel(config), inputs, "logits_per_image")


@program
def whisper() -> dict[str, Any]:
    config = tf.WhisperConfig(
        vocab_size=99,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        max_source_positions=20,
        max_target_positions=20,
        dropout=0.0,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return _checked(
        tf.WhisperForConditionalGeneration(config), dict(input_features=normal(2, 16, 40), labels=integers(99, 2, 6))
    )


@program
def wav2vec2() -> dict[str, Any]:
    config = tf.Wav2Vec2Config(
        vocab_size=12,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        conv_dim=(16, 16),
        conv_kernel=(10, 3),
        conv_stride=(5, 2),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.0,
        final_dropout=0.0,
    )
    return _checked(tf.Wav2Vec2ForCTC(config), dict(input_values=normal(2, 400), labels=integers(12, 2, 4, low=1)))


@program
def segformer() -> dict[str, Any]:
    config = tf.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[8, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        num_labels=3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        drop_path_rate=0.0,
    )
    return _checked(
        tf.SegformerForSemanticSegmentation(config),
        dict(pixel_values=normal(2, 3, 32, 32), labels=integers(3, 2, 32, 32)),
    )


@program
def generate_sampling() -> dict[str, Any]:
    """Beams, penalties and constraints of `generate`, without draws."""
    config = tf.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=2
    )
    model = filled(tf.GPT2LMHeadModel(config), 3.0).eval()
    ids = integers(50, 2, 4, low=3)
    options: dict[str, Any] = dict(
        attention_mask=torch.ones_like(ids), max_new_tokens=6, pad_token_id=0, do_sample=False
    )
    with torch.no_grad():
        return {
            "beams": model.generate(ids, num_beams=3, **options),
            "penalty": model.generate(ids, repetition_penalty=1.5, **options),
            "ngrams": model.generate(ids, no_repeat_ngram_size=2, num_beams=2, length_penalty=0.5, **options),
            "scores": model.generate(ids, output_scores=True, return_dict_in_generate=True, **options).scores[-1],
        }


@program
def trainer() -> dict[str, Any]:
    """`Trainer`: two epochs with a schedule, evaluation and a checkpoint that is gone on from."""

    class Rows(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 16

        def __getitem__(self, place: int) -> dict[str, Any]:
            return {"input_ids": integers(99, 5 + place % 3, seed=place, low=1).tolist(), "labels": place % 2}

    def joined(rows: list[dict[str, Any]]) -> dict[str, Any]:
        longest = max([len(row["input_ids"]) for row in rows])
        ids = torch.tensor([row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows])
        return {
            "input_ids": ids,
            "attention_mask": (ids > 0).long(),
            "labels": torch.tensor([row["labels"] for row in rows]),
        }

    model = filled(tf.BertForSequenceClassification(tf.BertConfig(**_SMALL, **_NO_DROPOUT)))
    with tempfile.TemporaryDirectory() as folder:
        arguments = tf.TrainingArguments(
            folder,
            num_train_epochs=2,
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="epoch",
            eval_strategy="epoch",
            warmup_steps=2,
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )

        class InOrder(tf.Trainer):
            def _get_train_sampler(self, *args: Any) -> Any:
                return torch.utils.data.SequentialSampler(Rows())

        trainer = InOrder(model=model, args=arguments, train_dataset=Rows(), eval_dataset=Rows(), data_collator=joined)
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        evaluated = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        predicted = torch.tensor(trainer.predict(Rows()).predictions)
        resumed = InOrder(
            model=filled(tf.BertForSequenceClassification(model.config)),
            args=arguments,
            train_dataset=Rows(),
            eval_dataset=Rows(),
            data_collator=joined,
        )
        resumed.train(resume_from_checkpoint=f"{folder}/checkpoint-4")
        again = torch.tensor(resumed.predict(Rows()).predictions)
    return {
        "losses": losses,
        "evaluated": evaluated,
        "predicted": predicted,
        "resumed": bool(torch.allclose(predicted, again, atol=1e-4)),
    }


@program
def image_processors() -> dict[str, Any]:
    """Pictures of bytes, resized as bytes, by the processors of ten families; Lanczos among them"""
    picture = integers(256, 40, 53, 3).to(torch.uint8).numpy()
    kinds = "ViT CLIP ConvNext Detr Beit Segformer DPT Levit Siglip Idefics3".split()
    return {
        kind: getattr(tf, f"{kind}ImageProcessor")()(images=[picture], return_tensors="pt").pixel_values
        for kind in kinds
    }
