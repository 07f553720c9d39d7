#pragma once

#include <cstdint>
#include <string>

#include "process/primitive_client.hpp"
#include "shmcoord/arguments.hpp"

// What `lock …` and `sem …` have in common: for scripts that take in one command and give back in another.
//
// Such a hold belongs to no process that joined (it is detached): its holder id is all that there is, so whoever knows
// the id may release. It lives by its lease, or dies with the process that it is bound to.

namespace shmcoord::tool {

/// `acquire`: as the options of the name say it is made, if there is none.
int acquire_hold(const Arguments& arguments, const process::NameOptions& name, std::uint32_t weight);
int release_hold(const Arguments& arguments, engine::Kind kind);
int heartbeat_hold(const Arguments& arguments, engine::Kind kind);
int renew_hold(const Arguments& arguments, engine::Kind kind);
int status_of_holds(const Arguments& arguments, engine::Kind kind);
int remove_name(const Arguments& arguments, engine::Kind kind);

}  // namespace shmcoord::tool
