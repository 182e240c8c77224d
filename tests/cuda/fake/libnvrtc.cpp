// A compiler that takes every source: its cubins are the source.
//   FAKE_NVRTC_FAIL=1           fails as NVRTC does without its builtins
//   FAKE_NVRTC_SPILLS=TEXT      sources with this text spill registers
//   FAKE_NVRTC_MILLISECONDS=N   waits so long, or until two have run at once
//   fake_nvrtc_compilations     how many there were
//   fake_nvrtc_sources          of so many sources
//   fake_nvrtc_at_once          and so many at once, at most
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#define FAKE extern "C" [[gnu::visibility("default")]] int

namespace {
std::mutex mutex;
std::condition_variable begun;
std::set<std::string> sources;
int compilations = 0, running = 0, at_once = 0;

const char* log_text(void* program) {
  if (std::getenv("FAKE_NVRTC_FAIL"))
    return "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n  Make sure that libnvrtc-builtins.so.13.0 is "
           "installed correctly.";
  const char* text = std::getenv("FAKE_NVRTC_SPILLS");
  return text && static_cast<std::string*>(program)->find(text) != std::string::npos
             ? "ptxas info: Used 168 registers, 520 bytes spill stores, 520 bytes spill loads\n"
             : "ptxas info: Used 168 registers, 0 bytes spill stores, 0 bytes spill loads\n";
}
}  // namespace

FAKE nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return 0;
}
FAKE nvrtcCreateProgram(void** made, const char* source, const char*, int, const char* const*, const char* const*) {
  *made = new std::string(source);
  return 0;
}
FAKE nvrtcCompileProgram(void* program, int, const char* const*) {
  std::unique_lock lock(mutex);
  sources.insert(*static_cast<std::string*>(program));
  ++compilations;
  at_once = std::max(at_once, ++running);
  begun.notify_all();
  if (const char* text = std::getenv("FAKE_NVRTC_MILLISECONDS"))
    begun.wait_for(lock, std::chrono::milliseconds(std::atoi(text)), [] { return at_once > 1; });
  --running;
  return std::getenv("FAKE_NVRTC_FAIL") ? 7 : 0;
}
FAKE fake_nvrtc_compilations() { return compilations; }
FAKE fake_nvrtc_sources() { return static_cast<int>(sources.size()); }
FAKE fake_nvrtc_at_once() { return at_once; }
FAKE nvrtcDestroyProgram(void** program) {
  delete static_cast<std::string*>(*program);
  *program = nullptr;
  return 0;
}
FAKE nvrtcGetProgramLogSize(void* program, std::size_t* size) {
  *size = std::strlen(log_text(program)) + 1;
  return 0;
}
FAKE nvrtcGetProgramLog(void* program, char* to) {
  std::strcpy(to, log_text(program));
  return 0;
}
FAKE nvrtcGetCUBINSize(void* program, std::size_t* size) {
  *size = static_cast<std::string*>(program)->size();
  return 0;
}
FAKE nvrtcGetCUBIN(void* program, char* to) {
  const std::string& source = *static_cast<std::string*>(program);
  std::memcpy(to, source.data(), source.size());
  return 0;
}
extern "C" [[gnu::visibility("default")]] const char* nvrtcGetErrorString(int result) {
  return result == 7 ? "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE" : "NVRTC_ERROR";
}
