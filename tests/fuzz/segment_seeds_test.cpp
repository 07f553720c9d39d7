#include "fuzz/seeds.hpp"

TEST(SegmentFuzz, SeedsComeToAnEnd) { shmcoord::test::expect_seeds_end("segment"); }
