#include "cli/npy.h"

#include "core/convert.h"

#include <postlude/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace postlude::inline v0::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored little-endian below");

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longest_header = 64 << 10;  // numpy writes 118 bytes

[[noreturn]] void bad(const std::string& file, const std::string& what, const std::string& hint = "") {
  throw Error(ErrorCode::bad_npy, postlude::quoted(file) + " " + what, hint);
}

// An element type of a file: kind b, i, u, f or V, and bytes.
struct Element {
  char kind = 'f';
  std::int64_t size = 4;
  bool swapped = false;  // big-endian
};

struct Header {
  Element element;
  bool fortran = false;
  std::vector<std::int64_t> shape;
};

// Reads the header's Python dict: string keys; string, bool and tuple-of-integers values; nothing
// else occurs.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        header.element = element();
        descr = true;
      } else if (key == "fortran_order") {
        header.fortran = boolean();
        order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        shape = true;
      } else {
        malformed();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!descr || !order || !shape) malformed();
    return header;
  }

 private:
  [[noreturn]] void malformed() const {
    bad(file_, "has a header that is not numpy's: " + quoted(text_), "Save it again with numpy.save.");
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }

  std::string string() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) malformed();
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    malformed();
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t value = 0;
      const std::size_t start = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
            __builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value)) {
          bad(file_, "has an extent that is too large to be addressed");
        }
      }
      if (at_ == start) malformed();
      accept('L');  // Python 2 wrote long integers so
      values.push_back(value);
      if (values.size() > Tensor::max_rank) {
        bad(file_, "has more than " + std::to_string(Tensor::max_rank) + " axes", "Reshape it before saving.");
      }
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  Element element() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      bad(file_, "holds records (a structured dtype)", "Save one field of it.");
    }
    const std::string descr = string();
    Element result;
    const std::string_view orders = "<>=|";
    if (descr.size() < 2 || orders.find(descr[0]) == std::string_view::npos) malformed();
    result.kind = descr[1];
    result.swapped = descr[0] == '>';
    if (result.kind == 'O') bad(file_, "holds Python objects, which are never loaded", "Save it as a numeric array.");
    result.size = 0;
    for (const char c : std::string_view(descr).substr(2)) {
      if (c < '0' || c > '9' || result.size > 99) malformed();
      result.size = result.size * 10 + (c - '0');
    }
    const auto is = [&](char kind, std::initializer_list<std::int64_t> sizes) {
      return result.kind == kind && std::find(sizes.begin(), sizes.end(), result.size) != sizes.end();
    };
    if (!is('b', {1}) && !is('i', {1, 2, 4, 8}) && !is('u', {1, 2, 4, 8}) && !is('f', {2, 4, 8}) && !is('V', {1, 2})) {
      bad(file_, "has elements of type " + postlude::quoted(descr) + ", which no tensor here can have",
          "Save it as float32, float16, an integer type or bool.");
    }
    return result;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

// The dtype that holds the elements of a file best.
DType natural_dtype(const Element& element, const std::string& file) {
  switch (element.kind) {
    case 'b': return DType::boolean;
    case 'f': return element.size == 2 ? DType::f16 : DType::f32;
    case 'i': return element.size == 1 ? DType::s8 : element.size == 8 ? DType::i64 : DType::i32;
    case 'u': return element.size == 1 ? DType::u8 : element.size == 2 ? DType::i32 : DType::i64;
    default:
      bad(file, "holds raw bytes, which could be bf16 or an fp8",
          "Declare the operand's dtype in the epilogue, or save it as float32.");
  }
}

// The dtype whose elements lie in the file bit for bit, if there is one.
std::optional<DType> same_bits(const Element& element, DType want) {
  if (element.size != size_of(want)) return {};
  switch (element.kind) {
    case 'f': return want == DType::f32 || want == DType::f16 ? std::optional(want) : std::nullopt;
    case 'i': return want == DType::s8 || want == DType::i32 || want == DType::i64 ? std::optional(want) : std::nullopt;
    case 'u': return want == DType::u8 ? std::optional(want) : std::nullopt;
    case 'V': return is_float(want) && want != DType::f16 ? std::optional(want) : std::nullopt;
    default: return {};  // a bool's byte may be anything but 0: it becomes 1
  }
}

std::string numpy_name(const Element& element) {
  if (element.kind == 'b') return "bool";
  return (element.kind == 'f' ? "float" : element.kind == 'i' ? "int" : "uint") + std::to_string(8 * element.size);
}

