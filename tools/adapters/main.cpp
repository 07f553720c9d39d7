#include "adapters/ports.hpp"
#include "shmcoord/adapters_program.hpp"
#include "shmcoord/command_line.hpp"

int main(int argc, char** argv) {
  shmcoord::tool::use_adapters(shmcoord::tool::add_adapters);
  shmcoord::tool::run_command_line(argc, argv);
}
