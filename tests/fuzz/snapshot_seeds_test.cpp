#include "fuzz/seeds.hpp"

TEST(SnapshotFuzz, SeedsComeToAnEnd) { shmcoord::test::expect_seeds_end("snapshot"); }
