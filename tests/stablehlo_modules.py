"""Modules of StableHLO, written by hand."""

TORCH = """module @IrToHlo.7 attributes {mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<352x128xf32>, %arg1: tensor<16x128xf32>, %arg2: tensor<1xi64>,
                  %arg3: tensor<2304x128xf32>, %arg4: tensor<1x128xf32>)
      -> tuple<tensor<16x352xf32>, tensor<2304x128xf32>> {
    %0 = stablehlo.constant dense<2.000000e+00> : tensor<16x128xf32>
    %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.power %arg1, %0 : tensor<16x128xf32>
    %3 = stablehlo.reduce(%2 init: %1) across dimensions = [1] : (tensor<16x128xf32>, tensor<f32>) -> tensor<16xf32>
     reducer(%arg5: tensor<f32>, %arg6: tensor<f32>)  {
      %20 = stablehlo.add %arg5, %arg6 : tensor<f32>
      stablehlo.return %20 : tensor<f32>
    }
    %4 = stablehlo.rsqrt %3 : tensor<16xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16xf32>) -> tensor<16x128xf32>
    %6 = stablehlo.multiply %arg1, %5 : tensor<16x128xf32>
    %7 = stablehlo.transpose %arg0, dims = [1, 0] {xla_shape = "f32[128,352]{0,1}"}
      : (tensor<352x128xf32>) -> tensor<128x352xf32>
    %8 = stablehlo.dot %6, %7, precision = [DEFAULT, DEFAULT]
      : (tensor<16x128xf32>, tensor<128x352xf32>) -> tensor<16x352xf32>
    %9 = stablehlo.composite "test.swish" %8 {decomposition = @swish} : (tensor<16x352xf32>) -> tensor<16x352xf32>
    %10 = stablehlo.reshape %arg2 : (tensor<1xi64>) -> tensor<1x1xi64>
    %11 = "stablehlo.scatter"(%arg3, %10, %arg4) <{indices_are_sorted = false, scatter_dimension_numbers =
      #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      stablehlo.return %arg6 : tensor<f32>
    }) : (tensor<2304x128xf32>, tensor<1x1xi64>, tensor<1x128xf32>) -> tensor<2304x128xf32>
    %12 = stablehlo.tuple %9, %11 : tuple<tensor<16x352xf32>, tensor<2304x128xf32>>
    return %12 : tuple<tensor<16x352xf32>, tensor<2304x128xf32>>
  }
  func.func private @swish(%arg0: tensor<16x352xf32>) -> tensor<16x352xf32> {
    %0 = stablehlo.logistic %arg0 : tensor<16x352xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<16x352xf32>
    return %1 : tensor<16x352xf32>
  }
}
"""
"""A layer as torch_xla writes it: a norm, a product, an activation, and a row written into a cache."""

COUNTED = """module @counted {
  func.func public @main(%arg0: tensor<4x8x8xbf16>, %arg1: tensor<8x8xbf16>, %arg2: tensor<i1>) -> tensor<8x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %x = %arg1) : tensor<i32>, tensor<8x8xbf16>
    cond {
      %c_0 = stablehlo.constant dense<4> : tensor<i32>
      %4 = stablehlo.compare LT, %i, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %c_0 = stablehlo.constant dense<0> : tensor<i32>
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %4 = stablehlo.dynamic_slice %arg0, %i, %c_0, %c_0, sizes = [1, 8, 8]
        : (tensor<4x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %5 = stablehlo.reshape %4 : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %6 = stablehlo.dot_general %x, %5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
        : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
      %7 = stablehlo.add %i, %c_1 : tensor<i32>
      stablehlo.return %7, %6 : tensor<i32>, tensor<8x8xbf16>
    }
    %1 = stablehlo.convert %0#1 : (tensor<8x8xbf16>) -> tensor<8x8xf32>
    %2 = "stablehlo.if"(%arg2) ({
      %4 = stablehlo.tanh %1 : tensor<8x8xf32>
      stablehlo.return %4 : tensor<8x8xf32>
    }, {
      stablehlo.return %1 : tensor<8x8xf32>
    }) : (tensor<i1>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
"""
"""Products with stacked weights in a loop that counts, and a branch."""
