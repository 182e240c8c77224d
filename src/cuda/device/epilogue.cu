R"cuda(
// The emitted epilogue on a consumer's accumulators, whichever instructions multiplied. `Passage` is the kernel's: how tile
// operands come to a subtile, where its outputs are staged, and how they leave.
// `tells`: what 64 rows have of their statistics is left for others. `ahead`: fragments of a loop's round that come before.
template <bool tells = true, class E, class Passage>
DEVICE void run_subtile(const Params& p, Tile& tile, E& epilogue, ACC (&acc)[MI][WG_COLUMNS / 2], ACC (&kept)[MI][WG_COLUMNS / 2], const Subtile s, Passage& by,
                        int ahead = 0) {
  const int atom = ROLLED == 2 ? 0 : s.i;
#ifdef STENCIL
  by.bring(acc, s.i);
#endif
  advance_columns(p, tile, epilogue, s);
  if (RESTAGES && s.group % SPAN == 0 && s.i % TOGETHER == 0) by.restage(tile);
  const u32 d = by.template staging<E>(tile);
  if (E::loads) by.take_operands(p, tile, epilogue);
  subtile_fragments(p, tile, epilogue, acc[atom], kept[atom], s.group, s.i, ahead, d);
  // The next is of the next 64 rows, once what is held at once of these is done.
  constexpr bool held_next = HELD && !HOLDS && !IsHeld<E>::value;
  if (ROLLED == 2 && (TOGETHER == MI || (s.group == GROUPS - 1 && !held_next))) {
    #pragma unroll
    for (int i = 0; i + 1 < MI; ++i) {
      exchange(acc[i], acc[i + 1]);
    }
  }
  if (s.i == MI - 1) epilogue.group_end(p, tile, s.group);
  if (E::copies) {
    __syncwarp();
    epilogue.copy(p, tile, s.group, s.i, d);
  }
  if (E::stores) by.template give_outputs<E>(p, tile, s, d);
  if (tells && (s.group + 1) % SPAN == 0) epilogue.rows_end(p, tile, s.group, s.i);
}

#if ROLLED == 1
// Groups `first` to `first + count` of a tile's columns, of the blocks of 64 rows from number i on that go side by side.
template <bool tells = true, class E, class Passage>
DEVICE void run_groups(const Params& p, Tile& tile, E& epilogue, ACC (&acc)[MI][WG_COLUMNS / 2], int first, int count, int i, Passage& by) {
  constexpr bool keeps = E::keeps > 0;
  #pragma unroll 1
  for (int group = first;;) {
    #pragma unroll
    for (int g = 0; g < GROUPS_AT_ONCE; ++g)
      #pragma unroll
      for (int j = i; j < i + TOGETHER; ++j)
        run_subtile<tells>(p, tile, epilogue, acc, acc, {group + g, j}, by, g * (SUB_N / 16));
    group += GROUPS_AT_ONCE;
    // Behind the tile's last group nobody wants the accumulators, but where they are what is kept.
    if (!keeps && (group == GROUPS || (IsHeld<E>::value && group == first + count))) break;
    #pragma unroll
    for (int j = i; j < i + TOGETHER; ++j) move_on<first_kept<E>, keeps>(acc[j]);
    if (group == first + count) break;
  }
}
#endif

// All subtiles of a tile.
template <class E, class Passage>
DEVICE void run_subtiles(const Params& p, Tile& tile, E& epilogue, ACC (&acc)[MI][WG_COLUMNS / 2], ACC (&kept)[MI][WG_COLUMNS / 2],
                         Passage& by) {
#if ROLLED == 1
  #pragma unroll
  for (int i = 0; i < MI; i += TOGETHER) run_groups(p, tile, epilogue, acc, 0, GROUPS, i, by);
#else
  UNROLL_SUBTILES
  for (int s = 0; s < SUBTILES; ++s) run_subtile(p, tile, epilogue, acc, kept, subtile(s), by);
#endif
}

