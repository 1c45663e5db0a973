"""What parameters of models are usually called, and what they usually take: the table behind inferred arguments.

Also what configurations are called, be it a parameter, a class, a table of them, or the variable that holds its file.
"""

import re
from typing import Final

FILE: Final = "'weights.pt'"
"""What stands for a file."""


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CONFIGURATION: Final = re.compile(
    r"\w*config(uration)?s?|\w*cfgs?|confs?|args|arguments|h?params|(hyper)?parameters|options?|opts?|settings|hps"
)
"""Words for a configuration."""
_FORMAT: Final = frozenset({"yaml", "yml", "json", "toml"})


_TABLE: Final = re.compile(r"(\w+_)?(dict|mapping)\d*|dict_\w+")
"""Names that say that it is a table, whatever it has."""

_COUNTED: Final = re.compile(r"(n|num)_[a-z_]+_(states?|heads?|ctx|embd?|units|channels?|filters?|feat(?:ure)?s?)")
"""Names of numbers whose last word says what is counted, and the others of which part: `n_text_state`."""


def is_configuration(name: str) -> bool:
    """Whether a parameter, a class or a table is called as configurations are: `opt`, `NetConfig`, `MODEL_CONFIGS`."""
    words = _WORD.findall(name)
    return bool(words) and _CONFIGURATION.fullmatch(words[-1].lower()) is not None


def holds_configuration(name: str) -> bool:
    """Whether a variable is called as the path of a configuration is: `cfg_path`, `yaml_file`."""
    words = [each.lower() for each in _WORD.findall(name)]
    return any(each in _FORMAT or _CONFIGURATION.fullmatch(each) for each in words)


def is_table_called(name: str) -> bool:
    """Whether something is called as a table is that is gone over, and counted, as lists are: `word2idx`."""
    return _TABLE.fullmatch(name) is not None or any(each.startswith("{") for each in usual_values(name))


def usual_values(name: str) -> tuple[str, ...]:
    """Return what a parameter of this name usually takes, as expressions, best first; empty for an unusual name."""
    told = _COUNTED.fullmatch(name.lower())
    for each in dict.fromkeys((f"{told[1]}_{told[2]}", name) if told is not None else (name, name.lower())):
        found = next((values for pattern, values in _NAMED if pattern.fullmatch(each)), ())
        if found:
            return found
    return ()


def is_text_called(name: str) -> bool:
    """Whether something is called as texts are: `user_field`, `weights_path`."""
    values = usual_values(name)
    return bool(values) and all(each[:1] == "'" for each in values)


_OF_DEVICES: Final = (
    r"cuda|(multi_?|data_?)?gpus?|xpu|mps|tpu|hpu|(fast_)?flash(_?att(entio)?n)?(_?2)?|triton|xformers|apex"
)
"""What flags are about that ask for an accelerator, or for kernels that need one."""

KINDS_OF_EDGES: Final = "[('a', 'to', 'b'), ('b', 'to', 'a')]"
"""The kinds of edges of a graph with two kinds of nodes."""

