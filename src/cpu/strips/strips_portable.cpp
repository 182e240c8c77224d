#define POSTLUDE_STRIPS portable_strips
#include "cpu/strips/strips.inc"
