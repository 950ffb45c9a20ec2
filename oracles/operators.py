"""What the oracles know of operators, by canonical name without the in-place underscore.

An operator in none of these tables is taken as inexact, smooth and of the default tolerance.
"""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    """A set of names from text."""
    return frozenset(text.split())


# Only moves values, or selects them by integers and booleans, or makes them from numbers that are written down.
MOVEMENT = names("""
    view reshape view_as reshape_as flatten unflatten ravel squeeze unsqueeze transpose permute movedim t adjoint mT mH T H numpy_T
    expand expand_as broadcast_to broadcast_tensors repeat repeat_interleave tile cat stack hstack vstack dstack column_stack
    split split_with_sizes chunk tensor_split hsplit vsplit dsplit unbind select narrow slice index getitem setitem index_select gather
    take take_along_dim roll flip fliplr flipud rot90 diagonal diag diag_embed diagflat tril triu pad unfold im2col pixel_shuffle
    pixel_unshuffle channel_shuffle native_channel_shuffle clone contiguous detach alias lift_fresh lift_fresh_copy copy fill zero
    masked_fill masked_select masked_scatter where index_fill index_copy index_put scatter slice_scatter select_scatter
    diagonal_scatter as_strided embedding one_hot zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full eye
    tril_indices triu_indices real imag conj conj_physical view_as_real view_as_complex resolve_conj resolve_neg complex meshgrid
    atleast_1d atleast_2d atleast_3d block_diag cartesian_prod combinations identity positive scalar_tensor tensor item
    size numel dim stride shape result_type is_floating_point dtype device max_unpool1d max_unpool2d max_unpool3d
""")

# Takes nothing but shape and dtype from its tensors.
INDEPENDENT = names("zeros_like ones_like full_like new_zeros new_ones new_full size numel dim shape stride dtype device is_floating_point")

# Picks or folds values without rounding, and continuously.
SELECTION = names("""
    abs neg relu relu6 hardtanh clamp clamp_min clamp_max maximum minimum fmax fmin max min amax amin aminmax sort topk kthvalue
    median nanmedian cummax cummin msort nan_to_num max_pool1d max_pool2d max_pool3d max_pool2d_with_indices
    max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_pool1d_with_indices
    fractional_max_pool2d ravel_multi_index
""")

# Exact on exact inputs, but a difference of one ulp in the input can change the result altogether.
STEPS = names("""
    eq ne lt le gt ge isclose allclose equal logical_not logical_and logical_or logical_xor any all floor ceil round trunc frac sign
    sgn signbit heaviside argmax argmin argsort bucketize searchsorted nonzero argwhere count_nonzero unique unique_consecutive isin
    threshold hardshrink mode copysign isnan isinf isfinite isposinf isneginf isreal bincount histc
""")

# Steps whose own arithmetic may round before the step.
ROUNDING_STEPS = names("floor_divide remainder fmod")

# Integer arithmetic where the machine's answer is not promised.
SHIFTS = names("bitwise_left_shift bitwise_right_shift")

CASTS = names("to type type_as _to_copy float double half bfloat16 int long short char byte bool convert_element_type asarray as_tensor")

# Returns (values, indices), the indices undetermined among equal elements.
PAIRS = names("""
    max min sort topk kthvalue median nanmedian mode cummax cummin max_pool2d_with_indices max_pool3d_with_indices
    max_pool1d_with_indices max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
""")
INDICES = names("argmax argmin argsort")

# Values that PyTorch does not determine: random, uninitialized, or unique only up to sign or order.
UNDETERMINED = names("""
    rand randn randint rand_like randn_like randint_like randperm normal bernoulli multinomial poisson uniform exponential geometric
    cauchy log_normal random empty empty_like new_empty empty_strided new_empty_strided resize resize_as rrelu alpha_dropout
    feature_dropout feature_alpha_dropout linalg_eig linalg_eigh linalg_svd linalg_qr svd qr linalg_lu linalg_lu_factor
    linalg_lstsq lstsq svd_lowrank pca_lowrank gumbel_softmax fractional_max_pool2d fractional_max_pool3d
""")
DROPOUT = names("dropout dropout1d dropout2d dropout3d dropout_nd alpha_dropout feature_alpha_dropout")

