// RUN: torch-mlir-opt -pass-pipeline='builtin.module(func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline,torch-backend-to-linalg-on-tensors-backend-pipeline)' %s
module {
  func.func @main(%arg0: !torch.vtensor<[1,1],f32>) -> !torch.vtensor<[1,1],f32> {
    %int-2 = torch.constant.int -2
    %0 = torch.aten.unsqueeze %arg0, %int-2 : !torch.vtensor<[1,1],f32>, !torch.int -> !torch.vtensor<[1,1,1],f32>
    %int1 = torch.constant.int 1
    %int1_0 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int1, %int1_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_1 = torch.constant.int 1
    %int1_2 = torch.constant.int 1
    %2 = torch.prim.ListConstruct %int1_1, %int1_2 : (!torch.int, !torch.int) -> !torch.list<int>
    %int0 = torch.constant.int 0
    %int0_3 = torch.constant.int 0
    %3 = torch.prim.ListConstruct %int0, %int0_3 : (!torch.int, !torch.int) -> !torch.list<int>
    %false = torch.constant.bool false
    %true = torch.constant.bool true
    %none = torch.constant.none
    %4 = torch.aten.avg_pool2d %0, %1, %2, %3, %false, %true, %none : !torch.vtensor<[1,1,1],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.bool, !torch.none -> !torch.vtensor<[1,1,1],f32>
    %int1_4 = torch.constant.int 1
    %5 = torch.prim.ListConstruct %int1_4 : (!torch.int) -> !torch.list<int>
    %6 = torch.prims.squeeze %4, %5 : !torch.vtensor<[1,1,1],f32>, !torch.list<int> -> !torch.vtensor<[1,1],f32>
    return %6 : !torch.vtensor<[1,1],f32>
  }
}
