#include "engine/segment_name.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "core/names.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::engine {

std::string default_segment_name() { return "default-" + std::to_string(::geteuid()); }

std::string_view check_segment_name(std::string_view name) noexcept {
  if (name.size() > max_segment_name) return "is longer than 200 bytes";
  if (const std::string_view fault = core::check_name(name); !fault.empty()) return fault;
  if (name.front() == '.') return "starts with a dot";
  if (name.front() == ' ' || name.back() == ' ') return "starts or ends with a space";
  if (name.find('/') != std::string_view::npos) return "contains a slash";
  return {};
}

std::string segment_path(const std::string& name_or_path) {
  if (name_or_path.find('/') == std::string::npos) {
    if (const std::string_view fault = check_segment_name(name_or_path); !fault.empty()) {
      // A control character must not reach a terminal or a log by way of the message.
      const bool printable = core::check_name(name_or_path).empty();
      throw Error(Errc::invalid_argument,
                  "segment name " + (printable ? "\"" + name_or_path + "\" " : std::string()) + std::string(fault));
    }
    return std::string(segment_directory) + "/" + std::string(segment_prefix) + name_or_path;
  }
  if (name_or_path.find('\0') != std::string::npos) {
    throw Error(Errc::invalid_argument, "segment path contains a zero byte");
  }
  if (name_or_path.back() == '/') {
    throw Error(Errc::invalid_argument,
                "segment path \"" + name_or_path + "\" ends with a slash: it names a directory");
  }
  std::error_code code;
  const std::filesystem::path absolute = std::filesystem::absolute(name_or_path, code);
  if (code) throw Error(Errc::system, "segment path \"" + name_or_path + "\": " + code.message());
  return absolute.string();
}

}  // namespace shmcoord::engine
