R"cuda(
// How the portable kernels' accumulators pass through the epilogue, a tile at a time.

// The n-th load of tile operands, if there is one, and a group of copies for it in any case.
DEVICE void issue_load(const Params& p, const Tile& tile, u32 aux, int n) {
#if AUX_STAGES
  const OperandLoad of = operand_load(n);
  const u32 slot = aux + n % AUX_STAGES * AUX_BYTES;
  const int row = tile.row + of.at.i * 64, col = tile.col + of.at.group * SUB_N;
#if LOADS
  if (n < SUBTILES * (LOADS + HELD_LOADS) && !of.held) Epilogue::load_issue(p, slot, 0, row, col, tile.batch);
#endif
#if HELD_LOADS
  if (n < SUBTILES * (LOADS + HELD_LOADS) && of.held) Held::load_issue(p, slot, 0, row, col, tile.batch);
#endif
  copy_commit();
#endif
}

// What a consumer's subtiles pass through in shared memory: its staged outputs, and AUX_STAGES of its tile operands.
struct Passage {
  u32 d, aux;
  int loaded;  // subtiles of operands that have been used

  template <class E> METHOD u32 staging(const Tile&) { return d; }
  METHOD void restage(const Tile& tile) { named_sync(tile.barrier, 128); }  // as sm90_gemm.cu's
  template <class E> METHOD void take_operands(const Params& p, const Tile& tile, E& epilogue) {
#if AUX_STAGES
    copy_wait<AUX_STAGES - 1>();
    __syncwarp();
    epilogue.load(p, tile, aux + loaded % AUX_STAGES * AUX_BYTES);
    __syncwarp();
    issue_load(p, tile, aux, loaded++ + AUX_STAGES);
#endif
  }
  template <class E> METHOD void give_outputs(const Params& p, const Tile& tile, const Subtile& s, u32 from) {
    __syncwarp();
    E::store_issue(p, from, tile.row + s.i * 64, tile.col + s.group * SUB_N, tile.batch);
    __syncwarp();
  }
};

#if FINISHES
// Its blocks come and go, so that nobody can wait for all: partial results are folded in a launch of their own.
extern "C" __global__ void __launch_bounds__(256) postlude_finish(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  follow_previous_launch();
  finish(p, blockIdx.x, threadIdx.x, smem_address(dynamic_shared), 0);
}
#endif
)cuda"
