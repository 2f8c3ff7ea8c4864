// The domain's directory: found, checked, and given its identity.
#include <comch/device.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/base/unique_fd.hpp"
#include "description.hpp"
#include "domain_files.hpp"
#include "environment.hpp"
#include "function.hpp"
#include "settings.hpp"

namespace comch {
namespace {

constexpr std::size_t max_bare_name = 64;

thread_local SettingNames names_of_settings;

/// `error`, and which setting with which value led there, if one did.
tl::unexpected<Error> blame(std::string_view setting, std::string_view given, Error error) {
    if (!given.empty())
        error.message = fmt::format("{} is '{}': {}", setting, given, error.message);
    return tl::unexpected(std::move(error));
}

/// Says why the directory cannot be opened, in terms of what stands in its place.
tl::unexpected<Error> explain_open_failure(const DomainDirectory& name, int parent, int error) {
    struct stat status {};
    if (fstatat(parent, name.last.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISLNK(status.st_mode))
            return fail(Errc::not_permitted,
                        fmt::format("the domain directory '{}' is a symbolic link, which may lead "
                                    "to another user's directory; name the directory itself in "
                                    "{}, or remove the link",
                                    name.path, name.setting));
        if (!S_ISDIR(status.st_mode))
            return fail(Errc::not_permitted,
                        fmt::format("the domain directory '{}' is not a directory; remove it, or "
                                    "name another in {}",
                                    name.path, name.setting));
        if (status.st_uid != geteuid())
            return fail(Errc::not_permitted,
                        fmt::format("the domain directory '{}' belongs to user {}, not to user {}, "
                                    "who runs this process; name another in {}",
                                    name.path, status.st_uid, geteuid(), name.setting));
    }
    return fail_errno(Errc::io, fmt::format("cannot open the domain directory '{}'", name.path),
                      error);
}

Result<UniqueFd> open_directory(const DomainDirectory& name) {
    const UniqueFd parent(open(name.parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!parent)
        return fail_errno(errno == ENOENT ? Errc::not_found : Errc::io,
                          fmt::format("cannot open '{}', in which the domain directory '{}' is to "
                                      "be",
                                      name.parent, name.last),
                          errno);
    // Again when another process creates the directory, or removes it, between the two calls.
    for (int attempt = 0; attempt < 16; ++attempt) {
        UniqueFd directory(openat(parent.get(), name.last.c_str(),
                                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (directory)
            return directory;
        if (errno != ENOENT)
            return explain_open_failure(name, parent.get(), errno);
        if (mkdirat(parent.get(), name.last.c_str(), 0700) != 0 && errno != EEXIST)
            return fail_errno(
                errno == EACCES || errno == EROFS ? Errc::not_permitted : Errc::io,
                fmt::format("cannot create the domain directory '{}', so name another in "
                            "{} (it may be there already: yours, with mode 0700)",
                            name.path, name.setting),
                errno);
    }
    return fail(Errc::io, fmt::format("the domain directory '{}' is created and removed by turns; "
                                      "stop what removes it",
                                      name.path));
}

/// Whoever controls a parent of the directory can put another in its place, but only one that
/// passes this: then it is ours, and nobody else can look or write inside.
Result<void> check_ownership(int directory, const DomainDirectory& name) {
    struct stat status {};
    if (fstat(directory, &status) != 0)
        return fail_errno(
            Errc::io, fmt::format("cannot examine the domain directory '{}'", name.path), errno);
    if (status.st_uid != geteuid())
        return fail(Errc::not_permitted,
                    fmt::format("the domain directory '{}' belongs to user {}, not to user {}, who "
                                "runs this process; name another in {}",
                                name.path, status.st_uid, geteuid(), name.setting));
    if (const auto mode = status.st_mode & 0777; mode != 0700)
        return fail(Errc::not_permitted,
                    fmt::format("the domain directory '{}' has mode {:04o}, but must have 0700 so "
                                "that no other user can reach into it; if it is comch's own and "
                                "nobody else has put anything there, run 'chmod 0700 {}', "
                                "otherwise name another in {}",
                                name.path, mode, name.path, name.setting));
    return {};
}

bool is_entry_name(std::string_view name) noexcept {
    return !name.empty() && name != "." && name != ".." &&
           name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<std::optional<DomainId>> read_id(int directory, const std::string& path) {
    const UniqueFd file(openat(directory, id_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file && errno == ENOENT)
        return std::nullopt;
    if (!file)
        return fail_errno(Errc::io, fmt::format("cannot open '{}/{}'", path, id_file), errno);
    DomainId id;
    std::array<std::uint8_t, sizeof id.bytes + 1> content{}; // one more, to see a longer file
    const auto size = read(file.get(), content.data(), content.size());
    if (size < 0)
        return fail_errno(Errc::io, fmt::format("cannot read '{}/{}'", path, id_file), errno);
    if (static_cast<std::size_t>(size) != id.bytes.size())
        return fail(Errc::io,
                    fmt::format("'{}/{}' is damaged: it is not {} bytes long; when no comch "
                                "process runs, remove the directory '{}' and start again",
                                path, id_file, id.bytes.size(), path));
    std::copy_n(content.begin(), id.bytes.size(), id.bytes.begin());
    return id;
}

/// Under the domain's lock. The file appears whole or not at all, so that readers need no lock;
/// what a killed process left half-made is overwritten.
Result<void> write_id(int directory, const std::string& path, const DomainId& id) {
    unlinkat(directory, new_id_file, 0);
    const UniqueFd file(
        openat(directory, new_id_file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file)
        return fail_errno(Errc::io, fmt::format("cannot create '{}/{}'", path, new_id_file), errno);
    // fsync: on a disk, the name could otherwise outlive a power failure without the bytes.
    if (write(file.get(), id.bytes.data(), id.bytes.size()) !=
            static_cast<ssize_t>(id.bytes.size()) ||
        fsync(file.get()) != 0 || renameat(directory, new_id_file, directory, id_file) != 0) {
        const int error = errno;
        unlinkat(directory, new_id_file, 0);
        return fail_errno(Errc::io, fmt::format("cannot write '{}/{}'", path, id_file), error);
    }
    return {};
}

/// A hash that both machines compute: neither it nor its key ever change.
DomainId id_of_name(std::string_view name) {
    const std::string key = fmt::format("comch domain {}", name);
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(key.data(), key.size()));
    DomainId id;
    std::copy_n(bytes.digest, id.bytes.size(), id.bytes.begin());
    return id;
}

} // namespace

NamedSettings::NamedSettings(const SettingNames& names) noexcept : before_(names_of_settings) {
    names_of_settings = names;
}

NamedSettings::~NamedSettings() {
    names_of_settings = before_;
}

const SettingNames& setting_names() noexcept {
    return names_of_settings;
}

Result<DomainDirectory> domain_directory(const DomainOptions& options) {
    const bool from_options = !options.directory.empty();
    const std::string given = from_options ? options.directory : environment("COMCH_DOMAIN");
    const std::string setting(from_options ? names_of_settings.domain : "COMCH_DOMAIN");

    std::string path = fmt::format("/dev/shm/comch-{}", geteuid());
    if (!given.empty() && given.front() == '/') {
        path = given;
    } else if (!given.empty()) {
        if (!is_plain_name(given) || given.size() > max_bare_name)
            return fail(Errc::invalid_argument,
                        fmt::format("{} is '{}'; it must be an absolute path, or a bare name of "
                                    "at most {} letters, digits, '_', '-' and '.', not beginning "
                                    "with '-' or '.', which stands for {}-<name>",
                                    setting, given, max_bare_name, path));
        path += "-" + given;
    }
    // "link/" and "link/." would be followed even with O_NOFOLLOW.
    while (path.size() > 1 && path.back() == '/')
        path.pop_back();
    const auto slash = path.rfind('/');
    DomainDirectory directory{path, slash == 0 ? "/" : path.substr(0, slash),
                              path.substr(slash + 1), setting, given};
    if (directory.last.empty() || directory.last == "." || directory.last == "..")
        return fail(Errc::invalid_argument,
                    fmt::format("{} is '{}', whose last part names no directory of its own; write "
                                "for example /dev/shm/comch-lab",
                                setting, given));
    return directory;
}

std::string DomainId::to_string() const {
    std::string text;
    for (const auto byte : bytes)
        text += fmt::format("{:02x}", byte);
    return text;
}

Result<std::shared_ptr<Domain>> Domain::open(const DomainOptions& options) {
    const auto name = domain_directory(options);
    if (!name)
        return tl::unexpected<Error>(name.error());
    auto directory = open_directory(*name);
    if (!directory)
        return blame(name->setting, name->given, directory.error());
    if (const auto checked = check_ownership(directory->get(), *name); !checked)
        return blame(name->setting, name->given, checked.error());

    std::unique_ptr<Domain> made(new Domain(directory->get(), name->path));
    (void)directory->release(); // the domain closes it from here on
    std::shared_ptr<Domain> domain(std::move(made));
    if (faccessat(AT_FDCWD, domain->socket_path("").c_str(), F_OK, 0) != 0)
        return fail(Errc::unsupported, "comch reaches the sockets of a domain through "
                                       "/proc/thread-self/fd, which is not there; mount /proc");
    if (const auto loaded = domain->load_id(); !loaded)
        return blame(name->setting, name->given, loaded.error());
    const bool file_from_options = !options.description_file.empty();
    const std::string file =
        file_from_options ? options.description_file : environment("COMCH_DOMAIN_FILE");
    auto description = load_description(domain->fd_, domain->path_, file);
    if (!description)
        return blame(file_from_options ? names_of_settings.domain_file : "COMCH_DOMAIN_FILE", file,
                     description.error());
    domain->description_ = std::move(*description);
    if (const std::string& shared = domain->description_.name; !shared.empty())
        domain->id_ = id_of_name(shared);
    return domain;
}

Domain::~Domain() {
    close(fd_);
}

Result<void> Domain::load_id() {
    auto id = read_id(fd_, path_);
    if (id && !*id) {
        const auto lock = this->lock();
        if (!lock)
            return tl::unexpected<Error>(lock.error());
        id = read_id(fd_, path_); // another may have been first
        if (id && !*id) {
            DomainId fresh;
            if (getrandom(fresh.bytes.data(), fresh.bytes.size(), 0) !=
                static_cast<ssize_t>(fresh.bytes.size()))
                return fail_errno(Errc::io, "cannot draw a random domain id", errno);
            if (const auto written = write_id(fd_, path_, fresh); !written)
                return written;
            id = fresh;
        }
    }
    if (!id)
        return tl::unexpected<Error>(id.error());
    id_ = **id;
    return {};
}

std::string Domain::directory_key() const {
    struct stat about {};
    (void)::fstat(fd_, &about); // an open descriptor: it does not fail
    return fmt::format("{:x}.{:x}", about.st_dev, about.st_ino);
}

std::string Domain::socket_path(std::string_view name) const {
    // Not self: that is the thread group's leader, whose descriptors are gone when it has ended.
    return fmt::format("/proc/thread-self/fd/{}/{}", fd_, name);
}

Result<std::vector<std::string>> Domain::list_entries(std::string_view prefix) const {
    // A descriptor of its own: the position in a directory belongs to the open file.
    const int fd = openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const directory = fd < 0 ? nullptr : fdopendir(fd);
    if (directory == nullptr) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return fail_errno(Errc::io, fmt::format("cannot list the domain directory '{}'", path_),
                          error);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> closer(directory, closedir);
    std::vector<std::string> names;
    for (;;) {
        errno = 0;
        const dirent* const entry = readdir(directory);
        if (entry == nullptr)
            break;
        const std::string_view name = entry->d_name;
        if (is_entry_name(name) && name.starts_with(prefix))
            names.emplace_back(name);
    }
    if (errno != 0)
        return fail_errno(Errc::io, fmt::format("cannot list the domain directory '{}'", path_),
                          errno);
    std::sort(names.begin(), names.end());
    return names;
}

Result<void> Domain::remove_entry(std::string_view name) const {
    // Without the id or the lock, processes that are there and that come would no longer meet.
    if (!is_entry_name(name) || name == id_file || name == lock_file)
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' is no entry of '{}' that can be removed", name, path_));
    // Whoever removes one is closing something, which must not need memory.
    std::array<char, NAME_MAX + 1> terminated{};
    name.copy(terminated.data(),
              NAME_MAX); // longer ones do not exist, and their beginning is no entry
    if (name.size() <= NAME_MAX && unlinkat(fd_, terminated.data(), 0) != 0 && errno != ENOENT)
        return fail_errno(Errc::io, fmt::format("cannot remove '{}/{}'", path_, name), errno);
    return {};
}

const Function* Domain::find_function(FunctionId id) const noexcept {
    if (id == dpu_function_id)
        return &description_.dpu;
    for (const auto& function : description_.host)
        if (function.id == id)
            return &function;
    return nullptr;
}

std::vector<Function> Domain::functions(Side side) const {
    return side == Side::dpu ? std::vector<Function>{description_.dpu} : description_.host;
}

} // namespace comch