_NAMED: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(pattern), values)
    for pattern, values in (
        # What a machine may lack, or what numbers of half the size need, is asked for by those who have it.
        (rf"((use|is|has|with|enable|to)_?)?({_OF_DEVICES})(_available)?", ("False", "True")),
        (
            r"((use|is|has|with|enable)_?)?(\w+_)?(fp16|bf16|amp|half_precision|mixed_precision)(_\w+)?",
            ("False", "True"),
        ),
        (r"(use|is|has|with|enable|return|apply|share)_\w+", ("True", "False")),
        (r"no_(blocks|heads|layers|transitions|recycles)\w*", ("2", "4", "1")),
        (r"no_(\w+_)?(bins|channels|angles|points|classes)", ("8", "64", "4")),
        (r"(\w+_)?edge_?ind(ex|ices)", ("torch.zeros(2, 64, dtype=torch.int64)",)),
        (r"edge_?type", ("torch.zeros(64, dtype=torch.int64)",)),
        (r"axis|axes|\w+_axis", ("1", "-1", "0")),
        (r"itos", ("['<pad>', '<unk>', 'a', 'b']",)),
        (r"\w+?(2|_to_)(idx|ids?|index|indices|ix|int|num)", ("{'<pad>': 0, '<unk>': 1, 'a': 2, 'b': 3}",)),
        (r"(idx|ids?|index|ix|int|num)(2|_to_)\w+", ("{0: '<pad>', 1: '<unk>', 2: 'a', 3: 'b'}",)),
        (r"(\w+_)?batch_?size|bs", ("2", "4")),
        (r"(\w+_)?seed", ("0",)),
        (r"(\w+_)?metadata", (f"(['a', 'b'], {KINDS_OF_EDGES})",)),
        (r"(canonical_)?e(dge_)?types", (KINDS_OF_EDGES,)),
        (r"(\w+_)?((id|item|user|label|target|text)_field|prefix|suffix)", ("'a'", "''")),
        (r"(\w+_)?mult(ipliers?|s)?", ("2", "[1, 2]", "1", "4")),
        (r"_?target_?|class_path|(full_)?class_name", ("'torch.nn.Identity'",)),
        (r"(.*_)?(model|encoder|tokenizer|bert|lm)_(name_or_path|path_or_name|id|card)", ("'bert-base-uncased'",)),
        (
            r"(.*_)?((ro)?berta?|hf|hugging_?face|plm|ll?m|transformers?|language)(_model)?_(name|path)|pretrained_((ro)?berta?|plm|ll?m|transformer|language_model)",
            ("'bert-base-uncased'", "'resnet18'", "'weights.pt'"),
        ),
        (r"(.*_)?(n_?ffts?|(fft|win)_(sizes?|lengths?)|(window|frame)_lengths?)", ("512",)),
        (r"(.*_)?(hop_lengths?|hop_sizes?|hops?|frame_shift)", ("128",)),
        (r"(.*_)?(sample_?rate|sampling_rate|sr|fs)(_?hz)?", ("16000",)),
        (r"(.*_)?(up|down)(sampl(e|ing))?_?(rates?|factors?|ratios?|scales?)", ("2", "(2, 2)", "[2, 2]", "4")),
        (r"(tok(en)?|word|input|wt)_?emb(ed(ding)?s?)?|embed_tokens|wte", ("64", "torch.nn.Embedding(1000, 64)")),
        (r"(n_)?modes(_?\w)?", ("8", "(8, 8)")),
        (r"(\w+_)?(moving|running)_?(avg|average|mean)(_?(window|kernel))?(_?size)?", ("25", "3")),
        (r"(n|num|number)_?(of_)?(nodes|vertices|vertex)", ("16", "64")),
        (r"(n|num)_?(vocabs?|letters|symbols|phonemes|phones)|vocab_len", ("1000",)),
        (r"(n|num)_?e", ("64",)),
        (r"(layer|block|stage)_?(id|number|no|i)|(.*_)?(idx|index)(_(of|for)(_\w+)?)?", ("0", "1")),
        (r"(\w+_)?(pad|bos|eos|unk|mask|cls|sep|sos|blank|start|end)_?(tok(en)?_?(id|idx|index)|id)", ("0", "1")),
        (r"(n|num)_?time(s|_?(points|samples))?", ("512", "64")),
        (r"(\w+_)?f(eature)?_?map_?(size|res(olution)?|dim)s?", ("8", "(8, 8)", "[8, 8]")),
        (
            r"(in|input)_?(ch|channels?|chans?|planes|c)|channels_in|c_in|nc|inplanes|image_channels|img_channels",
            ("3", "64", "1"),
        ),
        (r"(n|num)_?class(es)?|num_labels|n_?cls|nclass|num_outputs|out_classes", ("10",)),
        (
            r"(img|image|input|patch_grid|crop)_?(size|res|resolution)|(in_)?resolution|image_(height|width)",
            ("32", "(32, 32)", "224"),
        ),
        (r"irreps(_\w+)?|\w+_irreps(_\w+)?", ("'8x0e + 8x1o'", "'8x0e'")),
        (r"(input|image|img|obs|observation|state)_?shape", ("(3, 32, 32)", "[3, 32, 32]", "(64,)", "[64]")),
        (r"act(ion)?s?_?shape", ("(4,)", "[4]", "4")),
        (r"patch_?size|patch(_height|_width)?", ("4", "(4, 4)", "16")),
        # A picture is mostly as wide as it is high, and so are the patches that it is cut into.
        (r"(n|num)_?(of_)?(\w+_)?patch(es)?|(\w+_)?patch(es)?_(num|count)", ("16", "64")),
        (r"(window|win)_?size|window", ("4", "(4, 4)", "7")),
        # Twice the steps, as what is laid out in such steps has no gaps then, and is as many times as long as it was.
        (r"up(sampl(e|ing))?_?(kernel(_?sizes?)?|k(er)?_?(size|sz))", ("4", "(4, 4)", "[4, 4]")),
        (r"(\w+_)?(kernel(_?sizes?)?|k(er)?_?(size|sz))|ks|k", ("3", "(3, 3)")),
        (
            r"(\w+_)?strides?(_?sizes?)?|dilations?|scales?|scale_factors?|upscale|r|factors?|reductions?|ratios?|expansions?|expand_ratios?",
            ("2", "1", "4"),
        ),
        (r"min_(\w+_)?(ratio|fraction)", ("0", "0.1")),
        (r"(\w+_)?(mask(ing)?|keep|decode|valid(ation)?|test|train|pool|noise)_(ratio|fraction)", ("0.5", "1")),
        (r"\w+_ratio", ("2", "0.5", "4")),
        (r"pad(ding)?", ("1",)),
        (
            r"(?!norm_|act_)\w+_(layers|blocks|stages|depths?|levels)(_list)?|(\w+_)?(n|num|nb)_?(layer|block|stage|level)",
            ("2", "(2, 2)", "[2, 2, 2, 2]"),
        ),
        (r"l_?max|max_?l|(max_)?(ell|degree|order)", ("2", "1")),
        (r"groups|(n|num)_groups|cardinality", ("4", "1", "8")),
        (r"(n|num)_?heads?|heads?|nhead|h|attention_heads|num_attention_heads|kv_heads|num_kv_heads", ("4", "8", "1")),
        (r"(dim|d|size)_?(per_)?head|head_(dim|size)|dim_head|d_k|d_v", ("16", "64")),
        (
            r"(n|num)_?(layers?|blocks?|stages?|levels?|res_?blocks?)(_list)?|depths?(_list)?|layers?|blocks?|N",
            ("2", "(2, 2)", "[2, 2, 2, 2]"),
        ),
        (r"(n|num)_?experts?|experts", ("4",)),
        (r"top_?k", ("2",)),
        (
            r"(vocab|vocabulary)(_?size)?|(n|num)_(tokens|embeddings|words|items|users|codes|chars)|n?vocab|(src|tgt|trg)_vocab(_size)?|ntoken",
            ("1000",),
        ),
        (
            r"(max_?)?(seq_?(len(gth)?)?|len(gth)?|position(_embedding)?s|context(_length)?|tokens)|block_size|n_ctx|T|num_frames|frames",
            ("32", "64"),
        ),
        (r"(?!.*drop|n_|num_|use_)((.*_)?f?(path|file)|.*file_?name|.*ckpt)", (FILE, "''")),
        (
            r".*(drop|dropout|_prob|_rate|_p(?![a-z])|momentum|alpha(?!bet)|beta|gamma|temperature|(?<![a-z])eps|epsilon|slope|lambda_?).*|p|eps",
            ("0.1",),
        ),
        (r"(n|num|spatial)_?dims?|ndims?|rank", ("2", "3", "1")),
        (
            r"(n|num)_?(embd?|emb|embeds?|hid(den)?s?|feat(ure)?s?|model|inner|states?|channels?|chans?|filters?|units|ch|in|out)",
            ("64", "8", "4"),
        ),
        (
            r"(n|num)_?(inputs?|outputs?|neurons|nodes|mels?|bins|dims?|hidden_\w+|input_\w+|output_\w+)",
            ("64", "8", "4"),
        ),
        (
            r"(\w+_)?(model|backbone|encoder|timm|arch|net)_?(name|type|arch|variant)|arch(itecture)?|variant",
            (
                "'resnet18'",
                "'bert-base-uncased'",
                "'base'",
                "'small'",
                "'tiny'",
                "'vit_tiny_patch16_224'",
                "'efficientnet_b0'",
            ),
        ),
        (
            r"(max_)?(n|num|number|number_of)_\w+|\w*(repeats?|iters?|iterations|steps|count|cells|hierarchies)",
            ("2", "4", "1"),
        ),
        (r"(\w+_)?(hidden|layers?|fc|mlp|dense)_(sizes|widths)|hiddens", ("[64, 64]", "(64, 64)", "64")),
        (r"(\w+_)?(filter_sizes|kernels)", ("[3, 3]", "3", "64")),
        (
            r".*(channels?|planes|filters?|width|features?|dims?|size|units|hidden|nf|ngf|ndf|embd?|embed(ding)?s?|d_model|d_ff|inner|mlp)(_?\d+)?|(in|out|hidden|latent|embed|model|z|x|y|c|t|d|n)?_?dim\d?|[cdnmx]\d?",
            ("64", "(64, 64)", "[64, 64]"),
        ),
        (
            r".*(norm)(_layer|_cls|_type)?",
            ("torch.nn.LayerNorm", "torch.nn.BatchNorm2d", "torch.nn.Identity()", "'layer'"),
        ),
        (
            r".*(?<![fprx])act(ivation)?(_?(layer|fn|cls|func))?|non_?linearity",
            ("torch.nn.GELU", "torch.nn.GELU()", "torch.nn.functional.gelu", "'relu'"),
        ),
        (r"(\w+_)?rnn_?(cls|class)", ("torch.nn.LSTM", "torch.nn.GRU")),
        (r"conv_?(op|layer|cls|class)", ("torch.nn.Conv2d", "torch.nn.Identity")),
        (
            r".*(fn|func|layer|module|block|net|model|encoder|decoder|backbone|head|proj|submodule|inner|stem|body|neck|conv)",
            ("torch.nn.Identity()", "torch.nn.Linear(64, 64)", "torch.nn.Identity"),
        ),
        (r"device", ("'cpu'",)),
        (r"dtype", ("torch.float32", "None")),
        (
            r"(use|is|with|has|do|no|enable|return|add|share)(_.*|[A-Z].*)?|(causal|bias|learn).*|.*_bias|residual|bidirectional|training|inplace",
            ("True", "False"),
        ),
        (r"mode|type|kind|name|.*_(mode|type|name)|padding_mode", ("'default'", "'resnet18'")),
    )
)
"""The first pattern that fits the whole name counts."""