#if HELD && ROLLED == 1
// What is held of `SPAN` groups of columns from `group` on, of the blocks of 64 rows from number i on that go side by side.
template <class Passage>
DEVICE void run_held(const Params& p, Tile& tile, const Epilogue& epilogue, Held& held, ACC (&kept)[MI][WG_COLUMNS / 2], int group, int i,
                     Passage& by) {
  #pragma unroll
  for (int j = i; j < i + TOGETHER; ++j) held.meet(p, tile, epilogue, group, j);
  run_groups(p, tile, held, kept, group, SPAN, i, by);
}
#elif HELD
// What is held of a subtile.
template <class Passage>
DEVICE void run_held(const Params& p, Tile& tile, const Epilogue& epilogue, Held& held, ACC (&kept)[MI][WG_COLUMNS / 2], const Subtile s,
                     Passage& by) {
  if (s.group % SPAN == 0) held.meet(p, tile, epilogue, s.group, s.i);
  run_subtile(p, tile, held, kept, kept, s, by);
}
#endif

#if PARKS
// All of a tile up to what it keeps for its statistics.
template <class Passage>
DEVICE void run_first(const Params& p, Tile& tile, Epilogue& epilogue, ACC (&acc)[MI][WG_COLUMNS / 2], ACC (&kept)[MI][WG_COLUMNS / 2],
                      Passage& by) {
  epilogue.reset();
#if ROLLED
  run_subtiles(p, tile, epilogue, acc, acc, by);
  #pragma unroll
  for (int i = 0; i < MI; ++i)
    #pragma unroll
    for (int j = 0; j < WG_COLUMNS / 2; ++j) kept[i][j] = acc[i][j];
#else
  run_subtiles(p, tile, epilogue, acc, kept, by);
#endif
  epilogue.end(p, tile);
}
// What is held of a tile, once all tiles with its rows have told.
template <class Passage>
DEVICE void run_parked(const Params& p, Tile& tile, const Epilogue& epilogue, ACC (&kept)[MI][WG_COLUMNS / 2], Passage& by) {
  Held held;
  held.begin(p, tile);
#if ROLLED == 1
  #pragma unroll
  for (int i = 0; i < MI; i += TOGETHER) run_held(p, tile, epilogue, held, kept, 0, i, by);
#else
  UNROLL_SUBTILES
  for (int s = 0; s < SUBTILES; ++s) run_held(p, tile, epilogue, held, kept, subtile(s), by);
#endif
}
#endif

// All of a tile. What is held runs once more, when the statistics of a group's columns are known or (HOLDS) all tiles with these rows
// have told what they have of them. Then all blocks run (a cooperative launch), and tiles beside each other are taken at the same time,
// or by the consumers that have the next turn (blocks() in schedule.cpp): whoever is waited for comes. What is multiplied twice (AGAIN)
// tells the first time.
template <class Passage> DEVICE void run_epilogue(const Params& p, Tile& tile, Epilogue& epilogue, ACC (&acc)[MI][WG_COLUMNS / 2], Passage& by) {
  epilogue.reset();
#if AGAIN
  if (!tile.second) {
    run_subtiles(p, tile, epilogue, acc, acc, by);
    return;
  }
#endif
#if HELD
  Held held;
  if (!HOLDS) held.begin(p, tile);
#endif
#if ROLLED == 1
  constexpr int span = HELD ? SPAN : GROUPS;
  #pragma unroll
  for (int i = 0; i < MI; i += TOGETHER) {
    #pragma unroll 1
    for (int group = 0; group < GROUPS; group += span) {
      run_groups<!AGAIN>(p, tile, epilogue, acc, group, span, i, by);
#if HELD && !HOLDS
      run_held(p, tile, epilogue, held, acc, group, i, by);
#endif
    }
  }
#if HOLDS
  held.begin(p, tile);
  #pragma unroll
  for (int i = 0; i < MI; i += TOGETHER) run_held(p, tile, epilogue, held, acc, 0, i, by);
#endif
#elif HELD
#if ROLLED
  auto& kept = acc;
#else
  ACC kept[MI][WG_COLUMNS / 2];
#endif
  #pragma unroll
  for (int block = 0; block < SUBTILES; block += BLOCK) {
    UNROLL_SUBTILES
    for (int s = block; s < block + BLOCK; ++s) run_subtile<!AGAIN>(p, tile, epilogue, acc, kept, subtile(s), by);
    if (HOLDS && block == 0) held.begin(p, tile);
    UNROLL_SUBTILES
    for (int s = block; s < block + BLOCK; ++s) run_held(p, tile, epilogue, held, kept, subtile(s), by);
  }
#else
  run_subtiles(p, tile, epilogue, acc, acc, by);
#endif
  epilogue.end(p, tile);
}
)cuda"
