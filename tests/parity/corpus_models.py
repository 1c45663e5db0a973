"""Real models for the parity tests and the benchmark: which ones, and how each is built on the meta device.

The libraries are those of `make corpus`; nothing here imports them before a model is built.
"""

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn

from tests.support import corpus

TORCHVISION = """
    alexnet convnext_base convnext_large convnext_small convnext_tiny deeplabv3_mobilenet_v3_large
    deeplabv3_resnet101 deeplabv3_resnet50 densenet121 densenet161 densenet169 densenet201
    efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4 efficientnet_b5
    efficientnet_b6 efficientnet_b7 efficientnet_v2_l efficientnet_v2_m efficientnet_v2_s
    fasterrcnn_mobilenet_v3_large_320_fpn fasterrcnn_mobilenet_v3_large_fpn fasterrcnn_resnet50_fpn
    fasterrcnn_resnet50_fpn_v2 fcn_resnet101 fcn_resnet50 fcos_resnet50_fpn googlenet inception_v3
    keypointrcnn_resnet50_fpn lraspp_mobilenet_v3_large maskrcnn_resnet50_fpn
    maskrcnn_resnet50_fpn_v2 maxvit_t mc3_18 mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3
    mobilenet_v2 mobilenet_v3_large mobilenet_v3_small mvit_v1_b mvit_v2_s quantized_googlenet
    quantized_inception_v3 quantized_mobilenet_v2 quantized_mobilenet_v3_large quantized_resnet18
    quantized_resnet50 quantized_resnext101_32x8d quantized_resnext101_64x4d
    quantized_shufflenet_v2_x0_5 quantized_shufflenet_v2_x1_0 quantized_shufflenet_v2_x1_5
    quantized_shufflenet_v2_x2_0 r2plus1d_18 r3d_18 raft_large raft_small regnet_x_16gf
    regnet_x_1_6gf regnet_x_32gf regnet_x_3_2gf regnet_x_400mf regnet_x_800mf regnet_x_8gf
    regnet_y_128gf regnet_y_16gf regnet_y_1_6gf regnet_y_32gf regnet_y_3_2gf regnet_y_400mf
    regnet_y_800mf regnet_y_8gf resnet101 resnet152 resnet18 resnet34 resnet50 resnext101_32x8d
    resnext101_64x4d resnext50_32x4d retinanet_resnet50_fpn retinanet_resnet50_fpn_v2 s3d
    shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_0
    squeezenet1_1 ssd300_vgg16 ssdlite320_mobilenet_v3_large swin3d_b swin3d_s swin3d_t swin_b
    swin_s swin_t swin_v2_b swin_v2_s swin_v2_t vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19
    vgg19_bn vit_b_16 vit_b_32 vit_h_14 vit_l_16 vit_l_32 wide_resnet101_2 wide_resnet50_2
""".split()  # noqa: SIM905 - a list literal would fill pages.

# One model for each module of the library.
TIMM = """
    aimv2_1b_patch14_224 bat_resnext26ts beit_base_patch16_224 botnet26t_256 caformer_b36
    cait_m36_384 coat_lite_medium coatnet_0_224 convit_base convmixer_768_32 convnext_atto
    cpubone_b0_bfrobust crossvit_9_240 cs3darknet_focus_l csatv2 cspnext_l davit_base
    deepseek_vit_412m deit3_base_patch16_224 densenet121 dla34 dm_nfnet_f0 dpn48b eca_vovnet39b
    ecaresnet26t edgenext_base efficientformer_l1 efficientformerv2_l efficientnet_b0
    efficientvim_m1 efficientvit_b0 efficientvit_m0 eva02_base_patch14_224 fasternet_l fastvit_ma36
    fbnetv3_b focalnet_base_lrf gcvit_base gemma4_vit_167m ghostnet_050 gmixer_12_224 hardcorenas_a
    hgnet_base hiera_base_224 hieradet_small hrnet_w18 iformer_h inception_next_atto
    inception_resnet_v2 inception_v3 inception_v4 lcnetv2_base legacy_senet154 legacy_xception
    levit_128 lowformer_b0 mambaout_base mobilenetv5_300m mobilevit_s mvitv2_base
    naflexvit_base_patch16_gap nasnetalarge nest_base nextvit_base pit_b_224 pnasnet5large pvt_v2_b0
    qwen3_vit_88m rdnet_base regnetv_040 repghostnet_050 repvit_m0_9 res2net50_14w_8s resnest14d
    resnetv2_18 rexnet_100 samvit_base_patch16 selecsls42 sequencer2d_l shvit_s1 skresnet18
    starnet_s1 swiftformer_l1 swin_base_patch4_window7_224 swinv2_base_window8_256
    swinv2_cr_base_224 test_vit_relpos tiny_vit_5m_224 tnt_b_patch16_224 tresnet_l twins_pcpvt_base
    vgg11 visformer_small vit_base_mci_224 vitamin_base_224 volo_d1_224 xception41
    xcit_large_24_p8_224
""".split()  # noqa: SIM905 - a list literal would fill pages.