// One element of a file into element `to` of `data`.
void convert(const Element& element, const char* from, DType want, void* data, std::int64_t to) {
  std::array<char, 8> bytes{};
  std::memcpy(bytes.data(), from, static_cast<std::size_t>(element.size));
  if (element.swapped) std::reverse(bytes.begin(), bytes.begin() + element.size);
  const auto bits = std::bit_cast<std::uint64_t>(bytes);
  if (element.kind == 'f') {
    const double value = element.size == 8 ? std::bit_cast<double>(bits)
                         : element.size == 4
                             ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                             : static_cast<double>(core::decode(DType::f16, static_cast<std::uint32_t>(bits)));
    core::store_real(want, data, to, value);
    return;
  }
  if (element.kind == 'b') {
    core::store_integer(want, data, to, bits != 0 ? 1 : 0);
    return;
  }
  const int unused = 64 - 8 * static_cast<int>(element.size);
  const std::int64_t value = element.kind == 'i' ? static_cast<std::int64_t>(bits << unused) >> unused
                             : bits > std::uint64_t{std::numeric_limits<std::int64_t>::max()}
                                 ? std::numeric_limits<std::int64_t>::max()  // saturates, as every integer conversion
                                 : static_cast<std::int64_t>(bits);
  core::store_integer(want, data, to, value);
}

Array convert_all(const Header& header, std::string_view data, DType want) {
  Array array(want, header.shape);
  const std::int64_t count = array.elements();
  // The place in the file of the element at a row-major index: the same, or column-major.
  std::array<std::int64_t, Tensor::max_rank> index{}, stride{};
  const int rank = static_cast<int>(header.shape.size());
  std::int64_t step = 1;
  for (int i = 0; i < rank; ++i) {
    const int axis = header.fortran ? i : rank - 1 - i;
    stride[axis] = step;
    step *= header.shape[axis];
  }
  std::int64_t from = 0;
  for (std::int64_t to = 0; to < count; ++to) {
    convert(header.element, data.data() + from * header.element.size, want, array.bytes.data(), to);
    for (int axis = rank - 1; axis >= 0; --axis) {
      from += stride[axis];
      if (++index[axis] < header.shape[axis]) break;
      from -= stride[axis] * header.shape[axis];
      index[axis] = 0;
    }
  }
  return array;
}

// The header, and where the elements begin, of a file of `size` bytes that begins with `bytes`: all of them, or enough
// for the longest header. Checks that the elements fill the rest.
std::pair<Header, std::size_t> read_header(std::string_view bytes, std::uint64_t size, const std::string& file) {
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const char* truncated = "It may be cut off: save it again.";
  if (bytes.substr(0, magic.size()) != magic.substr(0, bytes.size())) {
    bad(file, "is not a .npy file", "numpy.save writes one; text and .npz files are not read.");
  }
  if (bytes.size() < 10) bad(file, "ends within its header", truncated);
  const std::size_t version = byte(6);
  if (version < 1 || version > 3)
    bad(file, "has the format version " + std::to_string(version), "Versions 1 to 3 are read.");
  const std::size_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start) bad(file, "ends within its header", truncated);
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > longest_header) bad(file, "says that its header has " + std::to_string(length) + " bytes");
  if (bytes.size() - start < length) bad(file, "ends within its header", truncated);
  Header header = HeaderParser(bytes.substr(start, length), file).parse();

  std::int64_t wanted = header.element.size;
  for (const std::int64_t extent : header.shape) {
    if (__builtin_mul_overflow(wanted, std::max<std::int64_t>(extent, 1), &wanted)) {
      bad(file, "has a shape that is too large to be addressed");
    }
  }
  if (std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end()) wanted = 0;
  const std::uint64_t rest = size - (start + length);
  if (static_cast<std::uint64_t>(wanted) != rest) {
    bad(file, "has " + std::to_string(rest) + " bytes of elements, but its shape asks for " + std::to_string(wanted),
        rest < static_cast<std::uint64_t>(wanted) ? truncated : "A file holds one array.");
  }
  return {std::move(header), start + length};
}

}  // namespace

Array::Array(DType dtype, std::vector<std::int64_t> shape) : dtype(dtype), shape(std::move(shape)) {
  bytes.resize(static_cast<std::size_t>(elements() * size_of(dtype)));
}

std::int64_t Array::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

Tensor Array::view() { return Tensor(bytes.data(), dtype, shape); }

