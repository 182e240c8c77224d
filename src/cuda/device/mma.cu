R"cuda(
// sm_80 and newer: a warp's matrix product.
#ifndef POSTLUDE_HOST
// One warp's product of 16 x 8 over 32 bytes of K.
DEVICE void mma(ACC& d0, ACC& d1, ACC& d2, ACC& d3, const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8" MMA_K ".row.col." MMA_D "." MMA_A "." MMA_B "." MMA_D " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : MMA_BOUND(d0), MMA_BOUND(d1), MMA_BOUND(d2), MMA_BOUND(d3)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
)cuda"
