"""What the positional parameters of PyTorch's operators are called, so that people need not count arguments.

Made of torch's own signatures and schemas, and held to them by a test; a `_` stands where overloads disagree.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

_TABLE = """
adaptive_avg_pool1d(input,output_size) adaptive_avg_pool2d(input,output_size)
adaptive_max_pool1d(input,output_size,return_indices) adaptive_max_pool2d(input,output_size,return_indices)
add(_,_,alpha) add_(input,_,alpha) addbmm(input,batch1,batch2) addcdiv(input,tensor1,tensor2)
addcmul(input,tensor1,tensor2) addmm(input,mat1,mat2,out_dtype) addmv(input,mat,vec) addr(input,vec1,vec2)
all(input,dim,keepdim) amax(input,dim,keepdim) amin(input,dim,keepdim) any(input,dim,keepdim) arange(_,end,step)
argmax(input,dim,keepdim) argmin(input,dim,keepdim) argsort(input,dim,descending)
avg_pool1d(input,kernel_size,stride,padding,ceil_mode,count_include_pad)
avg_pool2d(input,kernel_size,stride,padding,ceil_mode,count_include_pad,divisor_override)
avg_pool3d(input,kernel_size,stride,padding,ceil_mode,count_include_pad,divisor_override)
baddbmm(input,batch1,batch2,out_dtype) batch_norm(input,running_mean,running_var,weight,bias,training,momentum,eps)
bilinear(input1,input2,weight,bias) binary_cross_entropy(input,target,weight,size_average,reduce,reduction)
binary_cross_entropy_with_logits(input,target,weight,size_average,reduce,reduction,pos_weight)
bincount(input,weights,minlength) bitwise_and(input,other) bitwise_left_shift(input,other) bitwise_or(input,other)
bitwise_right_shift(input,other) bitwise_xor(input,other) bmm(input,mat2,out_dtype) broadcast_to(input,size)
bucketize(input,boundaries) cat(tensors,dim) cdist(x1,x2,p,compute_mode) celu(input,alpha,inplace)
channel_shuffle(input,groups) chunk(input,chunks,dim) clamp(input,min,max) clamp_(input,min,max) clamp_max(input,max)
clamp_min(input,min) conv1d(input,weight,bias,stride,padding,dilation,groups)
conv2d(input,weight,bias,stride,padding,dilation,groups) conv3d(input,weight,bias,stride,padding,dilation,groups)
conv_transpose1d(input,weight,bias,stride,padding,output_padding,groups,dilation)
conv_transpose2d(input,weight,bias,stride,padding,output_padding,groups,dilation)
conv_transpose3d(input,weight,bias,stride,padding,output_padding,groups,dilation) copy_(input,_,non_blocking)
cosine_similarity(x1,x2,dim,eps) count_nonzero(input,dim)
cross_entropy(input,target,weight,size_average,ignore_index,reduce,reduction,label_smoothing) cummax(input,dim)
cummin(input,dim) cumprod(input,dim) cumsum(input,dim) diag(input,diagonal) diagonal(input,offset,dim1,dim2)
diff(input,n,dim,prepend,append) div_(input,other) dot(input,tensor) dropout(input,p,training,inplace)
dropout2d(input,p,training,inplace) einsum(_,tensors) elu(input,alpha,inplace)
embedding(input,weight,padding_idx,max_norm,norm_type,scale_grad_by_freq,sparse)
embedding_bag(input,weight,offsets,max_norm,norm_type,scale_grad_by_freq,mode,sparse,per_sample_weights,include_last_offset,padding_idx)
expand(input,size) expand_as(input,other) eye(n,m) fill_(input,value) flatten(input,start_dim,end_dim) flip(input,dims)
float_power(input,exponent) floor_divide(input,other) fmax(input,other) fmin(input,other) full(size,fill_value)
full_like(input,fill_value) gather(input,dim,index) glu(input,dim) group_norm(input,num_groups,weight,bias,eps)
gru_cell(input,hx,w_ih,w_hh,b_ih,b_hh) hardshrink(input,lambd) hardsigmoid(input,inplace) hardswish(input,inplace)
hardtanh(input,min_val,max_val,inplace) heaviside(input,values) huber_loss(input,target,reduction,delta,weight)
hypot(input,other) im2col(input,kernel_size,dilation,padding,stride) index_add(input,dim,index,source)
index_copy(input,dim,index,source) index_fill(input,dim,index,value) index_fill_(input,dim,index,value)
index_put(input,indices,values,accumulate) index_select(input,dim,index)
instance_norm(input,running_mean,running_var,weight,bias,use_input_stats,momentum,eps)
interpolate(input,size,scale_factor,mode,align_corners,recompute_scale_factor,antialias)
isclose(input,other,rtol,atol,equal_nan) kl_div(input,target,size_average,reduce,reduction,log_target)
kthvalue(input,k,dim,keepdim) l1_loss(input,target,size_average,reduce,reduction,weight)
layer_norm(input,normalized_shape,weight,bias,eps) lcm(input,other) leaky_relu(input,negative_slope,inplace)
lerp(input,end,weight) linalg_cross(input,other) linalg_vector_norm(input,ord,dim,keepdim) linear(input,weight,bias)
linspace(start,end,steps) local_response_norm(input,size,alpha,beta,k) log(_,b) log_softmax(input,dim,_stacklevel,dtype)
logaddexp(input,other) logcumsumexp(input,dim) logical_and(input,other) logical_or(input,other) logical_xor(input,other)
logit(input,eps) logsumexp(input,dim,keepdim) lp_pool2d(input,norm_type,kernel_size,stride,ceil_mode)
lstm_cell(input,hx,w_ih,w_hh,b_ih,b_hh) masked_fill(input,mask,value) masked_fill_(input,mask,value)
masked_scatter(input,mask,source) masked_select(input,mask) matmul(input,other) max(input,_,keepdim)
max_pool1d(input,kernel_size,stride,padding,dilation,ceil_mode,return_indices)
max_pool2d(input,kernel_size,stride,padding,dilation,ceil_mode,return_indices)
max_pool3d(input,kernel_size,stride,padding,dilation,ceil_mode,return_indices) maximum(input,other)
mean(input,dim,keepdim) median(input,dim,keepdim) min(input,_,keepdim) minimum(input,other) mish(input,inplace)
mm(input,mat2,out_dtype) movedim(input,source,destination) mse_loss(input,target,size_average,reduce,reduction,weight)
mv(input,vec) nan_to_num(input,nan,posinf,neginf) narrow(input,dim,start,length) new_full(input,size,fill_value)
new_ones(input,size) new_zeros(input,size) nll_loss(input,target,weight,size_average,ignore_index,reduce,reduction)
norm(input,p,dim,keepdim) normalize(input,p,dim,eps,out) one_hot(input,num_classes) outer(input,vec2)
pad(input,pad,mode,value) permute(input,dims) pixel_shuffle(input,upscale_factor)
pixel_unshuffle(input,downscale_factor) prelu(input,weight) prod(input,dim,keepdim) relu(input,inplace)
relu6(input,inplace) repeat(input,repeats) repeat_interleave(_,repeats,dim) reshape(input,shape)
rms_norm(input,normalized_shape,weight,eps) roll(input,shifts,dims) rot90(input,k,dims) rsub(input,other,alpha)
scaled_dot_product_attention(query,key,value,attn_mask,dropout_p,is_causal) scatter(input,dim,index)
scatter_add(input,dim,index,src) searchsorted(sorted_sequence,input) select(_,_,index)
select_scatter(input,src,dim,index) selu(input,inplace) silu(input,inplace) slice_scatter(input,src,dim,start,end,step)
smooth_l1_loss(input,target,size_average,reduce,reduction,beta) softmax(input,dim,_stacklevel,dtype)
softmin(input,dim,_stacklevel,dtype) softplus(input,beta,threshold) softshrink(input,lambd) sort(input,_,descending)
squeeze(input,dim) stack(tensors,dim) std(input,_,unbiased,keepdim) sub(_,_,alpha) sub_(input,other,alpha)
sum(input,dim,keepdim) take(input,index) take_along_dim(input,indices,dim) tensor_split(input,_,dim)
tensordot(input,other,dims_self,dims_other) threshold(input,threshold,value,inplace) tile(input,dims)
to(input,_,_,_,_,memory_format) topk(input,k,dim,largest,sorted) transpose(input,dim0,dim1) tril(input,diagonal)
triu(input,diagonal) type_as(input,other) unbind(input,dim) unflatten(input,dim,sizes)
unsqueeze(input,dim) var(input,_,unbiased,keepdim)
var_mean(input,_,unbiased,keepdim) where(condition,input,other) xlogy(input,other)
"""
_POSITION = re.compile(r"arg(\d+)")


@functools.cache
def table() -> Mapping[str, tuple[str, ...]]:
    """Parameter names by canonical operator, the tensor that a method is called on included."""
    found = re.findall(r"([\w.]+)\(([^)]*)\)", _TABLE)
    return {name: tuple(parameters.split(",")) for name, parameters in found}


def named(feature: str, operator: str) -> str:
    """A feature such as `arg1=negative` with the parameter's name, `shifts=negative`; as it is where that is not known."""
    place, equals, word = feature.partition("=")
    position = _POSITION.fullmatch(place)
    names = table().get(operator, ())
    if not equals or position is None or int(position[1]) >= len(names) or names[int(position[1])] == "_":
        return feature
    return f"{names[int(position[1])]}={word}"


def positional(feature: str, operator: str) -> str:
    """A feature such as `shifts=negative` with the parameter's place, `arg1=negative`; as it is where that is not known."""
    name, equals, word = feature.partition("=")
    names = table().get(operator, ())
    return f"arg{names.index(name)}={word}" if equals and name in names else feature


def needs(trigger: tuple[str, ...], operator: str) -> tuple[str, ...]:
    """A trigger as people read it: parameters by name, and no word of dtypes that differ where the dtypes are named."""
    told = dict.fromkeys(named(feature, operator) for feature in trigger)
    if any(feature.startswith("dtype:") for feature in told):
        told.pop("mixed-dtypes", None)
    return tuple(told)
