#define POSTLUDE_STRIPS avx2_strips
#include "cpu/strips/strips.inc"