VIT_PYTORCH = """
    ats_vit.ViT attn_residual_with_dca_simple_vit.SimpleViT cait.CaiT cross_vit.CrossTransformer
    crossformer.CrossFormer cvt.CvT deepvit.DeepViT jumbo_vit.JumboViT
    learnable_memory_vit.ViT levjepa.VideoTransformer levjepa_nd.NDTransformer
    local_vit.LocalViT mp3.ViT na_vit.NaViT na_vit_nested_tensor.NaViT na_vit_nested_tensor_3d.NaViT
    normalized_vit.nViT parallel_vit.ViT regionvit.RegionViT rvt.RvT simple_flash_attn_vit.SimpleViT
    simple_flash_attn_vit_3d.SimpleViT simple_uvit.SimpleUViT simple_vit.SimpleViT
    simple_vit_1d.SimpleViT simple_vit_3d.SimpleViT simple_vit_attn_residual.SimpleViTAttnResidual
    simple_vit_orthog_residual_update.SimpleViT simple_vit_with_patch_dropout.SimpleViT
    simple_vit_with_qk_norm.SimpleViT simple_vit_with_register_tokens.SimpleViT
    simple_vit_with_relative_proj_pos_bias.SimpleViT
    simple_vit_with_sparse_gating.SimpleViTWithSparseGating
    simple_vit_with_specialized_cls.SimpleViT simple_vit_with_value_residual.SimpleViT
    twins_svt.TwinsSVT vat.ViT vat_siglip.SigLIPVAT vit.ViT vit_1d.ViT vit_3d.ViT
    vit_5.ViT vit_detpool.ViTDetPool vit_for_small_dataset.ViT vit_nd.ViTND vit_nd_pope.ViTND
    vit_nd_rotary.ViTND vit_with_decorr.ViT vit_with_keel_post_ln.ViT vit_with_patch_dropout.ViT
    vit_with_patch_merger.ViT vivit.ViViT vivit_with_moss.ViViT wwt.AutoencodingHead xcit.XCiT
""".split()  # noqa: SIM905 - a list literal would fill pages.

# Default configurations of two layers.
TRANSFORMERS = """
    AlbertModel ASTModel BartModel BeitModel BertModel BigBirdModel BitModel BlipVisionModel
    BloomModel CLIPModel CLIPTextModel CLIPVisionModel CanineModel CodeGenModel ConvNextModel
    ConvNextV2Model CvtModel DPTModel DebertaModel DebertaV2Model DeiTModel Dinov2Model
    DistilBertModel EfficientNetModel ElectraModel ErnieModel FNetModel FalconModel FocalNetModel
    FunnelModel GPT2Model GPTNeoModel GPTNeoXModel GPTJModel GemmaModel HieraModel HubertModel
    IBertModel LayoutLMModel LevitModel LlamaModel MPNetModel MambaModel MistralModel
    MobileBertModel MobileNetV2Model MobileViTModel NystromformerModel OPTModel PhiModel
    PoolFormerModel PvtModel Qwen2Model RegNetModel ResNetModel RobertaModel RoFormerModel
    SegformerModel SqueezeBertModel SwinModel Swinv2Model T5EncoderModel ViTModel ViTMAEModel
    VideoMAEModel Wav2Vec2Model XLNetModel YolosModel
""".split()  # noqa: SIM905 - a list literal would fill pages.

DIFFUSERS = """
    AutoencoderKL UNet2DModel UNet2DConditionModel VQModel AutoencoderTiny ControlNetModel
    DiTTransformer2DModel PixArtTransformer2DModel UNet1DModel AsymmetricAutoencoderKL
    ConsistencyDecoderVAE PriorTransformer T2IAdapter UVit2DModel
""".split()  # noqa: SIM905 - a list literal would fill pages.

KORNIA = """
    feature.SIFTDescriptor feature.LAFOrienter feature.DISK feature.BlobDoG feature.BlobHessian
    feature.CornerGFTT filters.Sobel filters.SpatialGradient filters.Canny color.RgbToGrayscale
    color.RgbToHsv color.HsvToRgb color.RgbToLab color.RgbToYcbcr color.RgbToLuv color.RgbToXyz
    color.RgbToHls color.BgrToRgb color.RgbToYuv
""".split()  # noqa: SIM905 - a list literal would fill pages.

OPEN_CLIP = """
    RN50 RN101 RN50-quickgelu ViT-B-32 ViT-B-16 ViT-L-14 ViT-S-32-alt ViT-B-32-quickgelu
    ViT-M-32-alt ViT-H-14 ViT-g-14 convnext_base convnext_tiny
""".split()  # noqa: SIM905 - a list literal would fill pages.

SEGMENTATION_MODELS = """
    Unet UnetPlusPlus MAnet Linknet FPN PSPNet DeepLabV3 DeepLabV3Plus PAN UPerNet Segformer DPT
""".split()  # noqa: SIM905 - a list literal would fill pages.

