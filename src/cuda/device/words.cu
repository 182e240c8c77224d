R"cuda(
// Elements that lie side by side from an address on, 4 bytes at a time. A word that reaches behind the end may reach behind the
// allocation.
struct Words {
  const u32* words;
  int shift, bytes;  // of the first element in the first word; from there on
  METHOD Words(i64 start, int elements) : words((const u32*)(start - (start & 3))), shift(int(start & 3)), bytes(elements * int(sizeof(WORD))) {}
  METHOD u32 word(int w) const {
    if (4 * w + 4 - shift <= bytes) return words[w];
    u32 x = 0;
    for (int b = 0; b < 4; b += sizeof(WORD))
      if (u32(4 * w + b - shift) < u32(bytes)) x |= u32(*(const WORD*)((const u8*)(words + w) + b)) << 8 * b;
    return x;
  }
};
)cuda"