ADDITIVE = names("add sub rsub diff")
PRODUCTS = names("mul square outer")
QUOTIENTS = names("div reciprocal")
FUSED = names("addcmul lerp addr cross")
SUMS = names("sum cumsum nansum trace index_add scatter_add scatter_reduce index_reduce fold col2im sum_to_size embedding_bag")
MEANS = names("mean nanmean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d")
DOTS = names("""
    matmul mm bmm mv dot vdot inner linear addmm addmv addbmm baddbmm einsum tensordot bilinear linalg_multi_dot linalg_vecdot
    conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc
""")
LOSSES = names("mse_loss l1_loss")

# Composites whose rounding error is that of their inputs' magnitude, not of their own result's.
INPUT_SCALED = names("""
    softmax log_softmax logsumexp layer_norm group_norm batch_norm native_batch_norm native_layer_norm native_group_norm
    _native_batch_norm_legit _native_batch_norm_legit_no_training instance_norm rms_norm var std var_mean std_mean norm linalg_vector_norm
    linalg_matrix_norm linalg_norm dist cdist cosine_similarity pairwise_distance normalize local_response_norm logcumsumexp interpolate
    upsample_bilinear2d upsample_bicubic2d upsample_linear1d grid_sample cov corrcoef renorm lp_pool1d lp_pool2d softmin
    scaled_dot_product_attention multi_head_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell rnn_cell
    linalg_inv linalg_det linalg_slogdet linalg_solve linalg_cholesky linalg_lu_solve linalg_matrix_exp linalg_matrix_power linalg_pinv
    linalg_solve_triangular triangular_solve cholesky_solve cholesky_inverse logdet kl_div nll_loss cross_entropy huber_loss smooth_l1_loss
    binary_cross_entropy binary_cross_entropy_with_logits gaussian_nll_loss poisson_nll_loss ctc_loss bce margin_ranking_loss
    triplet_margin_loss cosine_embedding_loss hinge_embedding_loss multi_margin_loss multilabel_margin_loss soft_margin_loss
    multilabel_soft_margin_loss prod cumprod lerp addcdiv addcmul
    gelu mish tanhshrink softplus elu selu celu logsigmoid expm1 sinh atanh asinh log1p erfc logit hardswish hardsigmoid
""")

NORMALIZATIONS = names("layer_norm group_norm batch_norm instance_norm native_layer_norm native_group_norm native_batch_norm rms_norm")

# Allowance of one application in units of the dtype's epsilon.
DEFAULT_ULPS = 24.0
ULPS = {
    **dict.fromkeys(ADDITIVE | PRODUCTS | QUOTIENTS, 2.0),
    **dict.fromkeys(FUSED | LOSSES | names("sqrt addcdiv leaky_relu prelu softshrink linspace arange lerp hypot"), 4.0),
    **dict.fromkeys(SUMS | MEANS | DOTS, 4.0),
    **dict.fromkeys(CASTS, 1.0),
    **dict.fromkeys(names("lgamma digamma polygamma erfinv bessel_j0 bessel_j1 i0 i0e i1 i1e mvlgamma"), 512.0),
    **dict.fromkeys((name for name in INPUT_SCALED if name.startswith("linalg_")), 64.0),
}

# Smooth, but not everywhere: an input at the edge of the domain or at a pole decides between a number, infinity and NaN.
DOMAIN_EDGES = names("sqrt rsqrt log log2 log10 log1p acos asin acosh atanh logit erfinv xlogy pow reciprocal div tan lgamma digamma")


def base_name(name: str) -> str:
    """The canonical name without the in-place underscore."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def known_operators() -> frozenset[str]:
    """Every name in these tables."""
    tables = (MOVEMENT, SELECTION, STEPS, ROUNDING_STEPS, SHIFTS, CASTS, PAIRS, UNDETERMINED, DROPOUT, INPUT_SCALED, DOMAIN_EDGES, ULPS)
    return frozenset().union(*tables)
