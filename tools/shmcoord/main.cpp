#include "shmcoord/command_line.hpp"

int main(int argc, char** argv) { shmcoord::tool::run_command_line(argc, argv); }
