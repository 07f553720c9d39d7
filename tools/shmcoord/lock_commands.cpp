#include "shmcoord/command_table.hpp"
#include "shmcoord/hold_commands.hpp"

// `shmcoord lock …`.

namespace shmcoord::tool {

using engine::Kind;

int lock_acquire(const Arguments& arguments) {
  return acquire_hold(arguments, {}, arguments.has("--shared") ? process::shared_lock : process::whole_lock);
}
int lock_release(const Arguments& arguments) { return release_hold(arguments, Kind::lock); }
int lock_heartbeat(const Arguments& arguments) { return heartbeat_hold(arguments, Kind::lock); }
int lock_renew(const Arguments& arguments) { return renew_hold(arguments, Kind::lock); }
int lock_status(const Arguments& arguments) { return status_of_holds(arguments, Kind::lock); }
int lock_remove(const Arguments& arguments) { return remove_name(arguments, Kind::lock); }

}  // namespace shmcoord::tool
