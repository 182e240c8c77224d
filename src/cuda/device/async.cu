R"cuda(
// sm_80 and newer: copies into shared memory that a thread does not wait for.
#ifndef POSTLUDE_HOST
// The first `bytes` (0 to 16) of 16 at `from`; the others become zero. Without any, `from` is not read.
DEVICE void copy_async(u32 to, i64 from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory"); }
#endif
)cuda"