_OPTIONS: dict[str, Any] = {
    "image_size": 64,
    "patch_size": 16,
    "num_classes": 10,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 64,
    "dim_head": 16,
    "dropout": 0.1,
    "emb_dropout": 0.1,
    "channels": 3,
    "frames": 4,
    "frame_patch_size": 2,
    "image_patch_size": 16,
    "seq_len": 64,
    "spatial_depth": 2,
    "temporal_depth": 2,
    "num_register_tokens": 2,
    "max_patch_num": 8,
    "patch_merge_layer": 1,
    "patch_merge_num_tokens": 4,
    "window_size": 4,
    "num_memories_per_layer": 2,
    "cls_depth": 1,
    "sm_dim": 16,
    "lg_dim": 32,
    "sm_patch_size": 8,
    "lg_patch_size": 16,
    "sm_enc_depth": 1,
    "sm_enc_heads": 2,
    "sm_enc_mlp_dim": 16,
    "lg_enc_depth": 1,
    "lg_enc_heads": 2,
    "lg_enc_mlp_dim": 16,
    "cross_attn_depth": 1,
    "cross_attn_heads": 2,
    "img_size": 64,
    "max_tokens_per_depth": (4, 3),
    "ndim": 2,
    "input_shape": (64, 64),
    "ff_mult": 2,
    "width": 64,
    "num_heads": 2,
    "image_height": 64,
    "image_width": 64,
    "max_frames": 4,
}
"""What vit_pytorch's constructors are given for the parameters that they require."""


def models() -> Iterator[tuple[str, Callable[[], nn.Module]]]:
    """The name of every model, its library first, and a function that builds it on the meta device."""
    for library, names, build in (
        ("torchvision", TORCHVISION, _torchvision),
        ("timm", TIMM, _timm),
        ("vit_pytorch", VIT_PYTORCH, _vit_pytorch),
        ("transformers", TRANSFORMERS, _transformers),
        ("diffusers", DIFFUSERS, _without_arguments("diffusers")),
        ("kornia", KORNIA, _without_arguments("kornia")),
        ("open_clip", OPEN_CLIP, _open_clip),
        ("segmentation_models_pytorch", SEGMENTATION_MODELS, _segmentation_model),
    ):
        for name in names:
            yield f"{library}:{name}", lambda build=build, name=name: _on_meta(build, name)


def _on_meta(build: Callable[[str], nn.Module], name: str) -> nn.Module:
    corpus.prepare()
    # The other libraries would import it while tensors are made on the meta device.
    importlib.import_module("torchvision")
    regnet = importlib.import_module("torchvision.models.regnet")
    with torch.device("meta"), mock.patch.object(regnet.BlockParams, "from_init_params", _really(regnet.BlockParams)):
        return build(name).eval()


def _really(params: Any) -> Callable[..., Any]:
    """What computes the widths of torchvision's regnets, with tensors that are real."""
    compute = params.from_init_params

    @functools.wraps(compute)
    def from_init_params(*args: Any, **kwargs: Any) -> Any:
        with torch.device("cpu"):
            return compute(*args, **kwargs)

    return from_init_params


def _torchvision(name: str) -> nn.Module:
    models = importlib.import_module("torchvision.models")
    builder = models.get_model_builder(name)
    # Detectors and segmenters would download weights for their backbones.
    options = {"weights_backbone": None} if "weights_backbone" in inspect.signature(builder).parameters else {}
    return builder(weights=None, **options)


def _timm(name: str) -> nn.Module:
    return importlib.import_module("timm").create_model(name, pretrained=False)


def _vit_pytorch(name: str) -> nn.Module:
    module, _, class_name = name.partition(".")
    cls = getattr(importlib.import_module(f"vit_pytorch.{module}"), class_name)
    required = [
        parameter.name
        for parameter in inspect.signature(cls).parameters.values()
        if parameter.default is parameter.empty and parameter.kind != parameter.VAR_KEYWORD
    ]
    return cls(**{name: _OPTIONS[name] for name in required})


def _transformers(name: str) -> nn.Module:
    cls = getattr(importlib.import_module("transformers"), name)
    configuration = cls.config_class()
    for depth in ("num_hidden_layers", "num_layers", "n_layer", "n_layers"):
        # Some configurations compute their depth from the widths of the stages.
        with contextlib.suppress(AttributeError, NotImplementedError):
            if hasattr(configuration, depth):
                setattr(configuration, depth, 2)
    return cls(configuration)


def _without_arguments(library: str) -> Callable[[str], nn.Module]:
    def build(name: str) -> nn.Module:
        module, _, class_name = f"{library}.{name}".rpartition(".")
        return getattr(importlib.import_module(module), class_name)()

    return build


def _open_clip(name: str) -> nn.Module:
    library = importlib.import_module("open_clip")
    configuration = library.get_model_config(name)
    configuration.pop("custom_text", None)
    return library.CLIP(**configuration)


def _segmentation_model(name: str) -> nn.Module:
    return getattr(importlib.import_module("segmentation_models_pytorch"), name)(encoder_weights=None)
