// What a shared library exports: whatever the public headers declare, and nothing else. Every file of the library is
// compiled with this in front; its own declarations are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <postlude/dtype.h>
#include <postlude/error.h>
#include <postlude/evt/catlass.h>
#include <postlude/evt/cutlass.h>
#include <postlude/function.h>
#include <postlude/graph.h>
#include <postlude/parse.h>
#include <postlude/plan.h>
#include <postlude/problem.h>
#include <postlude/te.h>
#include <postlude/tensor.h>
#pragma GCC visibility pop
