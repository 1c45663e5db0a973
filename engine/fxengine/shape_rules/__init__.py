"""The results of frequent operations on meta tensors, found without asking torch.

Torch's own meta kernels of these operations are decompositions written in Python that take 50 to 800 µs a call; a
rule takes two, and their first call makes torch load a package for algebra. A rule answers only where the answer is
beyond doubt, and None otherwise: then torch is asked, and torch finds the words for what is wrong. Rules look at
shapes and types, never at devices.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor
from torch.utils import _pytree as pytree

from fxengine.shape_rules.arranging import cat, indexed, stack, triangle
from fxengine.shape_rules.elementwise import (
    any_or_all,
    arithmetic,
    choice,
    comparison,
    dropout,
    elementwise,
    floored,
    gated,
    junction,
    log_sum_exp,
    masked_fill,
    norm,
    reduction,
    running,
    softmax,
    truth,
    vector_norm,
    with_numbers,
)  # fmt: skip
from fxengine.shape_rules.layers import (
    attention,
    batch_norm,
    cell,
    convolution,
    group_norm,
    grouped_matmul,
    instance_norm,
    layer_norm,
    leaky_by_weight,
    linear,
    matmul,
    multi_head_attention,
    product_and_sum,
    recurrent,
)  # fmt: skip
from fxengine.shape_rules.losses import class_loss, cosine_similarity, ctc_loss, gradients, loss
from fxengine.shape_rules.operands import check_types
from fxengine.shape_rules.refusals import REFUSALS
from fxengine.shape_rules.resampling import adaptive_pool, interpolated, inverse_fourier, sampled
from fxengine.shape_rules.shapes import Rule

__all__ = ["REFUSALS", "RULES", "answer", "check_types"]


def answer(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a function of torch returns for these arguments, None where no rule is sure of it."""
    rule = RULES.get(function)
    if rule is None:
        return None
    try:
        # Torch's Python functions name all that they were not given, too.
        return rule(*args, **{name: value for name, value in kwargs.items() if value is not None})
    except (TypeError, AttributeError, IndexError, ValueError):
        # The arguments have other names or types than a rule expects; whether torch takes them it says itself.
        return None


def _by_example(function: Callable[..., Any]) -> Rule:
    """The rule of a function that has no kernel for tensors without data: it is run on ones, drawing no numbers."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        given, named = pytree.tree_map_only(Tensor, lambda each: torch.ones_like(each, device="cpu"), (args, kwargs))
        with torch.random.fork_rng(devices=()), torch.no_grad():
            result = function(*given, **named)
        return pytree.tree_map_only(Tensor, lambda each: torch.empty_like(each, device="meta"), result)

    return rule


_WITHOUT_KERNEL = """
    lstsq geqrf histogram corrcoef cov combinations binomial _sample_dirichlet fake_quantize_per_tensor_affine
    gaussian_nll_loss
"""


def _functions(names: str) -> list[Callable[..., Any]]:
    """Return the functions and methods of torch that have one of the names."""
    owners = (torch, F, torch.linalg, Tensor)
    found = [getattr(owner, name, None) for owner in owners for name in names.split()]
    return [each for each in found if callable(each)]


def _named(names: str, rule: Rule) -> dict[Callable[..., Any], Rule]:
    """Return ``rule`` for each function and method of torch that has one of the names."""
    return dict.fromkeys(_functions(names), rule)


_ELEMENTWISE_NAMES = """
    relu relu6 gelu silu mish elu selu celu leaky_relu hardswish hardsigmoid hardtanh softplus softsign sigmoid tanh
    logsigmoid tanhshrink exp expm1 log log1p log2 sqrt rsqrt abs neg sin cos tan erf square reciprocal floor ceil round
    nan_to_num normalize local_response_norm
"""


_DROPOUT_NAMES = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout"


_ARITHMETIC_NAMES = """
    add sub mul div true_divide subtract multiply divide __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__
    __truediv__ __rtruediv__
"""


_COMPARISON_NAMES = "eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__"


RULES: dict[Callable[..., Any], Rule] = {
    **_named(_ELEMENTWISE_NAMES, elementwise),
    **_named(_DROPOUT_NAMES, dropout),
    **_named(_ARITHMETIC_NAMES, arithmetic),
    **_named(_COMPARISON_NAMES, comparison),
    Tensor.masked_fill: masked_fill,
    torch.masked_fill: masked_fill,
    torch.autograd.grad: gradients,
    torch._VF.lstm: recurrent,
    torch._VF.gru: recurrent,
    torch._VF.rnn_tanh: recurrent,
    torch._VF.rnn_relu: recurrent,
    **_named("grouped_mm _grouped_mm", grouped_matmul),
    F.linear: linear,
    F.conv1d: convolution,
    F.conv2d: convolution,
    F.conv3d: convolution,
    torch.matmul: matmul,
    Tensor.matmul: matmul,
    Tensor.__matmul__: matmul,
    F.layer_norm: layer_norm,
    F.rms_norm: layer_norm,
    **_named("softmax log_softmax", softmax),
    F.group_norm: group_norm,
    F.batch_norm: batch_norm,
    F.scaled_dot_product_attention: attention,
    torch.cat: cat,
    torch.concat: cat,
    torch.stack: stack,
    F.adaptive_avg_pool1d: adaptive_pool(1),
    F.adaptive_avg_pool2d: adaptive_pool(2),
    F.adaptive_avg_pool3d: adaptive_pool(3),
    F.interpolate: interpolated,
    F.grid_sample: sampled,
    F.instance_norm: instance_norm,
    F.prelu: leaky_by_weight,
    F.multi_head_attention_forward: multi_head_attention,
    **_named("addmm", product_and_sum),
    torch._VF.lstm_cell: cell,
    torch._VF.gru_cell: cell,
    torch._VF.rnn_tanh_cell: cell,
    torch._VF.rnn_relu_cell: cell,
    Tensor.__getitem__: indexed,
    **_named("tril triu", triangle),
    F.glu: gated,
    **_named("where", choice),
    **_named("logical_and logical_or logical_xor __and__ __or__ __xor__", junction),
    **_named("isnan isinf isfinite", truth),
    **_named("any all", any_or_all),
    **_named("floor_divide __floordiv__ remainder __mod__ fmod", floored),
    **_named("cumsum cumprod logcumsumexp", running),
    **_named("logsumexp", log_sum_exp),
    torch.linalg.vector_norm: vector_norm,
    torch.norm: norm,
    Tensor.norm: norm,
    **_named("mse_loss l1_loss smooth_l1_loss huber_loss kl_div", loss),
    **_named("binary_cross_entropy binary_cross_entropy_with_logits", loss),
    F.cross_entropy: class_loss,
    F.nll_loss: class_loss,
    F.cosine_similarity: cosine_similarity,
    **{function: _by_example(function) for function in _functions(_WITHOUT_KERNEL)},
    torch.istft: inverse_fourier,
    Tensor.istft: inverse_fourier,
    F.ctc_loss: ctc_loss,
    **_named("mean sum", reduction),
    **_named("pow __pow__ clamp clamp_min clamp_max clip", with_numbers),
}
