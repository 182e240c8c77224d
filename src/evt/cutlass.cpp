#include <postlude/evt/cutlass/gemm.h>

namespace postlude::inline v0::evt::cutlass {

Status detail::status_of(const Outcome& outcome) {
  if (!outcome.code) return Status::kSuccess;
  switch (*outcome.code) {
    case ErrorCode::misaligned: return Status::kErrorMisalignedOperand;
    case ErrorCode::wrong_dtype: return Status::kErrorInvalidDataType;
    case ErrorCode::wrong_stride:
    case ErrorCode::overlap: return Status::kErrorInvalidLayout;
    case ErrorCode::unsupported:
    case ErrorCode::bad_schedule:
    case ErrorCode::compile_failed: return Status::kErrorNotSupported;
    case ErrorCode::no_device:
    case ErrorCode::no_compiler:
    case ErrorCode::driver_too_old: return Status::kErrorInsufficientDriver;
    case ErrorCode::out_of_memory: return Status::kErrorMemoryAllocation;
    case ErrorCode::device_failed:
    case ErrorCode::internal: return Status::kErrorInternal;
    default: return Status::kErrorInvalidProblem;
  }
}

const char* cutlassGetStatusString(Status status) {
  switch (status) {
    case Status::kSuccess: return "success";
    case Status::kErrorMisalignedOperand: return "misaligned operand";
    case Status::kErrorInvalidDataType: return "invalid data type";
    case Status::kErrorInvalidLayout: return "invalid layout";
    case Status::kErrorInvalidProblem: return "invalid problem";
    case Status::kErrorNotSupported: return "not supported";
    case Status::kErrorWorkspaceNull: return "no workspace";
    case Status::kErrorInternal: return "internal error";
    case Status::kErrorArchMismatch: return "another architecture";
    case Status::kErrorInsufficientDriver: return "no usable device, driver or compiler";
    case Status::kErrorMemoryAllocation: return "out of memory";
    case Status::kInvalid: break;
  }
  return "invalid";
}

}  // namespace postlude::inline v0::evt::cutlass
