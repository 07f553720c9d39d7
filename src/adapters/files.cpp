#include <re2/re2.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "adapters/read_file.hpp"
#include "adapters/time_left.hpp"
#include "base/printable.hpp"
#include "shmcoord/adapters.hpp"

// Files and what stands in them.
//
// A pattern comes from whoever wrote the guard, so it must neither cost time without end nor memory: RE2 searches in
// time that grows with the file alone, and gives up with a reason at its limit. Its matching cannot be ended by a
// deadline, so what bounds it is the limit of the file's size.

namespace shmcoord::adapters {
namespace {

constexpr std::int64_t pattern_memory = 8 << 20;  // bytes, of the compiled pattern and the states of its search

class Files final : public GuardFiles {
 public:
  explicit Files(FileOptions options) : options_(std::move(options)) {}

  bool exists(const std::string& path, const GuardDeadline& deadline) override {
    check_path(path);
    check_time(deadline);
    struct stat st {};
    if (::stat(resolved(path).c_str(), &st) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw std::runtime_error(error_text(errno));
  }

  bool contains(const std::string& path, const std::string& pattern, const GuardDeadline& deadline) override {
    check_path(path);
    RE2::Options how;
    how.set_log_errors(false);
    how.set_max_mem(pattern_memory);
    const RE2 expression("(?m)" + pattern, how);  // ^ and $ at lines
    if (!expression.ok()) {
      throw std::runtime_error("the pattern is not valid: " + base::shortened(expression.error(), 200));
    }
    const std::string text = read_regular_file(resolved(path), options_.max_bytes, deadline);
    return RE2::PartialMatch(text, expression);
  }

 private:
  [[nodiscard]] std::string resolved(const std::string& path) const {
    return options_.base_dir.empty() ? path : (std::filesystem::path(options_.base_dir) / path).string();
  }

  FileOptions options_;
};

}  // namespace

std::shared_ptr<GuardFiles> files(FileOptions options) { return std::make_shared<Files>(std::move(options)); }

}  // namespace shmcoord::adapters
