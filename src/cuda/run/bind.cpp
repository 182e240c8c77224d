// A Decision becomes a call: its workspace is taken, its kernels are loaded and its parameter blocks filled in.
#include "cuda/executable.h"
#include "cuda/run/driver.h"

#include <postlude/error.h>

#include <algorithm>
#include <cstring>

namespace postlude::inline v0::cuda {
namespace {

MapType map_type(DType type) {
  switch (type) {
    case DType::f32: return MapType::f32;
    case DType::i32: return MapType::s32;
    case DType::f16: return MapType::f16;
    case DType::bf16: return MapType::bf16;
    default: return MapType::u8;
  }
}

MapSwizzle swizzle(int row_bytes) {
  switch (row_bytes) {
    case 128: return MapSwizzle::bytes128;
    case 64: return MapSwizzle::bytes64;
    case 32: return MapSwizzle::bytes32;
    default: return MapSwizzle::none;
  }
}

// A fault of drivers up to 13.1 with small images: a bit of the map that must not be set.
void mend_small_image(TensorMap& map, const MapField& field) {
  constexpr int first_right = 13020;
  constexpr std::int64_t small = 128 << 10;
  int version = 0;
  driver().DriverGetVersion(&version);
  std::int64_t elements = 1;
  for (const auto& dimension : field.dimensions) elements += (dimension.extent - 1) * dimension.stride;
  if (version < first_right && elements * size_of(field.type) < small) map.word[1] &= ~(std::uint64_t{1} << 21);
}

TensorMap encode(std::uint64_t address, const MapField& field) {
  TensorMap map;
  std::uint64_t sizes[5], strides[5];
  unsigned box[5], steps[5];
  for (std::size_t i = 0; i < field.dimensions.size(); ++i) {
    sizes[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(1, field.dimensions[i].extent));
    // A dimension of one element may have any stride; the engine wants a legal one.
    const std::int64_t bytes = field.dimensions[i].stride * size_of(field.type);
    if (i) strides[i - 1] = static_cast<std::uint64_t>(bytes > 0 && bytes % 16 == 0 ? bytes : 16);
    box[i] = static_cast<unsigned>(field.dimensions[i].box);
    steps[i] = 1;
  }
  if (const std::uint64_t behind = address % 16; field.down)
    address -= behind, sizes[0] += behind / static_cast<std::uint64_t>(size_of(field.type));
  // Two lines of L2 at once; one where lines begin between sectors, or the engine takes longer (decision 0099).
  const int promotion =
      std::any_of(strides, strides + field.dimensions.size() - 1, [](auto x) { return x % 32 != 0; }) ? 2 : 3;
  if (field.pixels) {
    const MapField::Pixels& p = *field.pixels;
    for (std::size_t i = 1; i + 1 < field.dimensions.size(); ++i) steps[i] = static_cast<unsigned>(p.step[i - 1]);
    check(driver().TensorMapEncodeIm2col(
              &map, static_cast<int>(map_type(field.type)), static_cast<unsigned>(field.dimensions.size()),
              reinterpret_cast<void*>(address), sizes, strides, p.lower.data(), p.upper.data(),
              static_cast<unsigned>(p.channels), static_cast<unsigned>(p.count), steps, 0,
              static_cast<int>(swizzle(field.row_bytes)), promotion, 0),
          "describing an image to the copy engine");
    mend_small_image(map, field);
    return map;
  }
  check(driver().TensorMapEncodeTiled(&map, static_cast<int>(map_type(field.type)),
                                      static_cast<unsigned>(field.dimensions.size()), reinterpret_cast<void*>(address),
                                      sizes, strides, box, steps, 0, static_cast<int>(swizzle(field.row_bytes)),
                                      promotion, 0),
        "describing a tensor to the copy engine");
  return map;
}

std::uint64_t resolve(const Address& address, const Bindings& bindings, std::uint64_t workspace) {
  const auto of = [](const Bound& bound) { return reinterpret_cast<std::uint64_t>(bound.data); };
  const auto offset = static_cast<std::uint64_t>(address.offset);
  switch (address.of) {
    case Address::Of::a: return of(bindings.a) + offset;
    case Address::Of::b: return of(bindings.b) + offset;
    case Address::Of::index:
      return reinterpret_cast<std::uint64_t>(std::get<Gathered>(bindings.addressing.a).index) + offset;
    case Address::Of::buffer: return of(bindings.buffers[address.buffer]) + offset;
    case Address::Of::workspace: return workspace + offset;
  }
  return 0;
}

Launch fill(const Kernel& kernel, Loaded& loaded, const Bindings& bindings, std::uint64_t workspace) {
  Launch launch;
  launch.function = loaded.function(kernel.name, kernel.shared);
  std::copy(kernel.grid.begin(), kernel.grid.end(), launch.grid);
  launch.threads = kernel.threads, launch.shared = static_cast<unsigned>(kernel.shared);
  launch.cooperative = kernel.cooperative;
  launch.block = kernel.block, launch.integers = kernel.integers;
  for (const AddressField& field : kernel.addresses)
    launch.block[field.word] = resolve(field.address, bindings, workspace);
  for (const ValueField& field : kernel.values)
    std::memcpy(&launch.block[field.word], bindings.buffers[field.buffer].data, sizeof launch.block[0]);
  for (const MapField& field : kernel.maps) {
    const TensorMap map = encode(resolve(field.address, bindings, workspace), field);
    std::memcpy(&launch.block[field.word], &map, sizeof map);
  }
  return launch;
}

}  // namespace

std::unique_ptr<BoundCall> CudaExecutable::bind(const Bindings& bindings) const {
  if (!target_.isa.empty() && subject_.arch != architecture(device(target_.device_index))) {
    throw Error(ErrorCode::unsupported, "the plan was compiled for " + subject_.arch + ", which the GPU here is not",
                "Leave Target::isa empty to run.");
  }
  const CurrentDevice current(target_.device_index);
  const DuringCaptures allowed;
  const std::shared_ptr<const Prepared> made = prepared(layout_of(bindings, program()));
  const Decision& decision = made->decision;
  Workspace workspace(target_.device_index, decision.workspace, bindings.stream);
  std::vector<Launch> launches;
  for (std::size_t i = 0; i < decision.kernels.size(); ++i)
    launches.push_back(fill(decision.kernels[i], *made->modules[i], bindings, workspace.pointer()));
  return std::make_unique<CudaCall>(target_.device_index, made->modules, std::move(workspace), decision.cleared,
                                    std::move(launches), decision.describe());
}

}  // namespace postlude::inline v0::cuda
