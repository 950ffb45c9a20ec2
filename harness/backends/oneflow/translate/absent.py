"""Operators that OneFlow 0.9.0 does not have in its public API under any name; a test asks OneFlow itself."""

from __future__ import annotations

_NAMES = """
frac exp2 positive signbit digamma nan_to_num tanhshrink bitwise_not count_nonzero cummax cummin logcumsumexp softmin kthvalue
msort diff ravel unflatten trace rot90 take take_along_dim scatter_reduce bucketize index_fill index_fill_ remainder fmin fmax
hypot xlogy copysign bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm rsub lerp dist cdist
result_type block_diag inner outer kron addbmm addmv addr linalg_det linalg_slogdet linalg_cholesky linalg_solve linalg_eigh
linalg_svd linalg_qr linalg_matrix_power linalg_pinv linalg_multi_dot lp_pool1d lp_pool2d pixel_shuffle pixel_unshuffle
group_norm instance_norm local_response_norm rms_norm channel_shuffle bilinear scaled_dot_product_attention huber_loss nll_loss
margin_ranking_loss cosine_embedding_loss soft_margin_loss poisson_nll_loss hinge_embedding_loss gaussian_nll_loss tril_indices
triu_indices combinations cartesian_prod logit sinc float_power ldexp heaviside nextafter nanmean nanmedian var_mean std_mean aminmax
fliplr flipud isneginf isposinf isreal isin logaddexp2 multilabel_margin_loss rrelu vdot vander trapezoid cumulative_trapezoid
select_scatter slice_scatter diagonal_scatter masked_scatter index_copy index_put put adjoint mT dsplit swapdims_ unsqueeze_ squeeze_
transpose_ t_ neg_ abs_ exp_ sqrt_ sigmoid_ tanh_ relu6_ leaky_relu_ elu_ hardtanh_ celu_ selu_ silu_ mish_ hardswish_ hardsigmoid_
threshold_ round_ ceil_ trunc_ reciprocal_ rsqrt_ square_ cos_ log_ pow_ floor_divide_ remainder_ fmod_ lerp_ logical_and_
logical_or_ logical_xor_ logical_not_ bitwise_and_ bitwise_or_ bitwise_xor_ bitwise_not_ eq_ ne_ lt_ le_ gt_ ge_ tril_ cumsum_
cumprod_ masked_scatter_ index_copy_ index_put_ char short cfloat
fractional_max_pool2d fractional_max_pool3d deg2rad rad2deg sgn embedding_bag i0 special_entr special_ndtr
native_layer_norm native_batch_norm native_group_norm scalar_tensor addmm_ baddbmm_ dropout_
"""
ABSENT = frozenset(_NAMES.split())
