#define POSTLUDE_STRIPS avx512_strips
#include "cpu/strips/strips.inc"
