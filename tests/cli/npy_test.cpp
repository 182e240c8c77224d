#include "cli/npy.h"

#include "cli/draw.h"
#include "plan/support.h"

#include <cstdio>
#include <cstring>
#include <limits>

using namespace postlude_test;
using postlude::cli::parse_npy;
using postlude::cli::read_npy;

namespace {

std::string file_of(const std::string& dict, const std::string& data, int version = 1) {
  const std::string header = dict + "\n";
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

std::string file_of(const std::string& descr, const std::string& shape, const std::string& data, bool fortran = false,
                    int version = 1) {
  return file_of(
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }",
      data, version);
}

template <class T>
std::string raw(std::initializer_list<T> values, bool swapped = false) {
  std::string bytes;
  for (const T value : values) {
    std::string one(sizeof value, '\0');
    std::memcpy(one.data(), &value, sizeof value);
    if (swapped) std::reverse(one.begin(), one.end());
    bytes += one;
  }
  return bytes;
}

template <class T>
std::vector<T> elements(const cli::Array& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

TEST(Npy, EveryVersionAndOrder) {
  const std::vector<float> expected = {1, 2, 3, 4, 5, 6};
  for (const int version : {1, 2, 3}) {
    EXPECT_EQ(elements<float>(parse_npy(file_of("<f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6}), false, version), "f")),
              expected);
  }
  EXPECT_EQ(elements<float>(parse_npy(file_of(">f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6}, true)), "f")), expected);
  EXPECT_EQ(elements<float>(parse_npy(file_of("<f4", "(2, 3)", raw<float>({1, 4, 2, 5, 3, 6}), true), "f")), expected);
  EXPECT_EQ(elements<float>(parse_npy(file_of(">f8", "(2, 3)", raw<double>({1, 4, 2, 5, 3, 6}, true), true), "f")),
            expected);
  const cli::Array cube = parse_npy(file_of("<i4", "(2, 1, 3)", raw<std::int32_t>({1, 4, 2, 5, 3, 6}), true), "f");
  EXPECT_EQ(cube.shape, (std::vector<std::int64_t>{2, 1, 3}));
  EXPECT_EQ(elements<std::int32_t>(cube), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, EveryElementType) {
  EXPECT_EQ(elements<float>(parse_npy(file_of("|i1", "(2,)", raw<std::int8_t>({-1, 127})), "f", f32)),
            (std::vector<float>{-1, 127}));
  EXPECT_EQ(elements<float>(parse_npy(file_of("|u1", "(2,)", raw<std::uint8_t>({1, 255})), "f", f32)),
            (std::vector<float>{1, 255}));
  EXPECT_EQ(elements<float>(parse_npy(file_of(">i2", "(2,)", raw<std::int16_t>({-300, 4}, true)), "f", f32)),
            (std::vector<float>{-300, 4}));
  EXPECT_EQ(elements<float>(parse_npy(file_of("<u2", "(1,)", raw<std::uint16_t>({65535})), "f", f32)),
            (std::vector<float>{65535}));
  EXPECT_EQ(elements<std::int64_t>(parse_npy(file_of("<u8", "(1,)", raw<std::uint64_t>({~std::uint64_t{0}})), "f")),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(elements<std::uint8_t>(parse_npy(file_of("|b1", "(3,)", std::string("\0\1\2", 3)), "f")),
            (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(parse_npy(file_of("<f2", "(1,)", raw<std::uint16_t>({0x3c00})), "f").dtype, f16);
  EXPECT_EQ(elements<float>(parse_npy(file_of("<f2", "(1,)", raw<std::uint16_t>({0x3c00})), "f", f32)),
            (std::vector<float>{1}));
  EXPECT_EQ(
      elements<std::int8_t>(parse_npy(file_of("<f8", "(4,)", raw<double>({1e9, -1e9, std::nan(""), 2.5})), "f", s8)),
      (std::vector<std::int8_t>{127, -128, 0, 2}));
  EXPECT_EQ(elements<std::uint16_t>(parse_npy(file_of("<f4", "(1,)", raw<float>({1.00390625f})), "f", bf16)),
            (std::vector<std::uint16_t>{0x3f80}));
  // How numpy writes a bf16 array.
  EXPECT_EQ(
      elements<std::uint16_t>(parse_npy(file_of("<V2", "(2, 2)", raw<std::uint16_t>({1, 3, 2, 4}), true), "f", bf16)),
      (std::vector<std::uint16_t>{1, 2, 3, 4}));
  EXPECT_EQ(parse_npy(file_of("<i8", "()", raw<std::int64_t>({5})), "f").shape.size(), 0u);
  EXPECT_EQ(parse_npy(file_of("<f4", "(0, 3)", ""), "f").elements(), 0);
  // Python 2 wrote such integers, and any order of keys is allowed.
  EXPECT_EQ(parse_npy(file_of("{\"shape\": (1L,), \"fortran_order\": False, \"descr\": \"<f4\"}", raw<float>({1})), "f")
                .elements(),
            1);
}

TEST(Npy, Refuses) {
  const auto refuse = [](const std::string& bytes, const std::string& text) {
    EXPECT_ERROR(ErrorCode::bad_npy, text, (void)parse_npy(bytes, "x.npy"));
  };
  refuse("", "ends within its header");
  refuse("hello there", "is not a .npy file");
  refuse(file_of("|O", "(1,)", "12345678"), "Python objects, which are never loaded");
  refuse(file_of("<c8", "(1,)", "12345678"), "elements of type '<c8'");
  refuse(file_of("<U4", "(1,)", "12345678"), "elements of type '<U4'");
  refuse(file_of("<f16", "(1,)", ""), "elements of type '<f16'");
  refuse(file_of("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }", ""), "structured dtype");
  refuse(file_of("<f4", "(2, 3)", "1234"), "has 4 bytes of elements, but its shape asks for 24");
  refuse(file_of("<f4", "(1,)", "12345678"), "has 8 bytes of elements, but its shape asks for 4");
  refuse(file_of("<f4", "(9223372036854775807, 9)", ""), "too large to be addressed");
  refuse(file_of("<f4", "(92233720368547758070,)", ""), "too large to be addressed");
  refuse(file_of("<f4", "(0, 9223372036854775807, 9223372036854775807)", ""), "too large to be addressed");
  refuse(file_of("<f4", "(-1,)", ""), "a header that is not numpy's");
  refuse(file_of("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)", "1234"), "more than 12 axes");
  refuse(file_of("{'descr': '<f4', 'shape': (1,)}", "1234"), "a header that is not numpy's");
  refuse(file_of("__import__('os')", ""), "a header that is not numpy's");
  refuse(file_of("<V2", "(1,)", "12"), "raw bytes, which could be bf16 or an fp8");
  std::string bytes = file_of("<f4", "(1,)", "1234");
  bytes[6] = 4;
  refuse(bytes, "the format version 4");
  refuse(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "says that its header has 4294967295 bytes");
  EXPECT_ERROR(ErrorCode::cannot_read, "cannot be read: No such file", (void)read_npy("/nowhere/x.npy"));
  EXPECT_ERROR(ErrorCode::cannot_read, "/", (void)read_npy("/"));
}

TEST(Npy, CutOrFlippedAnywhere) {
  const std::string whole = file_of("<f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6}));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_ERROR(ErrorCode::bad_npy, "x", (void)parse_npy(std::string_view(whole).substr(0, length), "x"));
  }
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      (void)parse_npy(flipped, "x");  // may be another array
    } catch (const Error& error) { EXPECT_EQ(error.code(), ErrorCode::bad_npy); }
  }
}

TEST(Npy, WritesWhatItReads) {
  const std::string path = testing::TempDir() + "written.npy";
  const std::vector<std::uint16_t> bf = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0};
  // The transpose of a 3 x 2 array: 2 x 3 with strides 1, 2.
  cli::write_npy(path, Tensor(bf.data(), bf16, {2, 3}, {1, 2}));
  const cli::Array array = read_npy(path);
  EXPECT_EQ(array.dtype, f32);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(elements<float>(array), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  for (const DType type : {f32, f16, s8, u8, i32, i64, boolean}) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(3 * size_of(type)), std::byte{1});
    cli::write_npy(path, Tensor(bytes.data(), type, {3}));
    EXPECT_EQ(read_npy(path).dtype, type);
    EXPECT_EQ(read_npy(path).bytes, bytes);
  }
  const float scalar = 2.5f;
  cli::write_npy(path, Tensor(&scalar, f32, {}));
  EXPECT_TRUE(read_npy(path).shape.empty());
  std::remove(path.c_str());
  EXPECT_ERROR(ErrorCode::cannot_write, "cannot be written",
               cli::write_npy("/nowhere/x.npy", Tensor(&scalar, f32, {})));
}

TEST(Draw, SameForEveryone) {
  using cli::Distribution;
  const cli::Array a = cli::draw(f32, {1000}, Distribution::normal(2), 1, "A");
  EXPECT_EQ(a.bytes, cli::draw(f32, {1000}, Distribution::normal(2), 1, "A").bytes);
  EXPECT_NE(a.bytes, cli::draw(f32, {1000}, Distribution::normal(2), 1, "B").bytes);
  EXPECT_NE(a.bytes, cli::draw(f32, {1000}, Distribution::normal(2), 2, "A").bytes);
  double sum = 0, squares = 0;
  for (const float x : elements<float>(a)) {
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 1000, 0, 0.3);
  EXPECT_NEAR(squares / 1000, 4, 0.8);
  const std::vector<std::int64_t> labels =
      elements<std::int64_t>(cli::draw(i64, {1000}, Distribution::uniform(0, 7), 3, "label"));
  EXPECT_EQ(*std::min_element(labels.begin(), labels.end()), 0);
  EXPECT_EQ(*std::max_element(labels.begin(), labels.end()), 6);
}

}  // namespace
