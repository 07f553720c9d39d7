#include "adapters/ports.hpp"
#include "adapters/with_parent.hpp"
#include "shmcoord/adapters_program.hpp"
#include "shmcoord/command_line.hpp"

int main(int argc, char** argv) {
  shmcoord::tool::run_with_parent(argc, argv);
  shmcoord::tool::use_adapters(shmcoord::tool::add_adapters);
  shmcoord::tool::run_command_line(argc, argv);
}