Array parse_npy(std::string_view bytes, const std::string& file, std::optional<DType> want) {
  const auto [header, start] = read_header(bytes, bytes.size(), file);
  const std::string_view data = bytes.substr(start);
  const DType dtype = want ? *want : natural_dtype(header.element, file);
  const bool bit_for_bit = same_bits(header.element, dtype).has_value();
  if (header.element.kind == 'V' && !bit_for_bit) {
    bad(file, "holds raw bytes, but is wanted as " + std::string(name(dtype)), "Save it as float32.");
  }
  if (bit_for_bit && !header.fortran && !header.element.swapped) {
    Array array(dtype, header.shape);
    if (!data.empty()) std::memcpy(array.bytes.data(), data.data(), data.size());
    return array;
  }
  if (header.element.kind != 'V') {
    Array array = convert_all(header, data, dtype);
    if (!bit_for_bit) array.converted_from = numpy_name(header.element);
    return array;
  }
  // Raw bytes in another order are moved as integers of their size.
  Header moved = header;
  moved.element.kind = 'u';
  Array array = convert_all(moved, data, dtype == DType::bf16 ? DType::i32 : DType::u8);
  if (dtype == DType::bf16) {
    Array narrow(dtype, header.shape);
    for (std::int64_t i = 0; i < narrow.elements(); ++i)
      std::memcpy(narrow.bytes.data() + 2 * i, array.bytes.data() + 4 * i, 2);
    return narrow;
  }
  array.dtype = dtype;
  return array;
}

Array read_npy(const std::string& path, std::optional<DType> want) {
  const auto fail = [&] {
    throw Error(ErrorCode::cannot_read,
                postlude::quoted(path) + " cannot be read: " + std::generic_category().message(errno ? errno : EIO),
                "Check the path.");
  };
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))  // opening a pipe would wait
    throw Error(ErrorCode::cannot_read, postlude::quoted(path) + " is not a regular file", "Give a .npy file.");
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail();
  const std::streamoff size = file.tellg();
  if (size < 0) fail();
  file.seekg(0);
  // What is no array, or does not fill its shape, is refused before the rest is read.
  std::string bytes(std::min<std::size_t>(static_cast<std::size_t>(size), longest_header + 12), '\0');
  if (!bytes.empty() && !file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) fail();
  (void)read_header(bytes, static_cast<std::uint64_t>(size), path);
  const std::size_t read = bytes.size();
  bytes.resize(static_cast<std::size_t>(size));
  if (bytes.size() > read && !file.read(bytes.data() + read, static_cast<std::streamsize>(bytes.size() - read))) fail();
  return parse_npy(bytes, path, want);
}

namespace {

std::string_view npy_type(DType type) {
  switch (type) {
    case DType::f16: return "<f2";
    case DType::s8: return "|i1";
    case DType::u8: return "|u1";
    case DType::i32: return "<i4";
    case DType::i64: return "<i8";
    case DType::boolean: return "|b1";
    default: return "<f4";
  }
}

std::string npy_header(const Tensor& tensor) {
  std::string shape;
  for (int axis = 0; axis < tensor.rank; ++axis)
    shape += std::to_string(tensor.shape[axis]) + (tensor.rank == 1 ? "," : axis + 1 < tensor.rank ? ", " : "");
  std::string dict =
      "{'descr': '" + std::string(npy_type(tensor.dtype)) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t alignment = 64, before = 10;
  dict.append(alignment - 1 - (before + dict.size()) % alignment, ' ');
  dict += '\n';
  std::string header(magic);
  header += '\1';
  header += '\0';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

// The elements in row-major order, widened where the file's type is wider, written a buffer at a
// time.
void write_elements(std::ofstream& file, const Tensor& tensor) {
  const bool widen = tensor.dtype == DType::bf16 || tensor.dtype == DType::e4m3 || tensor.dtype == DType::e5m2;
  const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
  const std::int64_t count = tensor.elements();
  std::string buffer;
  std::array<std::int64_t, Tensor::max_rank> index{};
  std::int64_t from = 0;
  for (std::int64_t i = 0; i < count && file; ++i) {
    if (widen) {
      const auto value = static_cast<float>(core::load_real(tensor.dtype, tensor.data, from));
      buffer.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      buffer.append(static_cast<const char*>(tensor.data) + from * static_cast<std::int64_t>(size), size);
    }
    if (buffer.size() >= std::size_t{1} << 20 || i + 1 == count) {
      file.write(buffer.data(), static_cast<std::streamsize>(buffer.size()));
      buffer.clear();
    }
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      from += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      from -= tensor.strides[axis] * tensor.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

void write_npy(const std::string& path, const Tensor& tensor) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  if (file) {
    const std::string header = npy_header(tensor);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    write_elements(file, tensor);
    file.close();
  }
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  std::remove(temporary.c_str());
  throw Error(ErrorCode::cannot_write,
              postlude::quoted(path) + " cannot be written: " + std::generic_category().message(error ? error : EIO),
              "Check the folder and the space on its disk.");
}

}  // namespace postlude::inline v0::cli
